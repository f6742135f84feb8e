{{- define "tributary.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tributary.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* What finds the Pods. It can never change, so nothing that changes is in it. */}}
{{- define "tributary.selector" -}}
app.kubernetes.io/name: {{ include "tributary.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "tributary.beside" -}}
{{- if eq .Values.mode "beside" }}true{{ end -}}
{{- end -}}

{{- define "tributary.writes" -}}
{{- if or (ne .Values.endpointSlices.write "disabled") .Values.endpointSlices.externalWorkloads }}true{{ end -}}
{{- end -}}

{{/* In the controller's place, the account is the controller's. */}}
{{- define "tributary.account" -}}
{{- if include "tributary.beside" . -}}
{{- default (include "tributary.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
linkerd-destination
{{- end -}}
{{- end -}}

{{- define "tributary.account.namespace" -}}
{{- if include "tributary.beside" . }}{{ .Release.Namespace }}{{ else }}{{ .Values.controllerNamespace }}{{ end -}}
{{- end -}}

{{- define "tributary.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "tributary.account" . }}
    namespace: {{ include "tributary.account.namespace" . }}
{{- end -}}

{{- define "tributary.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tributary.args" -}}
{{- if .Values.args -}}
{{ toYaml .Values.args }}
{{- else -}}
- serve
- --cluster-name={{ .Values.clusterName }}
- --controller-namespace={{ .Values.controllerNamespace }}
- --cluster-domain={{ .Values.clusterDomain }}
- --identity-trust-domain={{ default .Values.clusterDomain .Values.identityTrustDomain }}
- --default-opaque-ports={{ .Values.defaultOpaquePorts }}
- --outbound-transport-mode={{ .Values.outboundTransportMode }}
- --enable-h2-upgrade={{ .Values.enableH2Upgrade }}
- --enable-endpoint-slices={{ .Values.enableEndpointSlices }}
- --enable-ipv6={{ .Values.enableIPv6 }}
{{- with .Values.meshedHTTP2ClientParams }}
- {{ printf "--meshed-http2-client-params=%s" (toJson .) | squote }}
{{- end }}
{{- if .Values.xds.enabled }}
- --xds-addr=:18000
{{- end }}
{{- if eq .Values.endpointSlices.write "enabled" }}
- --endpoint-slices=on
{{- else if eq .Values.endpointSlices.write "remove" }}
- --endpoint-slices=remove
{{- end }}
{{- if .Values.endpointSlices.externalWorkloads }}
- --external-workload-slices
{{- end }}
- --log-level={{ .Values.logLevel }}
- --log-format={{ .Values.logFormat }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- end -}}
