"""`render`: writes every manifest that would finally exist, each with the cluster that it is on.

Both levels in one go: what a deployment composes is a composite itself. Statuses are left out, since they would be
made up; so is what lasts only while weights are downloaded, such as the copy of a token and the
ConfigMap with the scripts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import click

from function.api.problems import find_nearest
from function.cli.inputs import KINDS, load_inventory, warn_of_invalid
from function.cli.options import CliError, Code, Form, Sources, examples, form, sources
from function.cli.planning import compose_given
from function.cli.store import Ref, Store, read_environments
from function.cli.tables import format_data
from function.contract import Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.reasons import ConditionType, Status
from function.remote.carry_over import desired_from_observed

HERE = "control plane"
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

    @property
    def cluster(self) -> str:
        """The environment, or that it is the control plane."""
        return self.environment or HERE

    def __str__(self) -> str:
        return f"{self.cluster}: {self.ref}"


def list_composed(store: Store, refs: Iterable[Ref]) -> Iterator[tuple[Place, Manifest]]:
    """Return what composites compose, and what of that exists on remote clusters."""
    clusters = {environment.provider_config: environment.name for environment in read_environments(store)}
    for ref in refs:
        for observed in store.owned(ref).values():
            # Without status, without what Crossplane adds, and never with the data of a Secret.
            manifest = desired_from_observed(observed).manifest
            yield Place("", Ref.of(manifest)), manifest
            if text(manifest, "kind") != "Object" or get(manifest, "spec.managementPolicies") == ["Observe"]:
                continue
            remote = mapping(manifest, "spec.forProvider.manifest")
            config = text(manifest, "spec.providerConfigRef.name")
            yield Place(clusters.get(config, config), Ref.of(remote)), remote


def list_refusals(outcomes: dict[Ref, Outcome]) -> list[str]:
    """Return what would not come up, a line each."""
    return [
        f"{ref}: {condition.type} is False, {condition.reason}: {condition.message}"
        for ref, outcome in sorted(outcomes.items())
        for condition in outcome.conditions
        if condition.status is Status.FALSE and (ref.kind, condition.type) not in _HARMLESS
    ]


_OTHER = re.compile(r"[^A-Za-z0-9.]")


@click.command(
    epilog=examples(
        "modelplane render -f examples/kimi-k2-two-nodes --all-clusters",
        "modelplane render -f examples/kimi-k2-two-nodes --kind LLMInferenceService",
        "modelplane render -f examples/kimi-k2-two-nodes --output-dir rendered/",
        "modelplane render -f examples/kimi-k2-two-nodes --level remote -o json",
    )
)
@sources
@click.option("--level", type=click.Choice([str(level) for level in Level]), help="Only one level.")
@click.option("--cluster", metavar="ENVIRONMENT", help="Only what is on the cluster of this environment.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be repeated.")
@click.option("--all-clusters", "mixed", is_flag=True, help="Write manifests of several clusters into one stream.")
@click.option("--output-dir", metavar="FOLDER", type=click.Path(path_type=Path), help="Files, a folder each cluster.")
@form(Form.YAML, Form.JSON, Form.NAME)
@click.pass_context
def render(  # noqa: PLR0913  # click's options
    context: click.Context,
    /,
    *,
    sources: Sources,
    output_dir: Path | None,
    mixed: bool,
    form: Form,
    level: str | None,
    cluster: str | None,
    kinds: tuple[str, ...],
) -> None:
    """Write every manifest that would finally exist, on the control plane and on the clusters.

    Inputs are left out, and so are statuses. Nothing is changed anywhere. Files of --output-dir are always whole.
    """
    if not sources.files:
        raise CliError("name what to render with -f; what runs is shown by 'tree'")
    world = load_inventory(sources)
    warn_of_invalid(world.store, KINDS)
    outcomes = compose_given(world)
    refused = list_refusals(outcomes)
    found = dict(sorted(list_composed(world.store, outcomes), key=lambda item: item[0]))
    if not refused:  # what is refused may lack any of them
        _require_known([cluster] if cluster else [], [place.environment for place in found], "cluster")
        _require_known(kinds, [place.ref.kind for place in found], "manifest of kind")
    wanted = {kind.lower() for kind in kinds}
    chosen = {
        place: manifest
        for place, manifest in found.items()
        if level in (None, place.level)
        and cluster in (None, place.environment)
        and (not wanted or place.ref.kind.lower() in wanted)
    }
    if output_dir:
        _write_files(chosen, output_dir)
    else:
        _write(chosen, form, mixed=mixed)
    for line in refused:
        click.echo(line, err=True)
    if refused:
        context.exit(Code.REFUSED)


def _require_known(names: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name.lower() not in map(str.lower, known):
            close = find_nearest(name, known)
            there = f"Did you mean {close}?" if close else f"There are {', '.join(sorted({*known} - {''}))}"
            raise CliError(f"there is no {what} {name} in it. {there}", Code.NOT_FOUND)


def _write_files(found: dict[Place, Manifest], folder: Path) -> None:
    """Write a file for each manifest; a file that is there already is written anew, others stay."""
    for place, manifest in found.items():
        below, ref = folder / _make_file_name(place.cluster), place.ref
        name = _make_file_name("-".join(part for part in (ref.kind.lower(), ref.namespace, ref.name) if part))
        try:
            below.mkdir(parents=True, exist_ok=True)
            (below / f"{name}.yaml").write_text(f"{format_data(Form.YAML, manifest)}\n")
        except OSError as error:
            raise CliError(f"cannot write {below}: {error.strerror}. Name another --output-dir") from error
    clusters = {place.cluster for place in found}
    click.echo(f"{len(found)} manifests in {folder}, a folder for each of {', '.join(sorted(clusters))}")


def _make_file_name(said: str) -> str:
    """Return a name that leads into no other folder, whatever a manifest calls itself."""
    return _OTHER.sub("-", said).lstrip(".")


def _write(found: dict[Place, Manifest], form: Form, *, mixed: bool) -> None:
    clusters = sorted({place.cluster for place in found})
    match form:
        case Form.NAME:
            for manifest in found.values():
                group = text(manifest, "apiVersion").rpartition("/")[0]
                kind = text(manifest, "kind").lower() + (f".{group}" if group else "")
                click.echo(f"{kind}/{text(manifest, 'metadata.name')}")
        case Form.JSON:
            items: list[JSON] = [{"place": place.cluster, "manifest": m} for place, m in found.items()]
            click.echo(format_data(form, items))
        case _ if len(clusters) > 1 and not mixed:
            raise CliError(
                f"these are manifests of {len(clusters)} clusters ({', '.join(clusters)}). Choose by --level, "
                "--cluster or --kind, write a folder for each with --output-dir, or one stream with --all-clusters"
            )
        case _:
            for place, manifest in found.items():
                click.echo(f"---\n# {place}\n{format_data(Form.YAML, manifest)}")
