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
        'system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "di.service-account-name" . }}'
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

{{/* The variables of `di.same-tasks`: names in order, which gives the pods their ranks. */}}
{{- define "di.task-names" -}}
variables:
  - name: namesBefore
    expression: "dyn(oldObject.spec).?tasks.orValue([]).map(t, t.?name.orValue(t.type))"
  - name: namesAfter
    expression: "dyn(object.spec).?tasks.orValue([]).map(t, t.?name.orValue(t.type))"
{{- end }}

{{/*
CEL: the tasks of a job are the same but for their replicas, and which of them. One that has no name
may get one: the mutating webhook fills it in, in passing.
*/}}
{{- define "di.same-tasks" -}}
variables.namesBefore == variables.namesAfter &&
dyn(object.spec).?tasks.orValue([]).all(t, dyn(oldObject.spec).?tasks.orValue([]).exists(o,
o.?name.orValue(o.type) == t.?name.orValue(t.type) &&
o.all(k, k in ['replicas', 'vacant'] || k in t) &&
t.all(k, k in ['replicas', 'vacant'] || (k in o ? t[k] == o[k] : k == 'name'))))
{{- end }}
