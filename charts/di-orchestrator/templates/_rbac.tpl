{{/*
Roles and their bindings. Each takes (dict "root" $ "component" "<name>" "scope" "<scope>"), where
the scope says where the permissions hold:
  jobs     where DIJobs are looked after: one namespace, or all
  own      the release's namespace
  cluster  objects without a namespace; "purpose" names them
*/}}

{{- define "di.role-is-namespaced" -}}
{{- if or (eq .scope "own") (and (eq .scope "jobs") .root.Values.watchNamespace) }}true{{ end }}
{{- end }}

{{- define "di.role-name" -}}
{{- if eq .scope "own" -}}
{{ include "di.name" . }}
{{- else if include "di.role-is-namespaced" . -}}
{{ include "di.name" . }}-jobs
{{- else -}}
{{ include "di.cluster-name" .root }}-{{ .purpose | default .component }}
{{- end }}
{{- end }}

{{- define "di.role-metadata" -}}
name: {{ include "di.role-name" . | quote }}
{{- if include "di.role-is-namespaced" . }}
namespace: {{ eq .scope "own" | ternary .root.Release.Namespace .root.Values.watchNamespace | quote }}
{{- end }}
labels:
  {{- include "di.labels" . | nindent 2 }}
{{- end }}

{{/* A role up to and without its rules. */}}
{{- define "di.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ include "di.role-is-namespaced" . | empty | ternary "ClusterRole" "Role" }}
metadata:
  {{- include "di.role-metadata" . | nindent 2 }}
{{- end }}

{{/* Gives the role of the same arguments to the component's ServiceAccount. */}}
{{- define "di.role-binding" -}}
{{- $kind := include "di.role-is-namespaced" . | empty | ternary "ClusterRole" "Role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "di.role-metadata" . | nindent 2 }}
roleRef:
  apiGroup: "rbac.authorization.k8s.io"
  kind: {{ $kind | quote }}
  name: {{ include "di.role-name" . | quote }}
subjects:
  - kind: "ServiceAccount"
    name: {{ include "di.service-account-name" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}

{{/*
The resources of what jobs may bring along, by API group, as JSON: {group: [resource, ...]}. Without
ConfigMaps, which the operator has other uses for.
*/}}
{{- define "di.companions" -}}
{{- $found := dict }}
{{- range .Values.companions.kinds }}
{{- $group := contains "/" .apiVersion | ternary (splitList "/" .apiVersion | first) "" }}
{{- if or $group (ne .resource "configmaps") }}
{{- $_ := set $found $group (append (get $found $group | default list) .resource | uniq | sortAlpha) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/*
What the operator keeps for jobs that schedulers, evictions and autoscalers go by, by API group, as JSON: {group: [resource, ...]}.
*/}}
{{- define "di.scheduling-objects" -}}
{{- $groups := dict "scheduler-plugins" "scheduling.x-k8s.io" "volcano" "scheduling.volcano.sh" "kubernetes" "scheduling.k8s.io" }}
{{- $found := dict }}
{{- range .Values.scheduling.gangSchedulers }}
{{- $_ := set $found (get $groups .) (list "podgroups") }}
{{- end }}
{{- if .Values.scheduling.disruptionBudgets }}
{{- $_ := set $found "policy" (list "poddisruptionbudgets") }}
{{- end }}
{{- if .Values.scheduling.provisioningRequests }}
{{- $_ := set $found "" (list "podtemplates") }}
{{- $_ := set $found "autoscaling.x-k8s.io" (list "provisioningrequests") }}
{{- end }}
{{- toJson $found }}
{{- end }}
