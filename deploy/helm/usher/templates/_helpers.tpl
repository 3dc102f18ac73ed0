{{- /* Written by `python -m usher.install`: edit src/usher/install and run `make fix`. */}}

{{- /* The settings file: the values under `config`, and where Usher lives. */}}
{{- define "usher.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if ne (dig "systemNamespace" .Release.Namespace $config) .Release.Namespace -}}
{{- fail (printf "config.systemNamespace: it is %s, where Usher is installed: say another with -n" .Release.Namespace)
-}}
{{- end -}}
{{- if dig "admission" "host" "" $config -}}
{{- fail "config.admission.host: it is for a manager outside of the cluster; the chart runs it inside" -}}
{{- end -}}
{{- $_ := set $config "systemNamespace" .Release.Namespace -}}
{{- toYaml $config -}}
{{- end }}

{{- /* Who decides at the door: policies (the webhook does the rest, if this is no audit), the webhook, or nobody (off).
*/}}
{{- define "usher.doors" -}}
{{- $mode := dig "admission" "mode" "auto" .Values.config -}}
{{- if and (eq .Values.config.mode "audit") (ne $mode "off") -}}
policies
{{- else if eq $mode "auto" -}}
{{- $has := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- ternary "policies" "webhook" $has -}}
{{- else -}}
{{- $mode -}}
{{- end -}}
{{- end }}

{{- /* Lists as they stand inside of a list of CEL, without the quotes at both ends. */}}
{{- define "usher.operators" -}}
{{- join "', '" (dig "admission" "operatorNamespaces" (list "kube-system") .Values.config) -}}
{{- end }}
{{- define "usher.queueKeys" -}}
{{- join "', '" (dig "labels" "queue" (list "scheduling.x-k8s.io/queue-name" "koord-queue/queue-name" "kube-queue/queue-name" "kueue.x-k8s.io/queue-name") .Values.config) -}}
{{- end }}
{{- define "usher.quotaKeys" -}}
{{- join "', '" (dig "labels" "quota" (list "scheduling.x-k8s.io/quota-name" "quota.scheduling.koordinator.sh/name") .Values.config) -}}
{{- end }}
{{- define "usher.elasticKeys" -}}
{{- join "', '" (dig "labels" "elastic" (list "scheduling.x-k8s.io/elastic" "kueue.x-k8s.io/elastic-job") .Values.config) -}}
{{- end }}
{{- define "usher.managed" -}}
{{- join "', '" (dig "managedNamespaces" (list) .Values.config) -}}
{{- end }}

{{- /* Refuses definitions of our names that are not ours. */}}
{{- define "usher.foreign" -}}
{{- if and .Values.crds.install (not .Values.crds.adopt) -}}
{{- range list "queues.scheduling.x-k8s.io" "queueunits.scheduling.x-k8s.io" "queuejobs.scheduling.x-k8s.io" "dynamicworkloads.scheduling.x-k8s.io" "queuequotas.scheduling.x-k8s.io" "admissionchecks.scheduling.x-k8s.io" -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" . -}}
{{- if and $there (ne (dig "metadata" "labels" "app.kubernetes.io/part-of" "" $there) "usher") -}}
{{- $text := "%s: this cluster has a definition of this name that is not Usher's. Uninstall what brought it, or let" -}}
{{- fail (printf (print $text " Usher take it over with --set crds.adopt=true --take-ownership.") .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
