{{/*
What the pods of all components share. Each takes (dict "root" $ "component" "<name>"), where the
component names its block in the values.
*/}}

{{/* A Deployment's spec up to and without its containers and volumes. */}}
{{- define "di.deployment-spec" -}}
{{- $values := index .root.Values .component -}}
{{- if not (kindIs "invalid" $values.replicas) }}
replicas: {{ $values.replicas }}
{{- end }}
selector:
  matchLabels:
    {{- include "di.selector-labels" . | nindent 4 }}
strategy:
  type: "RollingUpdate"
  rollingUpdate:
    {{- if $values.hostNetwork }}
    # A node has its ports once: the old pod leaves first.
    maxSurge: 0
    maxUnavailable: 1
    {{- else }}
    maxSurge: 1
    # A new pod is ready before an old one leaves.
    maxUnavailable: 0
    {{- end }}
{{- end }}

{{- define "di.pod-metadata" -}}
{{- $values := index .root.Values .component -}}
annotations:
  kubectl.kubernetes.io/default-container: {{ include "di.name" . | quote }}
  # A changed setting replaces the pods; without this they would keep the old one.
  checksum/config: {{ (include (print .root.Template.BasePath "/" .component "/configmap.yaml") .root | fromYaml).data | toJson | sha256sum | quote }}
  {{- range $key, $value := $values.podAnnotations }}
  {{ $key | quote }}: {{ $value | quote }}
  {{- end }}
labels:
  # Without the chart's version, which would replace all pods for nothing.
  {{- include "di.selector-labels" . | nindent 2 }}
  {{- with include "di.added-labels" (merge (dict) $values.podLabels .root.Values.commonLabels) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "di.pod-spec" -}}
{{- $values := index .root.Values .component -}}
serviceAccountName: {{ include "di.service-account-name" . | quote }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
securityContext:
  {{- include "di.pod-security-context" . | nindent 2 }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ .name | quote }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $values.topologySpread $values.topologySpread.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $values.topologySpread.topologyKey | quote }}
    whenUnsatisfiable: "ScheduleAnyway"
    # Count only the pods of one revision, or a rolling update would leave the new ones unspread.
    matchLabelKeys: ["pod-template-hash"]
    labelSelector:
      matchLabels:
        {{- include "di.selector-labels" . | nindent 8 }}
{{- end }}
{{- end }}

{{/* A container up to and without its ports, probes and mounts. */}}
{{- define "di.container" -}}
{{- $values := index .root.Values .component -}}
name: {{ include "di.name" . | quote }}
image: {{ include "di.image" . | quote }}
imagePullPolicy: {{ $values.image.pullPolicy | quote }}
securityContext:
  {{- include "di.container-security-context" . | nindent 2 }}
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.drainSeconds }}
lifecycle:
  preStop:
    # Serve on until every node's proxy has taken this pod out of the Service.
    sleep:
      seconds: {{ $values.drainSeconds }}
{{- end }}
envFrom:
  - configMapRef:
      name: {{ include "di.name" . | quote }}
{{- end }}

{{/*
Pod Security "restricted", with the changes of the values. A platform with SecurityContextConstraints
(OpenShift) chooses the ids of a namespace, and refuses fixed ones.
*/}}
{{- define "di.pod-security-context" -}}
{{- $root := .root | default . -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not ($root.Capabilities.APIVersions.Has "security.openshift.io/v1") }}
{{- $context = merge $context (dict "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532) }}
{{- end }}
{{- range $key, $value := $root.Values.podSecurityContext }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $context $key }}{{ else }}{{ $_ := set $context $key $value }}{{ end }}
{{- end }}
{{- range $key, $value := $context }}
{{- if kindIs "float64" $value }}{{ $_ := set $context $key (int64 $value) }}{{ end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- define "di.container-security-context" -}}
{{- $root := .root | default . -}}
{{- $context := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- range $key, $value := $root.Values.containerSecurityContext }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $context $key }}{{ else }}{{ $_ := set $context $key $value }}{{ end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* The one writable folder. */}}
{{- define "di.scratch-volume" -}}
name: "tmp"
emptyDir:
  medium: "Memory"
  sizeLimit: "16Mi"
{{- end }}

{{- define "di.pdb" -}}
{{- $values := index .root.Values .component -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "di.name" . | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "di.labels" . | nindent 4 }}
spec:
  {{- $allowed := $values.pdb.maxUnavailable }}
  maxUnavailable: {{ if kindIs "string" $allowed }}{{ $allowed | quote }}{{ else }}{{ int $allowed }}{{ end }}
  # A pod that never became ready must not block a drain.
  unhealthyPodEvictionPolicy: "AlwaysAllow"
  selector:
    matchLabels:
      {{- include "di.selector-labels" . | nindent 6 }}
{{- end }}

{{/* DNS and the API server, whose address cannot be selected. */}}
{{- define "di.api-server-egress" -}}
- ports:
    - {protocol: "UDP", port: 53}
    - {protocol: "TCP", port: 53}
    - {protocol: "TCP", port: 443}
    - {protocol: "TCP", port: 6443}
{{- end }}
