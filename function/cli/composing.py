"""Runs the composers of the function over a store, as Crossplane would over a control plane.

`first_call` follows a Composition: the function's input, and the EnvironmentConfigs that steps of
function-environment-configs before it read. `reconcile` answers what a composer requires.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from function.api.inference_environment import parse_environment
from function.api.model_placement import parse_placement
from function.api.settings import ENVIRONMENT_KEY, parse_settings
from function.cli.options import CliError, Code
from function.cli.store import Ref, Store, is_ours, set_owner
from function.composers import compose
from function.contract import Call, Composed, Outcome
from function.kube.manifests import JSON, Manifest, copy_manifest, get, integer, listing, mapping, strings, text
from function.scheduling.admission import admit_placements
from function.status.environments import ledger

CONFIG = "EnvironmentConfig"
_OURS, _CONFIGS = "modelplane.fn.crossplane.io/", "environmentconfigs.fn.crossplane.io/"
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def first_call(store: Store, xr: Manifest) -> Call:
    """Return the first call that Crossplane would make for a composite."""
    composition = composition_of(store, xr)
    environment: Manifest = {}
    given: Manifest = {}
    for step in listing(composition, "spec.pipeline"):
        found = mapping(step, "input")
        if text(found, "apiVersion").startswith(_OURS):
            given = found
            break
        if asks_for_configs(step):
            data = mapping(found, "spec.defaultData")
            for source in _read_sources(store, xr, environment, mapping(found, "spec")):
                data = _merge(data, source)
            environment = _merge(environment, data)
    context: Manifest = {ENVIRONMENT_KEY: environment} if environment else {}
    return Call(xr=xr, observed=store.owned(Ref.of(xr)), input=given, context=context)


def asks_for_configs(step: Manifest) -> bool:
    """Tell whether a step of a pipeline reads EnvironmentConfigs."""
    return text(step, "input.apiVersion").startswith(_CONFIGS)


def composition_of(store: Store, xr: Manifest) -> Manifest | None:
    """Return the Composition that a composite names, else its XRD's default, else the first for its kind."""
    wanted = {"apiVersion": xr.get("apiVersion"), "kind": xr.get("kind")}
    fitting = {
        text(c, "metadata.name"): c for c in store.all("Composition") if get(c, "spec.compositeTypeRef") == wanted
    }
    names = (text(xr, "spec.crossplane.compositionRef.name"), f"{text(xr, 'kind').lower()}s", *fitting)
    return next((fitting[name] for name in names if name in fitting), None)


def _read_sources(store: Store, xr: Manifest, environment: Manifest, spec: Manifest) -> Iterator[Manifest]:
    """Return the data of every source in order, at the path where it goes."""
    optional = text(spec, "policy.resolution") == "Optional"
    for source in listing(spec, "environmentConfigs"):
        if text(source, "type") == "Selector":
            found = _select_configs(store, xr, environment, mapping(source, "selector"))
        else:
            found = _find_named(store, text(source, "ref.name"), optional=optional)
        for config in found:
            data: JSON = mapping(config, "data")
            for key in reversed(_split_path(text(source, "toFieldPath"))):
                data = {key: data}
            yield data if isinstance(data, dict) else {}


def _find_named(store: Store, name: str, *, optional: bool) -> Sequence[Manifest]:
    found = store.get(Ref(CONFIG, "", name))
    if found is None and not optional:
        raise _refuse(f"{CONFIG} {name}, which does not exist")
    return [] if found is None else [found]


def _select_configs(store: Store, xr: Manifest, environment: Manifest, selector: Manifest) -> Sequence[Manifest]:
    wanted = dict(_resolve_labels(xr, environment, selector))
    if not wanted:
        return []
    found = [c for c in store.all(CONFIG) if wanted.items() <= strings(c, "metadata.labels").items()]
    what = f"{CONFIG}s with {','.join(f'{key}={value}' for key, value in wanted.items())}"
    if text(selector, "mode") != "Multiple":
        if len(found) != 1:
            raise _refuse(f"exactly one of the {what}; there are {len(found)}")
        return found
    least = integer(selector, "minMatch")
    if len(found) < least:
        raise _refuse(f"at least {least} {what}; there are {len(found)}")
    most = selector.get("maxMatch")
    ordered = _sort_configs(found, text(selector, "sortByFieldPath") or "metadata.name")
    return ordered[:most] if isinstance(most, int) else ordered


def _resolve_labels(xr: Manifest, environment: Manifest, selector: Manifest) -> Iterator[tuple[str, str]]:
    read: Mapping[str, Manifest] = {"": xr, "FromCompositeFieldPath": xr, "FromEnvironmentFieldPath": environment}
    for matcher in listing(selector, "matchLabels"):
        type_, path = text(matcher, "type"), text(matcher, "valueFromFieldPath")
        value = matcher.get("value") if type_ == "Value" else _get_at(read.get(type_, {}), path)
        if isinstance(value, str):
            yield text(matcher, "key"), value
        elif text(matcher, "fromFieldPathPolicy") != "Optional":
            raise _refuse(f"the label {text(matcher, 'key')} of {CONFIG}s from {path}, which says nothing")


def _sort_configs(configs: Sequence[Manifest], path: str) -> list[Manifest]:
    """Return the configs by the value at a path, which is all text or all numbers; without one comes first."""
    values = [_get_at(config, path) for config in configs]
    if any(isinstance(value, str) for value in values):
        return [c for _, c in sorted(zip(values, configs, strict=True), key=lambda item: str(item[0] or ""))]
    return sorted(configs, key=lambda config: _read_number(_get_at(config, path)))


def _read_number(value: JSON) -> float:
    return value if isinstance(value, int | float) else 0


def _split_path(path: str) -> list[str]:
    """Return the keys of `spec.pools[0]` or `metadata.labels[example.org/tier]`."""
    return [bracketed or plain for bracketed, plain in _SEGMENT.findall(path)]


def _get_at(manifest: JSON, path: str) -> JSON:
    found = manifest
    for key in _split_path(path):
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _merge(weaker: Manifest, stronger: Manifest) -> Manifest:
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _refuse(what: str) -> CliError:
    return CliError(
        f"the Composition asks for {what}, and Crossplane composes nothing until that is mended. "
        f"Give the {CONFIG} with -f, or correct the Composition",
        Code.REFUSED,
    )


_CALLS, _ROUNDS = 6, 6
# Sorts after everything that exists: placements are charged in the order of their creation.
_LAST = "9999-12-31T23:59:59Z"


def reconcile(store: Store, xr: Manifest, ask: Callable[[Call], Outcome] = compose) -> tuple[Call, Outcome]:
    """Return the last of the calls that Crossplane would make for a composite, and its outcome."""
    call = first_call(store, xr)
    outcome = ask(call)
    for _ in range(_CALLS):
        if set(outcome.requirements) == set(call.answers):
            break
        answers = {name: store.find(wanted) for name, wanted in outcome.requirements.items()}
        call = Call(xr=xr, observed=call.observed, answers=answers, input=call.input, context=call.context)
        outcome = ask(call)
    return call, outcome


def apply_placements(store: Store, ref: Ref, composed: Mapping[str, Composed]) -> None:
    """Write the placements of a deployment to the store, and charge the new ones to their environments' ledgers."""
    before = {name: mapping(manifest, "spec") for name, manifest in store.owned(ref).items()}
    _replace_owned(store, ref, (set_owner(store[ref], key, _identify(c.manifest)) for key, c in composed.items()))
    after = store.owned(ref)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != mapping(after.get(key), "spec")}
    for name in {text(after[key], "spec.inferenceEnvironmentRef.name") for key in changed & after.keys()}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))


def publish_ledger(store: Store, ref: Ref) -> None:
    """Publish again what an environment has published: its spec or its placements have changed.

    An environment that has published nothing stays as it is, and so does one from a file, which has no uid.
    """
    manifest = store.get(ref) or {}
    published = any("free" in pool for pool in listing(manifest, "status.pools"))
    if not published or not text(manifest, "metadata.uid"):
        return
    call = first_call(store, manifest)
    environment = parse_environment(manifest, parse_settings(call.input, call.context).value).value
    placements = [p for p in (parse_placement(m).value for m in store.all("ModelPlacement")) if p]
    found = ledger(environment, admit_placements(environment, placements), mapping(manifest, "status"))
    store.put({**manifest, "status": {**mapping(manifest, "status"), **found}})


def compose_up(store: Store, ref: Ref) -> Outcome:
    """Compose a composite with everything that it composes reported as up, and keep both in the store.

    The status of an environment stays as it was read: whether its cluster answers is not known.
    """
    for _ in range(_ROUNDS):
        xr, before = store[ref], store.owned(ref)
        _, outcome = reconcile(store, xr)
        _replace_owned(store, ref, (report_up(set_owner(xr, k, c.manifest)) for k, c in outcome.composed.items()))
        if ref.kind != "InferenceEnvironment":
            store.put({**xr, "status": composite_status(xr, outcome)})
        if store[ref] == xr and store.owned(ref) == before:
            break
    return outcome


def _replace_owned(store: Store, owner: Ref, wanted: Iterable[Manifest]) -> None:
    """Make these the objects that a composite owns. What is there keeps its identity and its status."""
    manifests = list(wanted)
    for gone in {Ref.of(m) for m in store.owned(owner).values()} - {Ref.of(m) for m in manifests}:
        store.drop(gone)
    for manifest in manifests:
        store.lay_over(manifest)


def _identify(placement: Manifest) -> Manifest:
    """Return a placement with what the API server adds; what exists keeps its own."""
    identity: Manifest = {"uid": f"planned-{Ref.of(placement)}", "creationTimestamp": _LAST}
    return {**placement, "metadata": {**mapping(placement, "metadata"), **identity}}


def composite_status(xr: Manifest, outcome: Outcome) -> Manifest:
    """Return the status that Crossplane writes from an outcome, with its own conditions Synced and Ready."""
    unready = [name for name, item in sorted(outcome.composed.items()) if not item.ready]
    ready = not unready and outcome.ready is not False
    conditions: list[JSON] = [
        {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
        for c in outcome.conditions
    ]
    own = {str(c.type) for c in outcome.conditions} | {"Ready", "Synced"}
    others = [c for c in listing(xr, "status.conditions") if c.get("type") not in own]
    core: list[JSON] = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {
            "type": "Ready",
            "status": str(ready),
            "reason": "Available" if ready else "Creating",
            "message": f"Unready resources: {', '.join(unready)}" if unready else "",
        },
    ]
    return {**outcome.status, "conditions": [*others, *conditions, *core]}


def report_up(resource: Manifest) -> Manifest:
    """Return a composed resource with the status that it has once it is up; a composite has its own status."""
    if is_ours(resource):
        return resource
    conditions = _build_conditions("Synced", "Ready")
    if text(resource, "kind") != "Object":
        return {**resource, "status": {"conditions": conditions}}
    manifest = copy_manifest(mapping(resource, "spec.forProvider.manifest"))
    manifest["metadata"] = {**mapping(manifest, "metadata"), "uid": f"planned-{Ref.of(manifest)}", "generation": 1}
    manifest |= _REPORTS.get(text(manifest, "kind"), _report_nothing)(manifest)
    return {**resource, "status": {"atProvider": {"manifest": manifest}, "conditions": conditions}}


def _report_claim(manifest: Manifest) -> Manifest:
    size = text(manifest, "spec.resources.requests.storage") or "4Ti"
    modes = get(manifest, "spec.accessModes") or ["ReadWriteMany"]
    spec: Manifest = {"accessModes": modes, "volumeName": "planned", **mapping(manifest, "spec")}
    return {"spec": spec, "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}}


def _report_job(_: Manifest) -> Manifest:
    return {"status": {"succeeded": 1, "completionTime": _LAST, "conditions": _build_conditions("Complete")}}


def _report_class(_: Manifest) -> Manifest:
    return {"provisioner": "planned", "volumeBindingMode": "WaitForFirstConsumer"}


def _report_service(manifest: Manifest) -> Manifest:
    workload = "WorkerWorkloadReady" if "worker" in mapping(manifest, "spec") else "MainWorkloadReady"
    conditions = _build_conditions("PresetsCombined", workload, "WorkloadsReady", "RouterReady", "Ready")
    return {"status": {"observedGeneration": 1, "conditions": conditions}}


def _report_nothing(_: Manifest) -> Manifest:
    return {}


_REPORTS: Mapping[str, Callable[[Manifest], Manifest]] = {
    "PersistentVolumeClaim": _report_claim,
    "Job": _report_job,
    "StorageClass": _report_class,
    "LLMInferenceService": _report_service,
}


def _build_conditions(*types: str) -> list[JSON]:
    return [{"type": type_, "status": "True", "reason": "Planned"} for type_ in types]
