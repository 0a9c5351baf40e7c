"""A ModelPlacement at rest with its required resources, to be edited and composed once more."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.composers import compose
from function.contract import Condition, Outcome
from function.kube.manifests import JSON, Manifest, mapping, text
from function.parts import requirements
from function.wire import merge, read_call, split_request
from tests.support.plane import plane
from tools.remote_stages import copy_manifest

SEVERAL_NODES, ONE_NODE = "kimi-k2-two-nodes", "gemma-one-gpu"
_REQUIRED = {
    requirements.MODEL: ("ClusterModel", "Model"),
    requirements.ENVIRONMENT: ("InferenceEnvironment",),
    requirements.CACHE: ("ModelCache",),
}


@dataclass(frozen=True)
class Scene:
    """The input of one call of the function; an edit returns another scene."""

    xr: Manifest
    observed: dict[str, Manifest]
    answers: dict[str, Manifest]
    input: Manifest = field(default_factory=dict)
    now: float = 0  # seconds since 1970

    def edited(self, *edits: "Edit") -> "Scene":
        """Returns the scene after some edits; this scene does not change."""
        made = Scene(
            copy_manifest(self.xr), _each(self.observed), _each(self.answers), copy_manifest(self.input), self.now
        )
        for edit in edits:
            edit(made)
        return made

    def request(self) -> fnv1.RunFunctionRequest:
        """Returns the request to the function."""
        request = fnv1.RunFunctionRequest(
            observed=fnv1.State(
                composite=_resource(self.xr), resources={key: _resource(found) for key, found in self.observed.items()}
            ),
            required_resources={name: fnv1.Resources(items=[_resource(m)]) for name, m in self.answers.items()},
        )
        merge(request.input, self.input)
        return request

    def outcome(self) -> Outcome:
        """Returns the outcome of the function."""
        call = replace(read_call(split_request(self.request().SerializeToString())), now=self.now)
        # Every existing resource is observed.
        orphans = {name: () for name, asked in compose(call).requirements.items() if asked.kind == "Object"}
        return compose(replace(call, answers={**orphans, **call.answers}))

    def composed(self, prefix: str = "service-") -> dict[str, Manifest]:
        """Returns the remote manifests that are composed, of the composed resources with a prefix."""
        return remote_manifests(self.outcome(), prefix)

    def condition(self, type_: str) -> Condition:
        """Returns a condition."""
        (found,) = (c for c in self.outcome().conditions if c.type == type_)
        return found

    def settled(self) -> "Scene":
        """Returns the scene in which the resources composed now are observed, with their earlier status."""
        outcome = self.outcome()
        observed = {}
        for key, item in outcome.composed.items():
            before = self.observed.get(key, {})
            observed[key] = {**item.manifest, **({"status": before["status"]} if "status" in before else {})}
        return replace(self, observed=observed)


Edit = Callable[[Scene], None]


def _each(manifests: dict[str, Manifest]) -> dict[str, Manifest]:
    return {name: copy_manifest(manifest) for name, manifest in manifests.items()}


_SCENES: dict[str, Scene] = {}


def build_scene(story: str) -> Scene:
    """Returns the first placement of an example, serving."""
    control = plane(story)
    ref = control.all("ModelPlacement")[0]
    answers = {
        name: copy.deepcopy(control.composites[found])
        for name, kinds in _REQUIRED.items()
        for kind in kinds
        for found in control.all(kind)[:1]
    }
    # These scenes do not test admission, so that the environment comes from a file, which admits everything.
    mapping(answers[requirements.ENVIRONMENT], "metadata").pop("uid")
    if not text(control.composites[ref], "spec.modelCache.name"):
        answers.pop(requirements.CACHE, None)
    observed = dict(control.rounds[-1].observed[ref])
    return copy.deepcopy(Scene(control.composites[ref], observed, answers))


def _resource(manifest: Manifest) -> fnv1.Resource:
    made = fnv1.Resource()
    merge(made.resource, manifest)
    return made


def remote_manifests(outcome: Outcome, prefix: str) -> dict[str, Manifest]:
    """Returns the remote manifests of an outcome, of the composed resources with a prefix."""
    return {
        key: mapping(item.manifest, "spec.forProvider.manifest")
        for key, item in sorted(outcome.composed.items())
        if key.startswith(prefix)
    }


def set_field(manifest: Manifest, path: str, value: JSON) -> None:
    """Set a field; absent maps on the way are made, in a list a number is an index, at its end the value is added."""
    *way, last = path.split(".")
    place: JSON = manifest
    for step in way:
        if isinstance(place, list):
            place = place[int(step)]
        elif isinstance(place, dict):
            place = place.setdefault(step, {})
    if isinstance(place, list):
        place.append(value)
        return
    assert isinstance(place, dict), path
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value


def edit_model(path: str, value: JSON) -> Edit:
    """Returns the edit of a field of the model's spec; None removes it."""
    return lambda scene: set_field(scene.answers[requirements.MODEL], f"spec.{path}", value)


def edit_environment(path: str, value: JSON) -> Edit:
    """Returns the edit of a field of the environment's spec; None removes it."""
    return lambda scene: set_field(scene.answers[requirements.ENVIRONMENT], f"spec.{path}", value)


def relabel_idle_pool(labels: JSON) -> Edit:
    """Returns the edit of the labels of the first pool, on which nothing is known to serve: the ledger was lost."""

    def edit(scene: Scene) -> None:
        set_field(scene.answers[requirements.ENVIRONMENT], "spec.nodePools.0.labels", labels)
        set_field(scene.answers[requirements.ENVIRONMENT], "status.pools", [])

    return edit


def edit_placement(path: str, value: JSON) -> Edit:
    """Returns the edit of a field of the placement's spec; None removes it."""
    return lambda scene: set_field(scene.xr, f"spec.{path}", value)


def edit_settings(path: str, value: JSON) -> Edit:
    """Returns the edit of a platform-wide setting; None removes it."""
    return lambda scene: set_field(scene.input, path, value)


def edit_observed(prefix: str, path: str, value: JSON) -> Edit:
    """Returns the edit of all observed resources with a prefix."""

    def edit(scene: Scene) -> None:
        for key, manifest in scene.observed.items():
            if key.startswith(prefix):
                set_field(manifest, path, value)

    return edit


def drop_status(prefix: str) -> Edit:
    """Returns the edit that removes the status of Objects, as after a restored backup."""
    return edit_observed(prefix, "status", None)


def load_scene(story: str) -> Scene:
    """Returns an example at rest, which is created only once."""
    if story not in _SCENES:
        _SCENES[story] = build_scene(story)
    return _SCENES[story]


def observed_service(found: Scene) -> Manifest:
    """Returns the one service that is observed."""
    (service,) = (m for key, m in found.observed.items() if key.startswith("service-"))
    return copy.deepcopy(mapping(service, "spec.forProvider.manifest"))


def composed_service(found: Scene) -> Manifest:
    """Returns the one service that is composed."""
    (service,) = found.composed().values()
    return service


def scale(service: Manifest, replicas: int) -> Manifest:
    """Returns a service with another number of replicas."""
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}
