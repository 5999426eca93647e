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
{{- if and $namespaced .Values.operator.enabled .Values.operator.suspectTaintPercent }}
{{- fail "watchNamespace with operator.suspectTaintPercent: changing nodes needs a ClusterRole. Set rbac.allowClusterRoles=true, or operator.suspectTaintPercent=0." }}
{{- end }}
{{- if and $namespaced .Values.history.enabled }}
{{- fail "watchNamespace with history.enabled: checking tokens needs a ClusterRole. Set rbac.allowClusterRoles=true, or history.enabled=false." }}
{{- end }}
{{- with .Values.history.objectStorage }}
{{- if and .caKey (not .existingSecret) }}
{{- fail "history.objectStorage.caKey without existingSecret: name the Secret that has that key, or leave caKey empty." }}
{{- end }}
{{- if and .bucket (eq (int $.Values.history.retention.logKibibytes) 0) }}
{{- fail "history.objectStorage.bucket with history.retention.logKibibytes=0: whole logs, and no logs at all. Set logKibibytes to more, or leave bucket empty." }}
{{- end }}
{{- end }}
{{- if and .Values.history.enabled (not .Values.history.database.existingSecret) (gt (int .Values.history.replicas) 1) }}
{{- fail "history.replicas above 1 without a database: SQLite's file has one pod. Name the Secret of a PostgreSQL database in history.database.existingSecret, or set history.replicas=1." }}
{{- end }}
{{- if and (or .Values.webhook.enabled (include "di.server-secret" .) (include "di.history-secret" .) (include "di.dashboard-secret" .)) (not .Values.operator.enabled) (eq .Values.certificates.mode "auto") }}
{{- fail "certificates.mode=auto without the operator: nobody would make the certificates of the webhook, the server, the history and the dashboard. Set operator.enabled=true, or certificates.mode=existingSecret or cert-manager, or webhook.enabled=false, server.tls.enabled=false, history.tls.enabled=false and dashboard.enabled=false." }}
{{- end }}
{{- if and (include "di.server-secret" .) (eq .Values.certificates.mode "existingSecret") (not .Values.server.tls.secretName) }}
{{- fail "certificates.mode=existingSecret with server.tls.enabled: name the Secret with tls.crt, tls.key and ca.crt that you make for the server in server.tls.secretName, or set server.tls.enabled=false." }}
{{- end }}
{{- if and (include "di.history-secret" .) (eq .Values.certificates.mode "existingSecret") (not .Values.history.tls.secretName) }}
{{- fail "certificates.mode=existingSecret with history.tls.enabled: name the Secret with tls.crt and tls.key that you make for the history in history.tls.secretName, or set history.tls.enabled=false." }}
{{- end }}
{{- if and (include "di.dashboard-secret" .) (eq .Values.certificates.mode "existingSecret") (not .Values.dashboard.tls.secretName) }}
{{- fail "certificates.mode=existingSecret with dashboard.enabled: name the Secret with tls.crt and tls.key that you make for the dashboard in dashboard.tls.secretName, or set dashboard.enabled=false." }}
{{- end }}
{{- if and .Values.server.enabled (not .Values.server.tls.enabled) (not .Values.server.plainHTTP.enabled) }}
{{- fail "server.tls.enabled=false and server.plainHTTP.enabled=false: the server would have no port. Enable one, or set server.enabled=false." }}
{{- end }}
{{- end }}

{{/* Not empty when the release may have ClusterRoles, and what else belongs to the whole cluster. */}}
{{- define "di.allows-cluster-roles" -}}
{{- if or (not .Values.watchNamespace) .Values.rbac.allowClusterRoles }}true{{ end }}
{{- end }}

{{/* Not empty when jobs may have a queue of Kueue: some of what it has belongs to the whole cluster. */}}
{{- define "di.follows-kueue" -}}
{{- if and .Values.operator.kueue.enabled (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* The Secret of the server's certificate; empty when it serves plain HTTP only. */}}
{{- define "di.server-secret" -}}
{{- if and .Values.server.enabled .Values.server.tls.enabled }}{{ .Values.server.tls.secretName | default "di-server-tls" }}{{ end }}
{{- end }}

{{/* That of the history; empty when nothing but a port-forward reaches it. */}}
{{- define "di.history-secret" -}}
{{- if and .Values.history.enabled .Values.history.tls.enabled }}{{ .Values.history.tls.secretName | default "di-history-tls" }}{{ end }}
{{- end }}

{{/* That of the dashboard, which serves nothing but HTTPS; empty without it. */}}
{{- define "di.dashboard-secret" -}}
{{- if .Values.dashboard.enabled }}{{ .Values.dashboard.tls.secretName | default "di-dashboard-tls" }}{{ end }}
{{- end }}

{{/* Not empty when the dashboard asks the history: it knows it by the authority in its Secret. */}}
{{- define "di.dashboard-history" -}}
{{- if and .Values.dashboard.enabled (include "di.history-secret" .) (ne .Values.certificates.mode "existingSecret") }}true{{ end }}
{{- end }}

{{/* The same if the operator makes and renews them, and that of the webhook. */}}
{{- define "di.managed-server-secret" -}}
{{- if eq .Values.certificates.mode "auto" }}{{ include "di.server-secret" . }}{{ end }}
{{- end }}

{{- define "di.managed-history-secret" -}}
{{- if eq .Values.certificates.mode "auto" }}{{ include "di.history-secret" . }}{{ end }}
{{- end }}

{{- define "di.managed-dashboard-secret" -}}
{{- if eq .Values.certificates.mode "auto" }}{{ include "di.dashboard-secret" . }}{{ end }}
{{- end }}

{{- define "di.managed-webhook-secret" -}}
{{- if and .Values.webhook.enabled (eq .Values.certificates.mode "auto") }}{{ .Values.certificates.secretName }}{{ end }}
{{- end }}

{{/*
The ConfigMap whose ca.crt the operator writes once the webhook configurations hold the authority, and
which the webhook's pods wait for; empty when the operator does not publish it.
*/}}
{{- define "di.managed-admission" -}}
{{- if include "di.managed-webhook-secret" . }}{{ include "di.webhook-admission-name" . }}{{ end }}
{{- end }}

{{/* The Secret of the authority that issues all of them. */}}
{{- define "di.authority-secret" -}}
{{ .Values.certificates.secretName }}-ca
{{- end }}

{{/* All Secrets that the operator makes: a JSON list. */}}
{{- define "di.managed-secrets" -}}
{{- $leaves := compact (list (include "di.managed-webhook-secret" .) (include "di.managed-server-secret" .) (include "di.managed-history-secret" .) (include "di.managed-dashboard-secret" .)) -}}
{{ empty $leaves | ternary (list) (append $leaves (include "di.authority-secret" .)) | toJson }}
{{- end }}

{{/* The Secret with the key that the secrets of jobs are derived from. */}}
{{- define "di.job-secrets" -}}
di-job-secrets
{{- end }}

{{/* Not empty when the operator shares nodes among preemptible jobs. */}}
{{- define "di.allocates" -}}
{{- if and .Values.operator.enabled .Values.operator.allocator.policy (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* Not empty when the server may ask the API server whose token a caller shows. */}}
{{- define "di.checks-tokens" -}}
{{- if and .Values.server.enabled (ne .Values.server.auth.mode "off") (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* Not empty when replicas of the server tell each other of members: they know each other by token. */}}
{{- define "di.server-has-peers" -}}
{{- if and .Values.server.enabled (or (eq .Values.server.auth.mode "off") (include "di.checks-tokens" .)) }}true{{ end }}
{{- end }}

{{/* The port where they do. */}}
{{- define "di.server-peer-port" -}}
{{ .Values.server.tls.enabled | ternary 8443 8081 }}
{{- end }}

{{/* Not empty when the server may watch nodes, to spread learners on several GPUs over them. */}}
{{- define "di.server-sees-nodes" -}}
{{- if include "di.allows-cluster-roles" . }}true{{ end }}
{{- end }}
