"""`render`: every manifest that would finally exist, as a stream of one cluster, or as files with a folder for each."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from function.cli.abridged import abridged
from function.cli.asked import Form, Sources
from function.cli.errors import CliError, Code
from function.cli.gathered import KINDS, gather
from function.cli.invalid_objects import warn
from function.cli.options import examples, form, sources
from function.cli.rendering import Level, Place, compose_given, composed, refusals
from function.cli.tables import structured
from function.kube.manifests import JSON, Manifest, text
from function.parse.problems import nearest

_OTHER = re.compile(r"[^A-Za-z0-9.]")


@click.command(
    epilog=examples(
        "modelplane render -f examples/kimi-k2-two-nodes --all-clusters",
        "modelplane render -f examples/kimi-k2-two-nodes --kind LLMInferenceService",
        "modelplane render -f examples/kimi-k2-two-nodes --output-dir rendered/",
        "modelplane render -f examples/kimi-k2-two-nodes --level remote -o json --full",
    )
)
@sources
@click.option("--level", type=click.Choice([str(level) for level in Level]), help="Only one level.")
@click.option("--cluster", metavar="ENVIRONMENT", help="Only what is on the cluster of this environment.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be repeated.")
@click.option("--all-clusters", "mixed", is_flag=True, help="Write manifests of several clusters into one stream.")
@click.option("--output-dir", metavar="FOLDER", type=click.Path(path_type=Path), help="Files, a folder each cluster.")
@click.option("--full", is_flag=True, help="Write the download script, too, instead of a line that names it.")
@form(Form.YAML, Form.JSON, Form.NAME)
@click.pass_context
def render(  # noqa: PLR0913  # click's options
    context: click.Context,
    /,
    *,
    sources: Sources,
    output_dir: Path | None,
    mixed: bool,
    full: bool,
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
    world = gather(sources)
    warn(world.store, KINDS)
    outcomes = compose_given(world)
    refused = refusals(outcomes)
    found = dict(sorted(composed(world.store, outcomes), key=lambda item: item[0]))
    if not refused:  # what is refused may lack any of them
        _require([cluster] if cluster else [], [place.environment for place in found], "cluster")
        _require(kinds, [place.ref.kind for place in found], "manifest of kind")
    wanted = {kind.lower() for kind in kinds}
    chosen = {
        place: manifest
        for place, manifest in found.items()
        if level in (None, place.level)
        and cluster in (None, place.environment)
        and (not wanted or place.ref.kind.lower() in wanted)
    }
    if output_dir:
        _file(chosen, output_dir)
    else:
        _write(chosen if full else _short(chosen), form, mixed=mixed)
    for line in refused:
        click.echo(line, err=True)
    if refused:
        context.exit(Code.REFUSED)


def _require(names: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name.lower() not in map(str.lower, known):
            close = nearest(name, known)
            there = f"Did you mean {close}?" if close else f"There are {', '.join(sorted({*known} - {''}))}"
            raise CliError(f"there is no {what} {name} in it. {there}", Code.NOT_FOUND)


def _short(found: dict[Place, Manifest]) -> dict[Place, Manifest]:
    return {place: short for place, manifest in found.items() if isinstance(short := abridged(manifest), dict)}


def _file(found: dict[Place, Manifest], folder: Path) -> None:
    """Write a file for each manifest; a file that is there already is written anew, others stay."""
    for place, manifest in found.items():
        below, ref = folder / _file_name(place.cluster), place.ref
        name = _file_name("-".join(part for part in (ref.kind.lower(), ref.namespace, ref.name) if part))
        try:
            below.mkdir(parents=True, exist_ok=True)
            (below / f"{name}.yaml").write_text(f"{structured(Form.YAML, manifest)}\n")
        except OSError as error:
            raise CliError(f"cannot write {below}: {error.strerror}. Name another --output-dir") from error
    clusters = {place.cluster for place in found}
    click.echo(f"{len(found)} manifests in {folder}, a folder for each of {', '.join(sorted(clusters))}")


def _file_name(said: str) -> str:
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
            click.echo(structured(form, items))
        case _ if len(clusters) > 1 and not mixed:
            raise CliError(
                f"these are manifests of {len(clusters)} clusters ({', '.join(clusters)}). Choose by --level, "
                "--cluster or --kind, write a folder for each with --output-dir, or one stream with --all-clusters"
            )
        case _:
            for place, manifest in found.items():
                click.echo(f"---\n# {place}\n{structured(Form.YAML, manifest)}")
