"""Runs the composers of the function over a store, as Crossplane would over a control plane."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce

from function.api.inference_environment import parse_environment
from function.api.settings import ENVIRONMENT_KEY, parse_settings
from function.capacity.ledger import admit_placements
from function.cli.options import CliError, Code
from function.cli.store import Ref, Store, is_ours, read_placements, set_owner
from function.composers import compose
from function.contract import Call, Composed, Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.parts.ledger import accept_labels
from function.remote.composed_kinds import (
    PLANNED_TIME,
    find_control_plane_kind,
    find_gpu_cluster_kind,
    list_true_conditions,
)
from function.remote.object_writer import with_provider_finalizer
from function.remote.observed_object import read_written
from function.status.inference_environment import build_ledger

CONFIG = "EnvironmentConfig"
INPUT = {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults"}
FUNCTION = "function-modelplane"
_CONFIGS_GROUP = "environmentconfigs.fn.crossplane.io/"
_CALLS = 6
_ROUNDS = 6
_HOUR = 3600


def build_first_call(store: Store, xr: Manifest) -> Call:
    """Returns the first call for a composite, with the data of the function-environment-configs steps before it."""
    environment: Manifest = {}
    input_: Manifest = {}
    for step in listing(find_composition(store, xr), "spec.pipeline"):
        step_input = mapping(step, "input")
        if is_settings_step(step):
            input_ = step_input
            break
        if reads_environment_configs(step):
            environment = _merge(environment, reduce(_merge, _read_data(store, mapping(step_input, "spec"))))
    context: Manifest = {ENVIRONMENT_KEY: environment} if environment else {}
    return Call(xr=xr, observed=store.owned(Ref.of(xr)), input=input_, context=context)


def is_settings_step(step: Manifest) -> bool:
    """Tells whether a step calls this function, which reads its input whatever apiVersion and kind it has."""
    group, _, _ = INPUT["apiVersion"].partition("/")
    # A dependency of a package is named after its repository: modelplane-function-modelplane.
    return text(step, "functionRef.name").endswith(FUNCTION) or text(step, "input.apiVersion").startswith(f"{group}/")


def reads_environment_configs(step: Manifest) -> bool:
    return text(step, "input.apiVersion").startswith(_CONFIGS_GROUP)


def find_composition(store: Store, xr: Manifest) -> Manifest | None:
    """Returns the Composition that a composite names, else its XRD's default, else the first for its kind."""
    type_ref = {"apiVersion": xr.get("apiVersion"), "kind": xr.get("kind")}
    matching = {
        text(c, "metadata.name"): c for c in store.all("Composition") if get(c, "spec.compositeTypeRef") == type_ref
    }
    names = (text(xr, "spec.crossplane.compositionRef.name"), f"{text(xr, 'kind').lower()}s", *matching)
    return next((matching[name] for name in names if name in matching), None)


def _read_data(store: Store, spec: Manifest) -> Iterator[Manifest]:
    """Returns the default data, then those of every source in order."""
    yield mapping(spec, "defaultData")
    for source in listing(spec, "environmentConfigs"):
        name = text(source, "ref.name")
        type_ = text(source, "type")
        if type_ == "Selector" or "toFieldPath" in source:
            way = "labels" if type_ == "Selector" else "toFieldPath"
            message = f"the Composition selects {CONFIG}s by {way}, which commands do not follow"
            raise CliError(f"{message}. Give a Composition without it with -f", Code.REFUSED)
        if config := store.get(Ref(CONFIG, "", name)):
            yield mapping(config, "data")
        elif text(spec, "policy.resolution") != "Optional":
            message = f"the Composition requires {CONFIG} {name}, which does not exist, and Crossplane composes nothing"
            advice = f"until that is corrected. Give the {CONFIG} with -f, or correct the Composition"
            raise CliError(f"{message} {advice}", Code.REFUSED)


def _merge(weaker: Manifest, stronger: Manifest) -> Manifest:
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def reconcile(
    store: Store, xr: Manifest, answer: Callable[[Call], Outcome] = compose, now: float = 0
) -> tuple[Call, Outcome]:
    """Returns the last of the calls that Crossplane would make for a composite, and its outcome."""
    call = replace(build_first_call(store, xr), now=now)
    outcome = answer(call)
    for _ in range(_CALLS):
        if set(outcome.requirements) == set(call.answers):
            break
        call = replace(call, answers={name: store.find(required) for name, required in outcome.requirements.items()})
        outcome = answer(call)
    return call, outcome


def apply_placements(store: Store, ref: Ref, composed: Mapping[str, Composed]) -> None:
    """Writes the placements of a deployment to the store, and publishes the ledgers of environments that change."""
    before = store.owned(ref)
    placements: dict[str, Manifest] = {}
    for key, item in composed.items():
        identity: Manifest = {"uid": f"planned-{Ref.of(item.manifest)}", "creationTimestamp": PLANNED_TIME}
        placements[key] = {**item.manifest, "metadata": {**mapping(item.manifest, "metadata"), **identity}}
    _replace_owned(store, ref, placements)
    changed = [m for key, m in store.owned(ref).items() if mapping(m, "spec") != mapping(before.get(key), "spec")]
    for name in {text(placement, "spec.inferenceEnvironmentRef.name") for placement in changed}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))


def publish_ledger(store: Store, ref: Ref) -> None:
    """Computes the published ledger of an environment again: its spec or its placements have changed.

    An environment without a published ledger, or from a file (without a uid), is left unchanged.
    """
    manifest = store.get(ref) or {}
    published = any("free" in pool for pool in listing(manifest, "status.pools"))
    if not published or not text(manifest, "metadata.uid"):
        return
    call = build_first_call(store, manifest)
    settings, placements = parse_settings(call.input, call.context).value, read_placements(store)
    environment = accept_labels(manifest, parse_environment(manifest, settings), placements, settings).value
    status = mapping(manifest, "status")
    ledger = build_ledger(environment, admit_placements(environment, placements), status)
    store.put({**manifest, "status": {**status, **ledger}})


def compose_up(store: Store, ref: Ref) -> Outcome:
    """Composes a composite with all its resources reported as up, and stores both.

    The status of an environment is kept as read, because the state of its cluster is unknown.
    """
    for number in range(_ROUNDS):
        xr = store[ref]
        before = store.owned(ref)
        _, outcome = reconcile(store, xr, now=number * _HOUR)  # every change of a route has settled in the next round
        _replace_owned(store, ref, {key: _report_up(item.manifest) for key, item in outcome.composed.items()})
        if ref.kind != "InferenceEnvironment":
            store.put({**xr, "status": build_status(xr, outcome)})
        if store[ref] == xr and store.owned(ref) == before:
            break
    return outcome


def _replace_owned(store: Store, owner: Ref, composed: Mapping[str, Manifest]) -> None:
    """Replaces the objects that a composite owns. Existing objects keep their identity and status."""
    manifests = [set_owner(store[owner], key, manifest) for key, manifest in composed.items()]
    for deleted in set(map(Ref.of, store.owned(owner).values())) - set(map(Ref.of, manifests)):
        store.drop(deleted)
    for manifest in manifests:
        store.lay_over(manifest)


def build_status(xr: Manifest, outcome: Outcome) -> Manifest:
    """Returns the status that Crossplane writes from an outcome, with its own conditions Synced and Ready."""
    unready = [name for name, item in sorted(outcome.composed.items()) if not item.ready]
    ready = not unready and outcome.ready is not False
    own = {str(c.type) for c in outcome.conditions} | {"Ready", "Synced"}
    others = [c for c in listing(xr, "status.conditions") if c.get("type") not in own]
    message = f"Unready resources: {', '.join(unready)}" if unready else ""
    core: list[JSON] = [
        {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
        {"type": "Ready", "status": str(ready), "reason": "Available" if ready else "Creating", "message": message},
    ]
    return {**outcome.status, "conditions": [*others, *list_conditions(outcome), *core]}


def list_conditions(outcome: Outcome) -> list[Manifest]:
    return [
        {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
        for c in outcome.conditions
    ]


def _report_up(resource: Manifest) -> Manifest:
    """Returns a composed resource with the status that it has once it is up; a composite has its own status."""
    if is_ours(resource):
        return resource
    conditions = list_true_conditions("Synced", "Ready")
    if text(resource, "kind") != "Object":
        kind = find_control_plane_kind(resource)
        metadata: Manifest = {**mapping(resource, "metadata"), "generation": 1}
        reported = kind.report_up(resource) if kind else {}
        return {**resource, "metadata": metadata, **(reported or {"status": {"conditions": conditions}})}
    desired = read_written(resource)
    remote_kind = find_gpu_cluster_kind(desired)
    metadata = {**mapping(desired, "metadata"), "uid": f"planned-{Ref.of(desired)}", "generation": 1}
    observed: Manifest = {**desired, "metadata": metadata, **(remote_kind.report_up(desired) if remote_kind else {})}
    status: Manifest = {"atProvider": {"manifest": observed}, "conditions": conditions}
    return {**with_provider_finalizer(resource), "status": status}
