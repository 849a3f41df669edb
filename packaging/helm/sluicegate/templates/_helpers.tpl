{{/* Names, labels, the text of gateway.toml, and the pod. */}}

{{- define "sluicegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluicegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "sluicegate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sluicegate.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: {{ include "sluicegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluicegate.labels" -}}
{{ include "sluicegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The name of the Secret with the admin token; empty without a token. */}}
{{- define "sluicegate.tokenSecret" -}}
{{- if and .Values.admin.token.existingSecret .Values.admin.token.value -}}
{{- fail "admin.token: set existingSecret or value, not both" -}}
{{- end -}}
{{- if .Values.admin.token.value -}}
{{ include "sluicegate.fullname" . }}-admin
{{- else -}}
{{ .Values.admin.token.existingSecret }}
{{- end -}}
{{- end -}}

{{/* The key of the token in that Secret. */}}
{{- define "sluicegate.tokenKey" -}}
{{- if .Values.admin.token.value }}token{{ else }}{{ .Values.admin.token.key }}{{ end -}}
{{- end -}}

{{/* True if Prometheus or people reach the admin port by a Service. */}}
{{- define "sluicegate.hasAdminService" -}}
{{- if .Values.admin.service.enabled -}}
{{- if not (include "sluicegate.tokenSecret" .) -}}
{{- fail "admin.service.enabled: set admin.token.existingSecret or admin.token.value; without a token whoever reaches the Service sees and reloads the configuration" -}}
{{- end -}}
true
{{- else if .Values.serviceMonitor.enabled -}}
true
{{- end -}}
{{- end -}}

{{- define "sluicegate.toml" -}}
{{- if .Values.teams }}
include = ["/etc/sluicegate-teams/*.toml"]
{{- end }}

[server]
# Shorter than terminationGracePeriodSeconds by the seconds of preStop.
shutdown_timeout = "{{ .Values.gateway.shutdownSeconds }}s"
state_dir = "/state/counters"
{{- with .Values.gateway.server }}
{{ . | trim }}
{{- end }}
{{- range .Values.gateway.listeners }}

[[listener]]
address = "0.0.0.0:{{ .port }}"
{{- with .lines }}
{{ . | trim }}
{{- end }}
{{- end }}

[admin]
address = "0.0.0.0:{{ .Values.admin.port }}"
{{- if include "sluicegate.tokenSecret" . }}
token_file = "/etc/sluicegate-admin/token"
{{- end }}
{{- with .Values.gateway.admin }}
{{ . | trim }}
{{- end }}

{{ .Values.gateway.config | trim }}
{{ end -}}

{{- define "sluicegate.pod" -}}
metadata:
  labels:
    {{- include "sluicegate.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.podAnnotations (not .Values.serviceMonitor.enabled) }}
  annotations:
    {{- if not .Values.serviceMonitor.enabled }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .Values.admin.port | quote }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  # preStop, then shutdown_timeout, then a little.
  terminationGracePeriodSeconds: {{ add .Values.gateway.preStopSeconds .Values.gateway.shutdownSeconds 5 }}
  automountServiceAccountToken: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: { type: RuntimeDefault }
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if ne .Values.kind "DaemonSet" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluicegate.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: sluicegate
      image: "{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["run", "--config", "/etc/sluicegate/gateway.toml"]
      {{- with .Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- range .Values.gateway.listeners }}
        - { name: {{ .name }}, containerPort: {{ .port }} }
        {{- end }}
        - { name: admin, containerPort: {{ .Values.admin.port }} }
      startupProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 5
      livenessProbe:
        httpGet: { path: /healthz, port: admin }
        periodSeconds: 10
        failureThreshold: 3
      lifecycle:
        preStop:
          # SIGTERM closes the listeners; first every proxy of the cluster has to hear that this pod is leaving.
          sleep: { seconds: {{ .Values.gateway.preStopSeconds }} }
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: ["ALL"] }
      volumeMounts:
        # A directory, not a subPath: those are never updated.
        - { name: configuration, mountPath: /etc/sluicegate, readOnly: true }
        - { name: state, mountPath: /state }
        {{- if .Values.teams }}
        - { name: teams, mountPath: /etc/sluicegate-teams, readOnly: true }
        {{- end }}
        {{- if include "sluicegate.tokenSecret" . }}
        - { name: admin-token, mountPath: /etc/sluicegate-admin, readOnly: true }
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: configuration
      configMap: { name: {{ include "sluicegate.fullname" . }} }
    {{- if not .Values.state.persistence.enabled }}
    - name: state
      emptyDir: { medium: Memory, sizeLimit: {{ .Values.state.size }} }
    {{- end }}
    {{- with .Values.teams }}
    - name: teams
      # One directory for all, which the kubelet swaps as a whole.
      projected:
        sources:
          {{- range . }}
          - configMap:
              name: {{ .configMap }}
              optional: true
              items: [{ key: {{ .key | default "limits.toml" }}, path: {{ .name }}.toml }]
          {{- end }}
    {{- end }}
    {{- with include "sluicegate.tokenSecret" . }}
    - name: admin-token
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items: [{ key: {{ include "sluicegate.tokenKey" $ }}, path: token }]
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
