"""A control plane around the function in this process, and the manifests that its tests start from."""

import copy
import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.cli.inputs import read_files
from function.cli.store import Ref, Store
from function.cli.validation import Item
from function.composers import compose
from function.contract import Call, Outcome, Requirement
from function.kube.manifests import Manifest, condition, get, mapping, text
from function.runner import Runner
from function.wire import merge
from tools.control_plane import ControlPlane
from tools.engine import Engine, requirement
from tools.world import World

EXAMPLES = Path(__file__).parents[2] / "examples"
# Those that are applied. The objects of `render` have statuses, and docs/render.md only renders them; those of
# `ai-gateway` and `bring-your-own-cluster` are of other projects.
_NOT_APPLIED = {"render", "ai-gateway", "bring-your-own-cluster"}
APPLIED = tuple(path.name for path in sorted(EXAMPLES.iterdir()) if path.is_dir() and path.name not in _NOT_APPLIED)


def call(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    """Answer as the server would. The function awaits nothing, so that no event loop is needed."""
    answering = Runner().RunFunction(request.SerializeToString(), None)
    try:
        answering.send(None)
    except StopIteration as answered:
        response: fnv1.RunFunctionResponse = answered.value
        return response
    raise AssertionError("the function must not await anything")


def manifests(story: str) -> list[Manifest]:
    """Return the manifests of an example, in the order of its files."""
    return [item.manifest for item in read_files([str(EXAMPLES / story)]) if isinstance(item, Item)]


def plane(story: str, world: World | None = None, settings: Manifest | None = None) -> ControlPlane:
    """Return a control plane with an example applied, at rest; another one for each caller."""
    if world is None and settings is None:
        usual = _usual(story)
        # No test changes what was rendered, so that it needs no copy.
        return copy.deepcopy(usual, {id(kept): kept for kept in (usual.renderer, *usual.rounds)})
    return _at_rest(story, world or World(), settings)


@functools.cache
def _usual(story: str) -> ControlPlane:
    return _at_rest(story, World(), None)


def _at_rest(story: str, world: World, settings: Manifest | None) -> ControlPlane:
    started = ControlPlane(renderer=Engine(call, settings), world=world)
    started.apply(manifests(story))
    started.settle()
    return started


def only(control: ControlPlane, kind: str) -> Ref:
    """Return the one composite of a kind."""
    (found,) = control.all(kind)
    return found


def composed_placements(outcome: Outcome) -> dict[str, Manifest]:
    """Return the ModelPlacements of an outcome by composition-resource-name."""
    composed = {key: item.manifest for key, item in outcome.composed.items()}
    return {key: manifest for key, manifest in composed.items() if manifest["kind"] == "ModelPlacement"}


def said(control: ControlPlane, ref: Ref, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = condition(control.composites[ref], type_)
    return text(found, "status"), text(found, "reason")


def remote(control: ControlPlane, ref: Ref, prefix: str) -> dict[str, Manifest]:
    """Return the remote manifests that a composite desires now, of the composed resources with a prefix."""
    latest = control.rounds[-1].rendered[ref]
    return {key: manifest for key, manifest in latest.remote.items() if key.startswith(prefix)}


def request_of(control: ControlPlane, ref: Ref) -> fnv1.RunFunctionRequest:
    """Return the request for a composite at rest, with all requirements answered."""
    request = fnv1.RunFunctionRequest()
    merge(request.observed.composite.resource, control.composites[ref])
    for key, observed in control.store.owned(ref).items():
        merge(request.observed.resources[key].resource, observed)
    for _ in range(6):
        asked = call(request).requirements.resources
        if set(asked) == set(request.required_resources):
            break
        for name in set(request.required_resources) - set(asked):
            del request.required_resources[name]
        for name, selector in asked.items():
            answer = request.required_resources[name]
            del answer.items[:]
            for item in control.store.find(requirement(selector)):
                merge(answer.items.add().resource, item.load())
    return request


def fetched(first: Call, objects: Iterable[Manifest]) -> Call:
    """Return the last call of a reconcile whose required resources are answered from some objects."""
    return reconciled(first, objects)[0]


def reconciled(
    first: Call, objects: Iterable[Manifest], asked: Mapping[str, Requirement] | None = None
) -> tuple[Call, Outcome]:
    """Return the last call of a reconcile and what comes of it; `asked` is known to be asked for, or guessed."""
    store = Store(objects)
    found = first if asked is None else _answered(first, store, asked)
    for _ in range(6):
        outcome = compose(found)
        wanted = outcome.requirements
        if wanted == asked or (asked is None and wanted.keys() == found.answers.keys()):
            return found, outcome
        found, asked = _answered(found, store, wanted), wanted
    raise AssertionError("the required resources do not settle")


def _answered(call: Call, store: Store, asked: Mapping[str, Requirement]) -> Call:
    return replace(call, answers={name: store.find(wanted) for name, wanted in asked.items()})


def from_file(environment: Manifest) -> Manifest:
    """Return an environment as read from a file: without a uid and without a ledger."""
    metadata = {key: value for key, value in mapping(environment, "metadata").items() if key != "uid"}
    return {**environment, "metadata": metadata, "status": {"conditions": get(environment, "status.conditions")}}


def change(control: ControlPlane, ref: Ref, path: str, value: object) -> None:
    """Set a field of a composite; absent maps on the way are made, None removes it."""
    changed = copy.deepcopy(control.composites[ref])
    *way, last = path.split(".")
    place = changed
    for key in way:
        place = place.setdefault(key, {})  # type: ignore[assignment]  # maps all the way
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value  # type: ignore[assignment]  # any JSON
    control.composites[ref] = changed
