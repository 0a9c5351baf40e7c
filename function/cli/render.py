"""`render`: writes every manifest that would finally exist, each below a comment that names its cluster.

Both levels at once: what a deployment composes is a composite itself. Left out are statuses, since they would be made
up, and what exists only while weights are downloaded, such as the copy of a token and the ConfigMap with the scripts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from function.cli.inputs import load_inventory
from function.cli.options import CliError, Code, Form, Sources, examples, form, sources
from function.cli.planning import compose_files
from function.cli.store import Ref, Store, read_environments, refuse_unknown
from function.cli.tables import format_data
from function.kube.manifests import JSON, Manifest, get, strings, text
from function.kube.names import MANAGED_BY
from function.reasons import ConditionType, Status
from function.remote.object_writer import desired_from_observed
from function.remote.observed_object import read_written

# Files do not tell whether a cluster answers, and an environment without shared storage serves single nodes.
# A canary differs on purpose.
_HARMLESS = {
    ("InferenceEnvironment", ConditionType.CLUSTER_READY),
    ("InferenceEnvironment", ConditionType.STORAGE_READY),
    ("ModelService", ConditionType.BACKENDS_ALIKE),
}
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9.]")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A manifest's cluster and reference, in the order in which manifests are written."""

    environment: str  # empty: the control plane
    ref: Ref

    @property
    def cluster(self) -> str:
        return self.environment or "control plane"

    def __str__(self) -> str:
        return f"{self.cluster}: {self.ref}"


@click.command(epilog=examples("render"))
@sources
@click.option("--level", type=click.Choice(["control-plane", "remote"]), help="Only one level.")
@click.option("--cluster", metavar="ENVIRONMENT", help="Only what is on the cluster of this environment.")
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be repeated.")
@click.option("--output-dir", metavar="FOLDER", type=click.Path(path_type=Path), help="Files, a folder each cluster.")
@form(Form.YAML, Form.JSON, Form.NAME)
def render(
    *, sources: Sources, output_dir: Path | None, form: Form, level: str | None, cluster: str | None,
    kinds: tuple[str, ...],
) -> Code:  # fmt: skip
    """Write every manifest that would finally exist, on the control plane and on the clusters.

    Inputs are left out, and so are statuses. Nothing is changed anywhere. Files of --output-dir are always whole.
    """
    if not sources.files:
        raise CliError("name what to render with -f; what runs is shown by 'tree'")
    inventory = load_inventory(sources)
    inventory.warn_of_empty_namespace()
    outcomes = compose_files(inventory)
    refusals = [
        f"{ref}: {condition.type} is False, {condition.reason}: {condition.message}"
        for ref, outcome in sorted(outcomes.items())
        for condition in outcome.conditions
        if condition.status is Status.FALSE and (ref.kind, condition.type) not in _HARMLESS
    ]
    manifests = list_composed(inventory.store, outcomes)
    if not refusals:  # what is refused may lack any of them
        _require_known([cluster] if cluster else [], [place.environment for place in manifests], "cluster")
        _require_known(kinds, [place.ref.kind for place in manifests], "manifest of kind")
    lower_kinds = {kind.lower() for kind in kinds}
    chosen = {
        place: manifest
        for place, manifest in manifests.items()
        if level in (None, "remote" if place.environment else "control-plane")
        and cluster in (None, place.environment)
        and (not lower_kinds or place.ref.kind.lower() in lower_kinds)
    }
    if output_dir:
        _write_files(chosen, output_dir)
    elif form is Form.JSON:
        items: list[JSON] = [{"place": place.cluster, "manifest": manifest} for place, manifest in chosen.items()]
        click.echo(format_data(form, items))
    else:
        for place, manifest in chosen.items():
            if form is Form.YAML:
                click.echo(f"---\n# {place}\n{format_data(Form.YAML, manifest)}")
            else:
                group = text(manifest, "apiVersion").rpartition("/")[0]
                kind = place.ref.kind.lower() + (f".{group}" if group else "")
                click.echo(f"{kind}/{place.ref.name}")
    for line in refusals:
        click.echo(f"error: {line}", err=True)
    return Code.REFUSED if refusals else Code.OK


def list_composed(store: Store, refs: Iterable[Ref]) -> dict[Place, Manifest]:
    """Returns what composites compose, and what of that exists on remote clusters, in the order of their places."""
    placed: dict[Place, Manifest] = {}
    clusters = {environment.provider_config: environment.name for environment in read_environments(store)}
    for ref in refs:
        for observed in store.owned(ref).values():
            # Without status, without what Crossplane adds, and never with the data of a Secret.
            manifest = desired_from_observed(observed).manifest
            placed[Place("", Ref.of(manifest))] = manifest
            remote = read_written(manifest)
            policies = get(manifest, "spec.managementPolicies")
            # A Job that is kept on a claim is only observed at last; what else is only observed has no label of ours.
            is_labelled = strings(remote, "metadata.labels").items() >= MANAGED_BY.items()
            if text(manifest, "kind") == "Object" and (policies != ["Observe"] or is_labelled):
                config = text(manifest, "spec.providerConfigRef.name")
                placed[Place(clusters.get(config, config), Ref.of(remote))] = remote
    return {place: placed[place] for place in sorted(placed)}


def _require_known(names: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name.lower() not in map(str.lower, known):
            raise refuse_unknown(f"there is no {what} {name} in it", name, sorted({*known} - {""}))


def _write_files(manifests: Mapping[Place, Manifest], folder: Path) -> None:
    """Writes a file for each manifest; existing files of that name are replaced, others are kept."""
    for place, manifest in manifests.items():
        parts = (place.ref.kind.lower(), place.ref.namespace, place.ref.name)
        file = folder / _clean_name(place.cluster) / f"{_clean_name('-'.join(filter(None, parts)))}.yaml"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{format_data(Form.YAML, manifest)}\n")
        except OSError as error:
            raise CliError(f"cannot write {file.parent}: {error.strerror}. Name another --output-dir") from error
    clusters = sorted({place.cluster for place in manifests})
    click.echo(f"{len(manifests)} manifests in {folder}, a folder for each of {', '.join(clusters)}")


def _clean_name(name: str) -> str:
    """Returns a file name that leads into no other folder, whatever a manifest calls itself."""
    return _NOT_IN_FILE_NAMES.sub("-", name).lstrip(".")
