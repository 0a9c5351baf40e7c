"""`render`: every manifest that would finally exist, once all is ready, on the control plane and on the clusters.

Both levels in one go: what a deployment composes is a composite itself. Statuses are left out, since they would be
made up; so is what lasts only while weights are downloaded, such as the copy of a token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import click

from function.cli.abridged import abridged
from function.cli.asked import Form, Sources
from function.cli.control_plane import in_turn, simulate
from function.cli.errors import CliError, Code
from function.cli.gathered import KINDS, World, gather
from function.cli.invalid_objects import warn
from function.cli.options import examples, form, sources
from function.cli.store import Ref, Store, environments, is_ours
from function.cli.tables import structured
from function.exchange import Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.lifecycle.carry_over import carried
from function.reasons import ConditionType, Status

_HERE = "control plane"
# Whether a cluster answers is nothing that files know, and one without shared storage serves single nodes.
_HARMLESS = {
    ("InferenceEnvironment", ConditionType.CLUSTER_READY),
    ("InferenceEnvironment", ConditionType.STORAGE_READY),
}


class Level(StrEnum):
    """Where a manifest exists."""

    CONTROL_PLANE = "control-plane"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where and what, in the order in which manifests are written. `environment` empty: the control plane."""

    environment: str
    ref: Ref

    @property
    def level(self) -> Level:
        """The level."""
        return Level.REMOTE if self.environment else Level.CONTROL_PLANE

    def __str__(self) -> str:
        return f"{self.environment or _HERE}: {self.ref}"


@click.command(
    epilog=examples(
        "modelplane render -f examples/kimi-k2-two-nodes",
        "modelplane render -f examples/kimi-k2-two-nodes --kind LLMInferenceService",
        "modelplane render -f examples/kimi-k2-two-nodes --level remote -o json --full",
    )
)
@sources
@click.option("--level", type=click.Choice([str(level) for level in Level]), help="Only one level.")
@click.option("--kind", metavar="KIND", multiple=True, help="Only this kind; may be repeated.")
@click.option("--full", is_flag=True, help="Write the download script, too, instead of a line that names it.")
@form(Form.YAML, Form.JSON, Form.NAME)
@click.pass_context
def render(
    context: click.Context, /, *, sources: Sources, level: str | None, kind: tuple[str, ...], full: bool, form: Form
) -> None:
    """Write every manifest that would finally exist, on the control plane and on the clusters.

    Inputs are left out, and so are statuses. Nothing is changed anywhere.
    """
    if not sources.files:
        raise CliError("name what to render with -f; what runs is shown by 'tree'")
    world = gather(sources)
    warn(world.store, KINDS)
    every = settle(world)
    outcomes = {ref: every[ref] for ref in asked_for(world)}
    kinds = {name.lower() for name in kind}
    found = {
        place: manifest
        for place, manifest in sorted(composed(world.store, outcomes), key=lambda item: item[0])
        if level in (None, place.level) and (not kinds or place.ref.kind.lower() in kinds)
    }
    _write(found if full else {place: _short(manifest) for place, manifest in found.items()}, form)
    if _refusals(outcomes):
        context.exit(Code.REFUSED)


def settle(world: World) -> dict[Ref, Outcome]:
    """Bring what was given, and all that comes of it, to a fixed point; an environment composes for its own sake."""
    given = [ref for ref in world.store.refs(*KINDS) if ref in world.given]
    return simulate(world.store, in_turn(given, "ModelDeployment", "ModelPlacement"))


def asked_for(world: World) -> list[Ref]:
    """Return the composites whose manifests are meant: those given, and the placements that come of them."""
    given = [ref for ref in world.store.refs(*KINDS) if ref in world.given and world.in_scope(ref)]
    owned = (Ref.of(manifest) for ref in given for manifest in world.store.owned(ref).values() if is_ours(manifest))
    return sorted({*given, *owned})


def composed(store: Store, refs: Iterable[Ref]) -> Iterator[tuple[Place, Manifest]]:
    """Return what composites composed, and what of that exists on remote clusters."""
    clusters = {environment.provider_config: environment.name for environment in environments(store)}
    for ref in refs:
        for observed in store.owned(ref).values():
            # Without status, without what Crossplane adds, and never with the data of a Secret.
            manifest = carried(observed).manifest
            yield Place("", Ref.of(manifest)), manifest
            if text(manifest, "kind") != "Object" or get(manifest, "spec.managementPolicies") == ["Observe"]:
                continue
            remote = mapping(manifest, "spec.forProvider.manifest")
            config = text(manifest, "spec.providerConfigRef.name")
            yield Place(clusters.get(config, config), Ref.of(remote)), remote


def _short(manifest: Manifest) -> Manifest:
    short = abridged(manifest)
    assert isinstance(short, dict)  # a map stays one
    return short


def _write(found: dict[Place, Manifest], form: Form) -> None:
    match form:
        case Form.NAME:
            for place in found:
                click.echo(str(place))
        case Form.JSON:
            items: list[JSON] = [{"place": place.environment or _HERE, "manifest": m} for place, m in found.items()]
            click.echo(structured(form, items))
        case _:
            for place, manifest in found.items():
                click.echo(f"---\n# {place}\n{structured(Form.YAML, manifest)}")


def _refusals(outcomes: dict[Ref, Outcome]) -> bool:
    """Tell on standard error what would not come up, and whether there is any."""
    refused = False
    for ref, outcome in sorted(outcomes.items()):
        for condition in outcome.conditions:
            if condition.status is Status.FALSE and (ref.kind, condition.type) not in _HARMLESS:
                click.echo(f"{ref}: {condition.type} is False, {condition.reason}: {condition.message}", err=True)
                refused = True
    return refused
