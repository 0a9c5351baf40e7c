"""Faults by their paths: at a field and below it, and those of ours in place of the schema's."""

from hypothesis import given
from hypothesis import strategies as st

from function.api.block import Faults
from function.domain.model import Problem

PATHS = st.lists(st.sampled_from(["a", "b", ".", "[", "]", "0", "-", "/", "\\", "Z"]), max_size=5).map("".join)
PROBLEMS = st.lists(st.builds(Problem, PATHS, st.sampled_from(["x", "y"])), max_size=12)


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


@given(refused=PROBLEMS, own=PROBLEMS, path=PATHS)
def test_of_all_faults_those_at_a_path_and_below(refused: list[Problem], own: list[Problem], path: str) -> None:
    """As if each were looked at; of several that the schema has for a path the last counts."""
    faults = Faults(refused)
    faults.update(own)
    spoken = {problem.path for problem in own}
    silent = {problem.path: problem for problem in refused if problem.path not in spoken}
    assert faults.within(path) == tuple(sorted(p for p in {*own, *silent.values()} if _is_within(p.path, path)))
    assert faults.any is bool(refused or own)
