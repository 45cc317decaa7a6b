{{/* Labels of an object. Takes {name, root}. */}}
{{- define "trackbed.labels" -}}
{{ include "trackbed.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trackbed
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* By what a program's pods are known: a cluster has Trackbed once, so the name says it all. */}}
{{- define "trackbed.selector" -}}
app.kubernetes.io/name: {{ .name }}
{{- end }}

{{/* What every object of the namespace begins its metadata with. Takes {name, root}. */}}
{{- define "trackbed.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "trackbed.labels" . | nindent 2 }}
{{- end }}

{{/* The same for objects of the whole cluster. */}}
{{- define "trackbed.clusterMetadata" -}}
name: {{ .name }}
labels:
  {{- include "trackbed.labels" . | nindent 2 }}
{{- end }}

{{- define "trackbed.image" -}}
{{- with .Values.image -}}
{{- $repository := required "image.repository is empty, and no image of Trackbed is published yet: build one in a clone by `podman build -t REGISTRY/trackbed:TAG .` (or scripts/image), push it, and say --set image.repository=REGISTRY/trackbed,image.tag=TAG" .repository -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A ServiceAccount that may what its roles say. Takes {name, root}. */}}
{{- define "trackbed.binding" -}}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/*
Where controller and webhook run: on any node of Linux, those that are being prepared included, or a roll-out over all
nodes would have nobody left to carry it out; if possible not two on one node. Takes {name, root, values}.
*/}}
{{- define "trackbed.placement" -}}
priorityClassName: {{ .values.priorityClassName }}
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") .values.nodeSelector | toYaml | nindent 2 }}
tolerations:
{{- include "trackbed.tolerations" . | nindent 0 }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "trackbed.selector" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}

{{- define "trackbed.tolerations" -}}
- {key: trackbed.dev/preparing, operator: Exists}
- {key: node.kubernetes.io/unschedulable, operator: Exists}
{{- with .values.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "trackbed.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Pods that talk to the API server and nothing else: level restricted of the Pod Security Standards. */}}
{{- define "trackbed.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "trackbed.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "trackbed.names" -}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}
