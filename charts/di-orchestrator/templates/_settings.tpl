{{/*
Combinations that the schema cannot judge and that would install but not work.
*/}}
{{- define "di.checks" -}}
{{- $namespaced := not (include "di.allows-cluster-roles" .) -}}
{{- if and $namespaced .Values.webhook.enabled (eq .Values.certificates.mode "auto") }}
{{- fail "watchNamespace with certificates.mode=auto: publishing the authority in the webhook configurations needs a ClusterRole. Set rbac.allowClusterRoles=true, or certificates.mode=existingSecret or cert-manager, or webhook.enabled=false." }}
{{- end }}
{{- if and $namespaced .Values.server.enabled (eq .Values.server.auth.mode "required") }}
{{- fail "watchNamespace with server.auth.mode=required: checking tokens needs a ClusterRole. Set rbac.allowClusterRoles=true, or server.auth.mode=optional." }}
{{- end }}
{{- if and .Values.webhook.enabled (not .Values.operator.enabled) (eq .Values.certificates.mode "auto") }}
{{- fail "certificates.mode=auto without the operator: nobody would make the webhook's certificate. Set operator.enabled=true, or certificates.mode=existingSecret or cert-manager." }}
{{- end }}
{{- end }}

{{/* Not empty when the release may have ClusterRoles, and what else belongs to the whole cluster. */}}
{{- define "di.allows-cluster-roles" -}}
{{- if or (not .Values.watchNamespace) .Values.rbac.allowClusterRoles }}true{{ end }}
{{- end }}

{{/* The Secret that the operator makes and renews; empty when somebody else does. */}}
{{- define "di.managed-secret" -}}
{{- if and .Values.webhook.enabled (eq .Values.certificates.mode "auto") }}{{ .Values.certificates.secretName }}{{ end }}
{{- end }}

{{/* Not empty when the operator shares nodes among preemptible jobs. */}}
{{- define "di.allocates" -}}
{{- if and .Values.operator.enabled .Values.operator.allocator.policy (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* Not empty when the server may ask the API server whose token a caller shows. */}}
{{- define "di.checks-tokens" -}}
{{- if and .Values.server.enabled (ne .Values.server.auth.mode "off") (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* Not empty when the server may watch nodes, to spread learners on several GPUs over them. */}}
{{- define "di.server-sees-nodes" -}}
{{- if include "di.allows-cluster-roles" . }}true{{ end }}
{{- end }}
