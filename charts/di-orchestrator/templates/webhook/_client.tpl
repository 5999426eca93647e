{{/* How the API server reaches the webhook at a path: takes (dict "root" $ "path" "/<path>"). */}}
{{- define "di.webhook-client" -}}
service:
  name: {{ include "di.name" (dict "component" "webhook") | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  path: {{ .path | quote }}
  port: 443
{{- /* In the other modes caBundle belongs to the operator or to cert-manager: rendered here, every
       upgrade would conflict with them or undo their work. */}}
{{- if and (eq .root.Values.certificates.mode "existingSecret") .root.Values.certificates.caBundle }}
caBundle: {{ .root.Values.certificates.caBundle | b64enc | quote }}
{{- end }}
{{- end }}

{{/* The authority that cert-manager makes for this release: name of its Certificate and its Issuer.
     Empty with an issuer of somebody else's. */}}
{{- define "di.made-authority" -}}
{{- if not .Values.certificates.issuer.name -}}
{{ include "di.name" (dict "component" "webhook") }}-ca
{{- end }}
{{- end }}

{{/* The annotation by which cert-manager publishes the authority; empty in the other modes. */}}
{{- define "di.injected-authority" -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
{{- $certificate := include "di.made-authority" . | default (include "di.name" (dict "component" "webhook")) -}}
cert-manager.io/inject-ca-from: {{ printf "%s/%s" .Release.Namespace $certificate | quote }}
{{- end }}
{{- end }}
