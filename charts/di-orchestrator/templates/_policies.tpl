{{/*
What the API server refuses a component's ServiceAccount although its roles allow it: roles know
kinds and names, policies know what an object says. Each takes
(dict "root" $ "component" "<name>" "purpose" "<what it is about>").
*/}}

{{/* Not empty when policies are installed. */}}
{{- define "di.has-policies" -}}
{{- if and .Values.admissionPolicies.enabled (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{- define "di.policy-name" -}}
{{ include "di.cluster-name" .root }}-{{ .component }}-{{ .purpose }}
{{- end }}

{{/*
A policy up to and without what it matches and demands, about what the account does or, with
"others" true, about what everybody else does.
*/}}
{{- define "di.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "di.policy-name" . | quote }}
  labels:
    {{- include "di.labels" . | nindent 4 }}
spec:
  failurePolicy: "Fail"
  matchConditions:
    - name: {{ include "di.name" . | quote }}
      expression: >-
        request.userInfo.username {{ ternary "!=" "==" (.others | default false) }}
        'system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "di.name" . }}'
{{- end }}

{{/* Puts the policy of the same arguments into force. */}}
{{- define "di.policy-binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "di.policy-name" . | quote }}
  labels:
    {{- include "di.labels" . | nindent 4 }}
spec:
  policyName: {{ include "di.policy-name" . | quote }}
  validationActions: ["Deny"]
{{- end }}

{{/*
CEL: two maps are the same but for some keys. Takes (dict "before" "<CEL>" "after" "<CEL>" "but"
"<CEL, a list>"). As dyn, since the API server's type check lets nobody walk over a typed object.
*/}}
{{- define "di.same-but" -}}
dyn({{ .after }}).all(k, k in {{ .but }} ||
(k in dyn({{ .before }}) && dyn({{ .before }})[k] == dyn({{ .after }})[k])) &&
dyn({{ .before }}).all(k, k in {{ .but }} || k in dyn({{ .after }}))
{{- end }}

{{/* CEL: the metadata that people and controllers write is the same. */}}
{{- define "di.same-metadata" -}}
object.metadata.?labels == oldObject.metadata.?labels &&
object.metadata.?finalizers == oldObject.metadata.?finalizers &&
object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
{{- end }}
