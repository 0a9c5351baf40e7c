"""Every command line of the matrix, asked of every version at most once in a run."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from function.domain.model import EngineName
from tests.engines.asking import Answers, ask
from tests.engines.checks import Group
from tests.engines.model import write_model
from tests.engines.pods import Cluster, Pod
from tests.engines.shapes import CASES, build
from tools.engines import Release

GPUS = 8  # of a pod, where the case has no other number


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("weights") / "model")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def matrix(cluster: Cluster, model: Path) -> Callable[[Release], tuple[dict[str, Group], Answers]]:
    """The pods of every case that this function does not refuse, each with what the engine says of it."""

    @cache
    def ask_all(release: Release) -> tuple[dict[str, Group], Answers]:
        pods: dict[str, tuple[Pod, ...]] = {}
        for case in CASES:
            service = build(case, EngineName.VLLM, release.version)
            if service is not None:
                pods[case.id] = cluster.run(service, release.version, tls=case.tls)
        started = [pod.engine for group in pods.values() for pod in group if pod.engine]
        said = ask(release, started, model, GPUS)
        answers = iter(said.answers if not said.failure else [None] * len(started))
        groups: dict[str, Group] = {
            name: tuple((pod, next(answers) if pod.engine else None) for pod in group) for name, group in pods.items()
        }
        return groups, said

    def run(release: Release) -> tuple[dict[str, Group], Answers]:
        groups, said = ask_all(release)
        assert not said.failure, f"{release.package} {release.version} ended:\n{said.failure}"
        return groups, said

    return run
