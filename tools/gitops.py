"""Health checks of every kind for Argo CD (Lua) and Flux (CEL), in install/gitops; both have the same rule.

A composite is healthy if Crossplane's Ready is True for its current generation. Otherwise it has failed if one of its
conditions is False for a reason that does not pass by itself. What an author wrote wrong (`_ALWAYS`) counts also while
everything serves.
"""

import json
from collections.abc import Iterable, Iterator

import yaml

from function.composers import COMPOSERS
from function.kube.manifests import JSON, Manifest
from function.kube.names import GROUP, PAUSED, VERSION
from function.reasons import ConditionType, RolledOut
from function.status.conditions import PROGRESS_REASONS
from tools.programs import ROOT

FOLDER = ROOT / "install" / "gitops"
_CROSSPLANE = ("Ready", "Responsive")  # conditions of Crossplane that name no cause of their own
_ALWAYS = (ConditionType.MODEL_VALID, ConditionType.POOLS_VALID)
_HEADER = "# Written by `make generate` from tools/gitops.py; never edited.\n"

_LUA = """\
local passing = {@PASSING@}
local always = {@ALWAYS@}
local meta = obj.metadata
if meta.deletionTimestamp ~= nil then
  return {status = "Progressing", message = "is being deleted"}
end
if meta.annotations ~= nil and meta.annotations["@PAUSED@"] == "true" then
  return {status = "Suspended", message = "is paused"}
end
local ready, failed, waiting = false, nil, "has not been reconciled yet"
local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  conditions = obj.status.conditions
end
for _, condition in ipairs(conditions) do
  local current = condition.observedGeneration == nil or condition.observedGeneration == meta.generation
  local text = condition.type .. ": " .. (condition.message or condition.reason or "")
  if condition.type == "Ready" then
    ready = condition.status == "True" and current
  elseif condition.status == "False" and current then
    if always[condition.type] or (condition.type == "RolledOut" and condition.reason == "@STOPPED@") then
      return {status = "Degraded", message = text}
    elseif condition.type ~= "Responsive" and not passing[condition.reason] and failed == nil then
      failed = text
    end
  end
  if condition.status ~= "True" and condition.type ~= "Ready" then
    waiting = text
  end
end
if ready then
  return {status = "Healthy", message = ""}
elseif failed ~= nil then
  return {status = "Degraded", message = failed}
end
return {status = "Progressing", message = waiting}
"""


def generate() -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each file of install/gitops that is generated."""
    yield "argocd-cm.yaml", _HEADER + _dump(_build_argo_cd())
    yield "flux-kustomization.yaml", _HEADER + _dump(_build_flux())


def main() -> None:
    for name, content in generate():
        (FOLDER / name).write_text(content)


def build_lua() -> str:
    """Returns the health check of Argo CD, whose `obj` is the object."""
    values = {
        "PASSING": ", ".join(f"{reason} = true" for reason in sorted(PROGRESS_REASONS)),
        "ALWAYS": ", ".join(f"{type_} = true" for type_ in _ALWAYS),
        "PAUSED": PAUSED,
        "STOPPED": str(RolledOut.STOPPED),
    }
    script = _LUA
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    return script


def build_cel() -> dict[str, str]:
    """Returns the expressions `current` and `failed` of Flux, whose variables are the fields of the object."""
    is_current = "(!has(c.observedGeneration) || c.observedGeneration == metadata.generation)"
    ready = f"status.conditions.exists(c, c.type == 'Ready' && c.status == 'True' && {is_current})"
    stopped = f"(c.type == 'RolledOut' && c.reason == '{RolledOut.STOPPED}')"
    is_false = f"c.status == 'False' && {is_current}"
    wrong = f"status.conditions.exists(c, {is_false} && (c.type in {_list(_ALWAYS)} || {stopped}))"
    passing = f"c.type in {_list(_CROSSPLANE)} || c.reason in {_list(sorted(PROGRESS_REASONS))}"
    failed = f"status.conditions.exists(c, {is_false} && !({passing}))"
    return {
        "current": f"has(status.conditions) && {ready} && !{wrong}",
        "failed": f"has(status.conditions) && ({wrong} || (!{ready} && {failed}))",
    }


def _build_argo_cd() -> Manifest:
    data: Manifest = {f"resource.customizations.health.{GROUP}_{kind}": build_lua() for kind in COMPOSERS}
    labels: Manifest = {"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"}
    metadata: Manifest = {"name": "argocd-cm", "namespace": "argocd", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _build_flux() -> Manifest:
    checks: list[JSON] = [{"apiVersion": VERSION, "kind": kind, **build_cel()} for kind in COMPOSERS]
    spec: Manifest = {
        "interval": "10m",
        "path": "./models",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "models"},
        "wait": True,
        "timeout": "30m",
        "healthCheckExprs": checks,
    }
    metadata: Manifest = {"name": "models", "namespace": "flux-system"}
    return {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata, "spec": spec}


def _list(words: Iterable[str]) -> str:
    return json.dumps([*map(str, words)]).replace(chr(34), chr(39))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_text)


def _dump(manifest: Manifest) -> str:
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=1000)


if __name__ == "__main__":
    main()
