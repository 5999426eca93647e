{{/* Three seconds of nothing, under the strictest Pod Security level. */}}
{{- define "di.test-job" -}}
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata:
  name: {{ printf "%s-job" (include "di.name" (dict "component" "test")) | quote }}
  namespace: {{ include "di.test-namespace" . | quote }}
spec:
  backoffLimit: 0
  cleanPodPolicy: "All"
  # In case the test itself is killed before it tidies up.
  ttlSecondsAfterFinished: 300
  tasks:
    - type: "learner"
      replicas: 1
      template:
        spec:
          automountServiceAccountToken: false
          enableServiceLinks: false
          securityContext:
            {{- include "di.pod-security-context" . | nindent 12 }}
          {{- with .Values.imagePullSecrets }}
          imagePullSecrets:
            {{- range . }}
            - name: {{ .name | quote }}
            {{- end }}
          {{- end }}
          {{- with .Values.server.nodeSelector }}
          nodeSelector:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .Values.server.tolerations }}
          tolerations:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          containers:
            - name: "di-container"
              image: {{ include "di.image" (dict "root" . "component" "server") | quote }}
              imagePullPolicy: {{ .Values.server.image.pullPolicy | quote }}
              command: ["python3", "-c", "import time; time.sleep(3)"]
              securityContext:
                {{- include "di.container-security-context" . | nindent 16 }}
              resources:
                requests: {cpu: "10m", memory: "32Mi"}
                limits: {memory: "64Mi"}
{{- end }}
