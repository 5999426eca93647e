{{/*
The certificate of a component, called by its host or without the domain. Takes (dict "root" $
"component" "<name>" "secret" "<name>" "host" "<name>").
*/}}
{{- define "di.certificate" -}}
{{- $name := include "di.name" . -}}
{{- $values := .root.Values.certificates -}}
{{- $authority := include "di.made-authority" .root -}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "di.labels" . | nindent 4 }}
spec:
  secretName: {{ .secret | quote }}
  dnsNames:
    - {{ .host | quote }}
    - {{ printf "%s.%s" $name .root.Release.Namespace | quote }}
  privateKey:
    algorithm: "ECDSA"
    size: 256
    rotationPolicy: "Always"
  issuerRef:
    group: {{ ternary "cert-manager.io" $values.issuer.group (ne $authority "") | quote }}
    kind: {{ ternary "Issuer" $values.issuer.kind (ne $authority "") | quote }}
    name: {{ $authority | default $values.issuer.name | quote }}
{{- end }}
