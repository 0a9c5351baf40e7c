"""What a mistake in the composed commands looks like to these checks: each one is found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.domain.model import EngineName
from function.kube.manifests import JSON, Manifest, get, listing, mapping
from tests.engines.asking import ask
from tests.engines.checks import check_replica
from tests.engines.pods import Cluster
from tests.engines.replica import Replica
from tests.engines.shapes import CASES, NAMES, Case, build
from tools.engines import list_releases

pytestmark = pytest.mark.engines
_NEWEST = list_releases("vllm")[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A mistake: what becomes of one argument on the leader and on the worker; None drops it."""

    id: str
    case: str
    flag: str
    leader: Callable[[str], str | None]
    worker: Callable[[str], str | None]


def _keep(argument: str) -> str:
    return argument


def _drop(_: str) -> None:
    return None


MUTANTS = (
    Mutant(id="no ranks of a pod", case="data-one-rank", flag="--data-parallel-size-local", leader=_drop, worker=_drop),
    Mutant(
        id="swapped node ranks",
        case="pipeline",
        flag="--node-rank",
        leader=lambda _: "--node-rank=1",
        worker=lambda _: "--node-rank=0",
    ),
    Mutant(
        id="another leader's address",
        case="tensor-over-nodes",
        flag="--master-addr",
        leader=_keep,
        worker=lambda _: "--master-addr=127.0.0.1",
    ),
    Mutant(id="no served name", case="pipeline", flag="--served-model-name", leader=_drop, worker=_drop),
)


def _change(container: Manifest, flag: str, change: Callable[[str], str | None]) -> None:
    """Changes a flag in a container's arguments; the words of a flag that has several go with it."""
    found = get(container, "args")
    assert isinstance(found, list)
    args = [str(argument) for argument in found]
    (place,) = (i for i, argument in enumerate(args) if argument.split("=")[0] == flag)
    end = place + 1 + (0 if "=" in args[place] else sum(name in NAMES for name in args))
    changed = change(args[place])
    kept: list[JSON] = [*args[:place], *([changed, *args[place + 1 : end]] if changed else []), *args[end:]]
    container["args"] = kept


def _mutate(mutant: Mutant) -> tuple[Case, Manifest]:
    (case,) = (each for each in CASES if each.id == mutant.case)
    service = build(case, EngineName.VLLM, _NEWEST.version)
    assert service is not None
    for part, change in (("template", mutant.leader), ("worker", mutant.worker)):
        (container,) = listing(mapping(service, f"spec.{part}"), "containers")
        _change(container, mutant.flag, change)
    return case, service


def test_every_mistake_is_found(cluster: Cluster, model: Path) -> None:
    mutated = [_mutate(mutant) for mutant in MUTANTS]
    groups = [cluster.run(service, _NEWEST.version) for _, service in mutated]
    said = ask(_NEWEST, [pod.engine for group in groups for pod in group], model, gpus=8)
    assert not said.failure, said.failure
    answers = iter(said.answers)
    missed = []
    for mutant, (case, _), group in zip(MUTANTS, mutated, groups, strict=True):
        replica = Replica(shape=case.shape, version=_NEWEST.number, names=NAMES)
        try:
            check_replica(EngineName.VLLM, [(pod, next(answers)) for pod in group], replica)
        except AssertionError:
            continue
        missed.append(mutant.id)
    assert not missed
