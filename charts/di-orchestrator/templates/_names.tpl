{{/*
The only home of names. Objects in the release's namespace are called di-<component>, since clients
find the server under a fixed name; objects of the whole cluster carry the release's name.
*/}}

{{- define "di.name" -}}
di-{{ .component }}
{{- end }}

{{/* The ServiceAccount of a component. */}}
{{- define "di.service-account-name" -}}
{{ ((index .root.Values .component).serviceAccount).name | default (include "di.name" .) }}
{{- end }}

{{- define "di.cluster-name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 37 | trimSuffix "-") .Chart.Name }}
{{- end }}
{{- end }}

{{/* Not empty when the chart makes the PriorityClass of jobs with high priority. */}}
{{- define "di.makes-priority-class" -}}
{{- if and .Values.priorityClass.create (include "di.allows-cluster-roles" .) }}true{{ end }}
{{- end }}

{{/* That class, the chart's or somebody else's; empty: there is none. */}}
{{- define "di.high-priority-class" -}}
{{- if .Values.priorityClass.name }}
{{- .Values.priorityClass.name }}
{{- else if include "di.makes-priority-class" . }}
{{- printf "%s-high" (include "di.cluster-name" .) }}
{{- end }}
{{- end }}

{{- define "di.lease-name" -}}
di-operator
{{- end }}

{{/* The same for all releases: by it they find out that they look after the same jobs. */}}
{{- define "di.scope-lease-name" -}}
di-operator-scope
{{- end }}

{{/* The ConfigMap that the webhook's pods wait for. */}}
{{- define "di.webhook-admission-name" -}}
{{ include "di.name" (dict "component" "webhook") }}-admission
{{- end }}

{{- define "di.webhook-host" -}}
{{ include "di.name" (dict "component" "webhook") }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "di.server-host" -}}
{{ include "di.name" (dict "component" "server") }}.{{ .Release.Namespace }}.{{ .Values.serviceDomain }}
{{- end }}

{{- define "di.history-host" -}}
{{ include "di.name" (dict "component" "history") }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "di.dashboard-host" -}}
{{ include "di.name" (dict "component" "dashboard") }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The headless Service of the server's replicas. */}}
{{- define "di.server-peers-name" -}}
{{ include "di.name" (dict "component" "server") }}-peers
{{- end }}

{{/* What jobs with tasks are told. */}}
{{- define "di.server-url" -}}
{{- if include "di.server-secret" . -}}
https://{{ include "di.server-host" . }}:8443
{{- else -}}
http://{{ include "di.server-host" . }}:8081
{{- end }}
{{- end }}

{{/* <namespace>/<name> of the AggregatorConfig that jobs use. */}}
{{- define "di.aggregator-config" -}}
{{ .Release.Namespace }}/{{ .Values.aggregatorConfig.name }}
{{- end }}

{{/* The namespace whose DIJobs the test may create. */}}
{{- define "di.test-namespace" -}}
{{ .Values.watchNamespace | default .Release.Namespace }}
{{- end }}

{{/* Labels that select a component's pods. They can never change. */}}
{{- define "di.selector-labels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end }}

{{- define "di.labels" -}}
{{ include "di.selector-labels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .root.Chart.Name | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
{{- with include "di.added-labels" .root.Values.commonLabels | trim }}
{{ . }}
{{- end }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* Labels of the values, without those that this chart writes. */}}
{{- define "di.added-labels" -}}
{{- range $key, $value := . }}
{{- if not (or (hasPrefix "app.kubernetes.io/" $key) (eq $key "helm.sh/chart")) }}
{{ $key | quote }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* <registry>/<repository>@<digest>, or :<tag>. */}}
{{- define "di.image" -}}
{{- $image := (index .root.Values .component).image -}}
{{- with .root.Values.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}
