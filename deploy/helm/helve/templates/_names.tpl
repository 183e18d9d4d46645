{{- define "helve.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "helve.metadata" -}}
labels:
  app.kubernetes.io/name: {{ .Release.Name }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "helve.tls" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" .Release.Name) }}
{{- end }}

{{- define "helve.peers" -}}
{{- range $seat := untilStep 1 (int (add1 .Values.foundingSeats)) 1 -}}
{{ $seat }}={{ $.Release.Name }}-{{ $seat }}.{{ $.Release.Name }}-peers:7401,
{{- end -}}
$(HELVE_ID)=$(POD_NAME).{{ .Release.Name }}-peers:7401
{{- end }}
