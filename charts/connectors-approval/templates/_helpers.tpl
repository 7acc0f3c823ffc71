{{/* Labels of an object: (dict "root" $ "component" "webhook"); objects of no one service have no component. */}}
{{- define "connectors.labels" -}}
app.kubernetes.io/name: connectors-approval
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* The selector of a service's pods, which never changes: (dict "component" "webhook"). */}}
{{- define "connectors.selector" -}}
app.kubernetes.io/name: connectors-approval
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The head of a pod template: labels and annotations. */}}
{{- define "connectors.podMetadata" -}}
labels:
  {{- include "connectors.labels" . | nindent 2 }}
{{- $annotations := dict "kubectl.kubernetes.io/default-container" .component }}
{{- if eq .root.Values.metrics.discovery "Annotations" }}
{{- $_ := set $annotations "prometheus.io/scrape" "true" }}
{{- $_ := set $annotations "prometheus.io/port" "9090" }}
{{- $_ := set $annotations "prometheus.io/path" "/metrics" }}
{{- end }}
annotations:
  {{- toYaml (merge (dict) .root.Values.podAnnotations $annotations) | nindent 2 }}
{{- end }}

{{/* The names of all services: of their workloads, accounts and images. Each has its resources among the values: (dict "root" $). */}}
{{- define "connectors.services" -}}
{{- $names := list }}
{{- range $key, $value := .root.Values }}
{{- if and (kindIs "map" $value) (hasKey $value "resources") }}{{ $names = append $names (kebabcase $key) }}{{ end }}
{{- end }}
{{- join " " $names }}
{{- end }}

{{- define "connectors.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := required "image.registry: say where the images are (build them from deploy/images/Dockerfile)" $image.registry -}}
{{- if $image.digests }}
{{- $missing := list }}
{{- range splitList " " (include "connectors.services" $) }}
{{- if not (hasKey $image.digests .) }}{{ $missing = append $missing . }}{{ end }}
{{- end }}
{{- with $missing }}
{{- fail (printf "image.digests: say those of %s too, or leave out all of them" (join ", " .)) }}
{{- end }}
{{- $digest := index $image.digests .component }}
image: {{ printf "%s/%s@%s" $registry .component $digest | quote }}
{{- else }}
image: {{ printf "%s/%s:%s" $registry .component (default .root.Chart.AppVersion $image.tag) | quote }}
{{- end }}
imagePullPolicy: {{ $image.pullPolicy }}
command: [/{{ .component }}]
{{- end }}

{{/*
  The environment of the services with the allocator of glibc. Tenants make services read long objects: buffers of them go
  back to the kernel at once (glibc would otherwise raise the threshold for that), and few arenas keep few fragments.
*/}}
{{- define "connectors.env" -}}
- {name: MALLOC_ARENA_MAX, value: "2"}
- {name: MALLOC_MMAP_THRESHOLD_, value: "131072"}
{{- end }}

{{/*
  The environment of the services with the allocator jemalloc (docs/adr/0021-jemalloc.md): memory that nothing uses goes back
  to the kernel after a second, and few arenas keep few fragments.
*/}}
{{- define "connectors.jemalloc" -}}
- {name: _RJEM_MALLOC_CONF, value: "narenas:2,max_background_threads:1,dirty_decay_ms:1000,muzzy_decay_ms:0"}
{{- end }}

{{- define "connectors.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The common fields of every pod of a Deployment. */}}
{{- define "connectors.deploymentPod" -}}
{{- $root := .root -}}
serviceAccountName: {{ .component }}
{{- include "connectors.pullSecrets" $root }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
nodeSelector:
  {{- toYaml $root.Values.nodeSelector | nindent 2 }}
{{- with $root.Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "connectors.selector" . | nindent 6 }}
{{- end }}

{{/* The security context of a container that needs nothing. */}}
{{- define "connectors.unprivileged" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "connectors.logArgs" -}}
- --log-filter={{ .Values.log.filter }}
- --log-format={{ .Values.log.format }}
{{- end }}

{{- define "connectors.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* How a client of the evaluation service verifies it, and how the client authenticates. */}}
{{- define "connectors.evaluationArgs" -}}
- --evaluation-url=https://evaluation-service.{{ .Release.Namespace }}.svc:8443
- --evaluation-ca=/etc/connectors/ca/ca.crt
- --evaluation-token=/var/run/secrets/connectors-evaluation/token
{{- end }}

{{- define "connectors.evaluationMounts" -}}
- {name: ca, mountPath: /etc/connectors/ca, readOnly: true}
- {name: evaluation-token, mountPath: /var/run/secrets/connectors-evaluation, readOnly: true}
{{- end }}

{{- define "connectors.evaluationVolumes" -}}
- name: ca
  configMap:
    name: connectors-ca
{{ include "connectors.evaluationToken" . }}
{{- end }}

{{- define "connectors.evaluationToken" -}}
- name: evaluation-token
  projected:
    sources:
    - serviceAccountToken: {audience: connectors-evaluation, expirationSeconds: 600, path: token}
{{- end }}

{{/* The egress that every NetworkPolicy allows: the API server, whose address no policy can know, and DNS. */}}
{{- define "connectors.egress" -}}
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
- ports:
  - {protocol: UDP, port: 53}
  - {protocol: TCP, port: 53}
{{- end }}

{{/* The user name of a service: (dict "root" $ "component" "csi-node"). */}}
{{- define "connectors.user" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ .component }}
{{- end }}

{{/* The services that write Roles and RoleBindings, as a CEL list of user names. */}}
{{- define "connectors.controllers" -}}
['{{ include "connectors.user" (dict "root" $ "component" "request-controller") }}', '{{ include "connectors.user" (dict "root" $ "component" "policy-controller") }}']
{{- end }}

{{/* Whether a service asks, in CEL: (dict "root" $ "component" "request-controller"). */}}
{{- define "connectors.isBy" -}}
request.userInfo.username == '{{ include "connectors.user" . }}'
{{- end }}

{{/* The controllers of every cluster that delete objects without an owner, and objects in a deleted namespace. */}}
{{- define "connectors.janitors" -}}
['system:serviceaccount:kube-system:generic-garbage-collector',
'system:serviceaccount:kube-system:namespace-controller',
'system:kube-controller-manager']
{{- end }}

{{/* The binding that puts a ValidatingAdmissionPolicy in force: (dict "root" $ "name" …), with other "actions" than Deny if given. */}}
{{- define "connectors.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "connectors.labels" (dict "root" .root) | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ toJson (.actions | default (list "Deny")) }}
{{- end }}
