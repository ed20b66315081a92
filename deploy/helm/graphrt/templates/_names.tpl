{{- define "graphrt.name" -}}
{{- if contains "graphrt" .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-graphrt" .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "graphrt.selector" -}}
app.kubernetes.io/name: graphrt
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "graphrt.labels" -}}
{{ include "graphrt.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "graphrt.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "graphrt.scheme" -}}
{{ if .Values.tls.secret }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{- define "graphrt.hasFiles" -}}
{{- if or .Values.config .Values.files -}}true{{- end -}}
{{- end -}}

{{- define "graphrt.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}
