"""Objects with faults: what is wrong with each by the function's own parsers, told by whoever would use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import click

from function.cli.invalid_pools import invalid_pools
from function.cli.store import Ref, Store
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest
from function.parse.caches import read_cache
from function.parse.deployments import read_deployment
from function.parse.environments import read_environment
from function.parse.models import read_model
from function.parse.parsed import Parsed
from function.parse.placements import read_placement

READ: Mapping[str, Callable[[Manifest], Parsed[object]]] = {
    "ClusterModel": read_model,
    "Model": read_model,
    "InferenceEnvironment": lambda manifest: read_environment(manifest, BUILT_IN),
    "ModelPlacement": read_placement,
    "ModelDeployment": read_deployment,
    "ModelCache": read_cache,
}


def warn(store: Store, kinds: Iterable[str]) -> None:
    """Name objects of some kinds that have faults, and pools that are left out, on standard error."""
    for kind in kinds:
        found = _environments(store) if kind == "InferenceEnvironment" else _others(store, kind)
        for what, faults in found:
            click.echo(f"warning: {what}: {faults}", err=True)


def _others(store: Store, kind: str) -> Iterator[tuple[str, str]]:
    for manifest in store.all(kind):
        problems = READ[kind](manifest).problems
        if problems:
            yield str(Ref.of(manifest)), "; ".join(map(str, problems))


def _environments(store: Store) -> Iterator[tuple[str, str]]:
    for manifest in store.all("InferenceEnvironment"):
        read = read_environment(manifest, BUILT_IN)
        if read.other_problems:
            yield str(Ref.of(manifest)), "; ".join(map(str, read.other_problems))
        for pool in invalid_pools(store, [read.value]):
            yield f"pool {pool.name} of {Ref.of(manifest)} is left out", pool.message
