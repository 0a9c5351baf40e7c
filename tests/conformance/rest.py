"""What must hold of every control plane that has come to rest, whatever was applied to it.

All composites and all that they composed pass `crossplane resource validate` against the real schemas, and what is
written to clusters passes Kubernetes' own OpenAPI; a service is composed first when its Job is observed Complete and
never leaves; no event is sent where nothing changed; no value of a Secret is in anything that the function said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, mapping, text
from tests.conformance import crossplane, openapi
from tools.control_plane import ControlPlane, Rendered, Round
from tools.world import SECRET_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A control plane at rest, and what its last round made of each composite."""

    plane: ControlPlane
    schemas: Path
    rendered: Mapping[Ref, Rendered]

    def only(self, kind: str) -> Manifest:
        """Return the one composite of a kind."""
        (ref,) = self.plane.all(kind)
        return self.plane.composites[ref]

    def remote(self, kind: str, of: str = "ModelPlacement") -> list[Manifest]:
        """Return the remote manifests of a kind that composites of one kind describe."""
        found = [self.rendered[ref].remote for ref in self.plane.all(of)]
        return [m for manifests in found for m in manifests.values() if text(m, "kind") == kind]

    def service(self) -> Manifest:
        """Return the one LLMInferenceService."""
        (service,) = self.remote("LLMInferenceService")
        return service

    def then(self, *manifests: Manifest) -> "Rest":
        """Apply more manifests to the same control plane and wait until it is at rest again."""
        self.plane.apply(manifests)
        return at_rest(self.plane, self.schemas)

    def without(self, kind: str) -> "Rest":
        """Delete the one composite of a kind and wait until the control plane is at rest again."""
        (ref,) = self.plane.all(kind)
        self.plane.delete(ref)
        return at_rest(self.plane, self.schemas)


def at_rest(plane: ControlPlane, schemas: Path) -> Rest:
    """Bring a control plane to rest and check what must hold of every one."""
    first = len(plane.rounds)
    rendered = plane.settle()
    everything = [r.composite for r in rendered.values()]
    for outcome in rendered.values():
        everything += [*outcome.composed.values(), *outcome.remote.values()]
    assert isinstance(plane.renderer, crossplane.Renderer), "nothing else counts as the real Crossplane"
    assert crossplane.validate(schemas, everything, plane.renderer.folder) == []
    written = [manifest for outcome in rendered.values() for manifest in _written(outcome)]
    assert [fault for manifest in written for fault in openapi.faults(manifest)] == []
    for earlier, later in zip(plane.rounds[first:], plane.rounds[first + 1 :], strict=False):
        _services_stay(earlier, later)
    for round_ in plane.rounds[first:]:
        _services_wait(round_)
        _secrets_stay_secret(round_)
    assert [m for r in rendered.values() for m in _told(r)] == [], "an event although nothing changed"
    return Rest(plane=plane, schemas=schemas, rendered=rendered)


def status_of(composite: Manifest, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = condition(composite, type_)
    return text(found, "status"), text(found, "reason")


def _written(outcome: Rendered) -> list[Manifest]:
    """Return the remote manifests that are applied; what is only observed has no more than a name."""
    policies = {key: mapping(item, "spec").get("managementPolicies") for key, item in outcome.composed.items()}
    return [manifest for key, manifest in outcome.remote.items() if policies[key] != ["Observe"]]


def _services(round_: Round) -> dict[tuple[Ref, str], Manifest]:
    return {
        (ref, key): manifest
        for ref, outcome in round_.rendered.items()
        for key, manifest in outcome.remote.items()
        if text(manifest, "kind") == "LLMInferenceService"
    }


def _services_stay(earlier: Round, later: Round) -> None:
    gone = _services(earlier).keys() - _services(later).keys()
    assert not [ref for ref, _ in gone if ref in later.rendered], "a service was deleted without a request"


def _services_wait(round_: Round) -> None:
    """A service is composed first when every Job beside it is observed Complete."""
    for ref, key in _services(round_):
        if key in round_.observed[ref]:
            continue
        for name, manifest in round_.rendered[ref].remote.items():
            if text(manifest, "kind") == "Job":
                seen = mapping(round_.observed[ref].get(name), "status.atProvider.manifest")
                complete = text(condition(seen, "Complete"), "status")
                assert complete == "True", f"{key} is composed before {name} is observed Complete"


def _secrets_stay_secret(round_: Round) -> None:
    for ref, outcome in round_.rendered.items():
        assert SECRET_VALUE not in outcome.said, f"{ref} tells the value of a Secret"


def _told(outcome: Rendered) -> list[str]:
    """Return the function's own events, not those of core."""
    said = [text(result, "message") for result in outcome.results]
    return [message for message in said if message.startswith("Pipeline step")]
