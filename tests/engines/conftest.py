"""Every command line of the matrix, asked of every version at most once in a run."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from function.domain.model import EngineName
from tests.engines.asking import Answers, ask
from tests.engines.model import write_model
from tests.engines.pods import Cluster, Pod
from tests.engines.replica import Group
from tests.engines.shapes import CASES, build, name_engine
from tests.engines.stories import list_all_served
from tools.engines import Release, list_releases

GPUS = 8  # of a pod, where the case has no other number


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print for each engine which shapes were asked of which versions, and with which outcome."""
    outcomes = {
        (release, case): "ok" if outcome == "passed" else "FAILED"
        for outcome in ("passed", "failed", "error")
        for report in terminalreporter.getreports(outcome)
        for release, case in report.user_properties
    }
    for name in EngineName:
        versions = [release.version for release in list_releases(name.lower())]
        rows = [[outcomes.get((f"{name.lower()} {v}", case.id), "-") for v in versions] for case in CASES]
        if any(cell != "-" for row in rows for cell in row):
            terminalreporter.write_line(f"\n{name:<22}" + "".join(f"{version:>8}" for version in versions))
            for case, row in zip(CASES, rows, strict=True):
                terminalreporter.write_line(f"{case.id:<22}" + "".join(f"{cell:>8}" for cell in row))
    terminalreporter.write_line("\n-: this function refuses the shape for the version")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("weights") / "model")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def matrix(cluster: Cluster, model: Path) -> Callable[[Release], tuple[dict[str, Group], Answers]]:
    """The pods of every story, and of every case that this function does not refuse, with what the engine says."""

    @cache
    def ask_all(release: Release) -> tuple[dict[str, Group], Answers]:
        pods: dict[str, tuple[Pod, ...]] = {}
        for case in CASES:
            service = build(case, name_engine(release), release.version)
            if service is not None:
                pods[case.id] = cluster.run(service, release.version, tls=case.tls)
        for served in list_all_served():
            if served.release == release:
                pods[served.id] = cluster.run(served.service, release.version)
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
