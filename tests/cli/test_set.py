"""`plan --set`: before and after for every deployment that another value of a pool decides differently."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import mapping
from tests.cli.conftest import Live, example
from tests.cli.process import KIMI, run, said, write


@pytest.fixture
def three(tmp_path: Path) -> str:
    """Three deployments of two nodes each on a pool of four."""
    manifests = example("kimi-k2-two-nodes")
    (deployment,) = [m for m in manifests if m["kind"] == "ModelDeployment"]
    more = [copy.deepcopy(deployment) for _ in range(2)]
    for each, name in zip(more, ("second", "third"), strict=True):
        mapping(each, "metadata")["name"] = name
    return write(tmp_path, *manifests, *more)


CHANGE = """\
+ ModelDeployment assistants/third
    InsufficientCapacity: 0/1 environments can run kimi-k2-instruct: 1 insufficient capacity.
 -> Placed: Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)

1 deployment would be scheduled differently"""


def test_more_nodes_change_who_waited(three: str) -> None:
    shown = said("plan", "kimi-k2", "-f", three, "--set", "h200-east/h200.maxNodeCount=6")
    assert shown.rstrip().endswith(CHANGE)
    found = json.loads(said("plan", "-f", three, "--set", "h200-east/h200.maxNodeCount=6", "-o", "json"))
    assert [(c["name"], c["before"]["reason"], c["after"]["reason"]) for c in found["changes"]] == [
        ("third", "InsufficientCapacity", "Placed")
    ]
    assert [p["reason"] for p in found["plans"]] == ["Placed"] * 3


def test_what_changes_nothing_says_so(three: str) -> None:
    done = run("plan", "-f", three, "--set", "h200-east/h200.maxNodeCount=5")
    assert done.stdout.endswith("\nnothing changes\n")


def test_files_from_standard_input_are_read_once(three: str) -> None:
    done = run("plan", "-f", "-", "--set", "h200-east/h200.maxNodeCount=6", stdin=Path(three).read_text())
    assert done.stdout.rstrip().endswith(CHANGE)


def test_values_of_what_is_live(live: Live) -> None:
    shown = run("plan", "--set", "h200-east/h200.maxNodeCount=1", *live()).stdout
    assert "nothing changes" in shown, "what runs stays"


@pytest.mark.parametrize(
    ("value", "code", "says"),
    [
        ("maxNodeCount=8", 2, "is not ENVIRONMENT/POOL.FIELD=VALUE, such as us-east/h100.maxNodeCount=8"),
        ("h200-eest/h200.maxNodeCount=8", 4, "there is no InferenceEnvironment h200-eest. Did you mean h200-east?"),
        ("h200-east/zz.maxNodeCount=8", 4, "there is no pool zz of InferenceEnvironment h200-east. There are h200"),
        ("h200-east/h200.maxNodeCont=8", 2, "spec.nodePools[0].maxNodeCont: is not a field; did you mean maxNodeCount"),
        ("h200-east/h200.maxNodeCount=[", 2, "[ is not YAML"),
    ],
)
def test_a_value_that_cannot_be_set(value: str, code: int, says: str) -> None:
    done = run("plan", "-f", KIMI, "--set", value)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_many_deployments_end_in_a_summary(three: str) -> None:
    shown = run("plan", "-f", three).stdout
    assert shown.endswith("\n3 deployments\n  2 Placed\n  1 InsufficientCapacity: assistants/third\n")
    assert "deployments" not in said("plan", "-f", KIMI)


def test_no_next_command_that_knows_nothing_of_what_was_supposed() -> None:
    done = run("plan", "-f", KIMI, "--set", "h200-east/h200.maxNodeCount=1")
    assert "PoolTooSmall" in done.stdout
    # `why` and `render` would look at the world as it is, and say that it is placed.
    assert "Next:" not in done.stderr
