"""The texts of the Helm chart that are not objects; `usher.install.chart` puts them into files."""

from __future__ import annotations

from typing import Final

HEADER: Final = "{{- /* Written by `python -m usher.install`: edit src/usher/install and run `make fix`. */}}\n"

VALUES_HEADER: Final = """\
# The values of the chart, which are those of `usher install -f FILE` as well.
# Written by `python -m usher.install` from src/usher/install/values.py.

"""

IGNORED: Final = "*.tgz\n.git\n.DS_Store\n"

HELPERS: Final = """\
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
@LISTS@
{{- /* Refuses definitions of our names that are not ours. */}}
{{- define "usher.foreign" -}}
{{- if and .Values.crds.install (not .Values.crds.adopt) -}}
{{- range list @KINDS@ -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" . -}}
{{- if and $there (ne (dig "metadata" "labels" "app.kubernetes.io/part-of" "" $there) "usher") -}}
{{- $text := "%s: this cluster has a definition of this name that is not Usher's. Uninstall what brought it, or let" -}}
{{- fail (printf (print $text " Usher take it over with --set crds.adopt=true --take-ownership.") .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
"""

CHECKS: Final = """\
{{- /* Written by `python -m usher.install`: no object, only what must hold before any is made. */}}
{{- include "usher.foreign" . }}
"""

NOTES: Final = """\
Usher {{ .Chart.AppVersion }} is installed in {{ .Release.Namespace }}.
{{- if eq .Values.config.mode "audit" }}
It decides and reports, and holds nothing: see Events, metrics and its log.
{{- else }}
Make a Queue, and label a Job with it:

  kubectl label job JOB scheduling.x-k8s.io/queue-name=QUEUE
{{- end }}

helm uninstall keeps the kinds with all their objects, and leaves jobs that wait suspended; `usher uninstall --help`
shows how to release them first.
"""
