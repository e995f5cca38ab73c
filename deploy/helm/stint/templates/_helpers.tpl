{{- define "stint.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- /* The name of the Service of the admin listener: a label of DNS, of 63 bytes at most. */}}
{{- define "stint.adminName" -}}
{{ include "stint.name" . | trunc 57 | trimSuffix "-" }}-admin
{{- end }}
{{- define "stint.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* The names under which pods reach the Services: a node answers requests without a token under no others. */}}
{{- define "stint.hosts" -}}
{{- $hosts := list }}
{{- range $service := list (include "stint.name" .) (include "stint.adminName" .) }}
{{- $inside := printf "%s.%s" $service $.Release.Namespace }}
{{- $hosts = concat $hosts (list $service $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside)) }}
{{- end }}
{{- with get (.Values.settings | default dict) "allowed-hosts" }}
{{- $hosts = append $hosts (join "," .) }}
{{- end }}
{{- join "," $hosts }}
{{- end }}
{{- define "stint.labels" -}}
{{ include "stint.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
