"""Ways out of refusals as `plan --ways-out` and `why` print them."""

import json
from pathlib import Path

import pytest

from tests.cli.process import run

FLEET = """\
apiVersion: modelplane.ai/v1alpha1
kind: InferenceEnvironment
metadata: {name: eu-h100}
spec:
  cluster: {source: Existing, existing: {secretRef: {name: eu-h100-kubeconfig}}}
  nodePools:
  - name: h100
    acceleratorType: nvidia-h100-80gb
    acceleratorCount: 8
    maxNodeCount: 2
    labels: {modelplane.ai/pool: h100}
    capabilities: {memoryPerGpu: 80Gi}
    price: {perGpuHour: "2.50", currency: USD, class: Reserved}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceEnvironment
metadata: {name: eu-l40s}
spec:
  cluster: {source: Existing, existing: {secretRef: {name: eu-l40s-kubeconfig}}}
  nodePools:
  - name: l40s
    acceleratorType: nvidia-l40s-48gb
    acceleratorCount: 4
    maxNodeCount: 1
    labels: {modelplane.ai/pool: l40s}
    capabilities: {memoryPerGpu: 48Gi}
---
apiVersion: modelplane.ai/v1alpha1
kind: ClusterModel
metadata: {name: small}
spec:
  model: {name: org/small}
  huggingFace: {repo: org/small}
  resources: {disk: 70Gi}
  serving:
  - name: four-gpus
    replicaTopology: {nodes: 1, gpusPerNode: 4, parallelism: {tensor: 4}}
    engine: {name: vLLM, image: "vllm/vllm-openai:v0.15.0"}
---
apiVersion: modelplane.ai/v1alpha1
kind: ClusterModel
metadata: {name: large}
spec:
  model: {name: org/large}
  huggingFace: {repo: org/large}
  resources: {disk: 150Gi}
  serving:
  - name: eight-gpus
    replicaTopology: {nodes: 1, gpusPerNode: 8, parallelism: {tensor: 8}}
    engine: {name: vLLM, image: "vllm/vllm-openai:v0.15.0"}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: search, namespace: team-a, creationTimestamp: "2026-11-01T08:00:00Z"}
spec:
  modelRef: {name: small}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelPlacement
metadata: {name: trial-1, namespace: team-b, deletionTimestamp: "2026-11-26T08:00:00Z"}
spec:
  modelRef: {name: large}
  inferenceEnvironmentRef: {name: eu-h100}
  profile: eight-gpus
  pool: h100
  topology: {nodes: 1, gpusPerNode: 8, parallelism: {tensor: 8}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: chat, namespace: team-c, creationTimestamp: "2026-11-20T08:00:00Z"}
spec:
  modelRef: {name: large}
"""
PLANNED = """\
VERDICT                       ENVIRONMENT   POOL   PROFILE      REPLICA           WANTED               FOUND                             COST
InsufficientCapacity          eu-h100       h100   eight-gpus   1 node x 8 GPUs   1 replica            room for 0, 2 of 2 nodes in use   20.00 USD per hour
NoPoolSatisfiesRequirements   eu-l40s       l40s   eight-gpus   1 node x 8 GPUs   acceleratorCount 8   4                                 -

ModelDeployment team-c/chat: InsufficientCapacity
0/2 environments can run large: 1 has no pool that satisfies the requirements, 1 has insufficient capacity.
eu-h100: profile eight-gpus: pool h100 has no capacity now: 1 replica of 1 node x 8 GPUs required, 0 fit: 2 of 2 nodes in use by 2 other placements
eu-l40s: profile eight-gpus: pool l40s has acceleratorCount 4, 8 required (4 missing)
Wait for team-b/trial-1, which is about to leave pool h100 of InferenceEnvironment eu-h100

ways out, cheapest first:
1. Wait for team-b/trial-1, which is about to leave pool h100 of InferenceEnvironment eu-h100
2. Move team-a/search from eu-h100 to eu-l40s (pool l40s), so that pool h100 of InferenceEnvironment eu-h100 has room
3. Add 1 node to pool h100 of InferenceEnvironment eu-h100 (maxNodeCount 3; 20.00 USD per hour)
"""  # noqa: E501  # as it is printed
EXPLAINED = """\

1. eu-h100, profile eight-gpus: InsufficientCapacity (waiting)
   - pool h100 has no capacity now: 1 replica of 1 node x 8 GPUs required, 0 fit: 2 of 2 nodes in use by 2 other placements
   do: Wait for team-b/trial-1, which is about to leave pool h100 of InferenceEnvironment eu-h100
   or: Move team-a/search from eu-h100 to eu-l40s (pool l40s), so that pool h100 of InferenceEnvironment eu-h100 has room
   or: Add 1 node to pool h100 of InferenceEnvironment eu-h100 (maxNodeCount 3; 20.00 USD per hour)

2. eu-l40s, profile eight-gpus: NoPoolSatisfiesRequirements (unschedulable)
   - pool l40s has acceleratorCount 4, 8 required (4 missing)
"""  # noqa: E501  # likewise


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """Two environments. On eu-h100 a placement is being deleted, and another one would fit on eu-l40s."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    return str(file)


def test_plan_lists_ways_out_from_the_cheapest(fleet: str) -> None:
    done = run("plan", "-f", fleet, "chat", "--ways-out", "-q")
    assert (done.returncode, done.stdout) == (1, PLANNED)


def test_plan_gives_ways_out_as_data(fleet: str) -> None:
    (plan,) = json.loads(run("plan", "-f", fleet, "chat", "--ways-out", "-o", "json").stdout)
    assert [(way["way"], way["environment"]) for way in plan["waysOut"]] == [
        ("Wait", "eu-h100"),
        ("Move", "eu-h100"),
        ("AddNodes", "eu-h100"),
    ]


def test_plan_lists_none_unless_asked_and_none_of_what_is_placed(fleet: str) -> None:
    assert "ways out" not in run("plan", "-f", fleet, "chat").stdout
    assert "ways out" not in run("plan", "-f", fleet, "search", "--ways-out").stdout


def test_plan_says_where_no_single_change_helps(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        FLEET.replace("gpusPerNode: 8, parallelism: {tensor: 8}}", "gpusPerNode: 16, parallelism: {tensor: 16}}")
    )
    assert run("plan", "-f", str(file), "chat", "--ways-out", "-q").stdout.endswith(
        "\nno single change was found that helps\n"
    )


@pytest.mark.parametrize(
    ("deployment", "changed"),
    [
        pytest.param("search", "modelRef: {name: small}\n  modelCache: {type: PVC}", id="storage class"),
        pytest.param("search", "modelRef: {name: small}\n  environments: 3", id="environment"),
        pytest.param("search", "modelRef: {name: missing}", id="model"),
    ],
)
def test_plan_does_not_deny_what_a_refusal_advises(tmp_path: Path, deployment: str, changed: str) -> None:
    """A refusal may say what to do although no filter can check it."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace("modelRef: {name: small}", changed))
    done = run("plan", "-f", str(file), deployment, "--ways-out", "-q")
    assert (done.returncode, "no single change" in done.stdout) == (1, False), done.stdout


def test_condition_and_ways_out_agree_on_later_deployments(tmp_path: Path) -> None:
    """Three nodes are required of two. One of them is taken by `search`, which is decided later."""
    file = tmp_path / "fleet.yaml"
    documents = [each for each in FLEET.split("---\n") if "kind: ModelPlacement" not in each]
    chat = documents.pop().replace("2026-11-20", "2026-10-01") + "  scaling: {fixed: {replicas: 3}}\n"
    file.write_text("---\n".join([*documents, chat]))
    (plan,) = json.loads(run("plan", "-f", str(file), "chat", "--ways-out", "-o", "json").stdout)
    advice = plan["message"].splitlines()[-1]
    assert advice == "Add 2 nodes to pool h100 of InferenceEnvironment eu-h100 (maxNodeCount 4; 40.00 USD per hour)"
    assert [way["message"] for way in plan["waysOut"]] == [
        advice,
        "Lower spec.scaling.fixed.replicas to 1, for which pool h100 of InferenceEnvironment eu-h100 has room",
    ]


def test_replicas_that_are_only_planned_can_be_lowered(tmp_path: Path) -> None:
    """Two replicas fit on eu-h100, and one on eu-l40s."""
    file = tmp_path / "fleet.yaml"
    changed = "modelRef: {name: small}\n  environments: 2\n  scaling: {fixed: {replicas: 2}}"
    file.write_text(FLEET.replace("modelRef: {name: small}", changed))
    (plan,) = json.loads(run("plan", "-f", str(file), "search", "--ways-out", "-o", "json").stdout)
    assert [way["message"].partition(",")[0] for way in plan["waysOut"]] == [
        "Add 1 node to pool l40s of InferenceEnvironment eu-l40s (maxNodeCount 2)",
        "Lower spec.scaling.fixed.replicas to 1",
    ]


def test_why_offers_ways_out_for_the_nearest_of_many_environments(tmp_path: Path) -> None:
    first, *others = FLEET.split("---\n")
    more = [first.replace("eu-h100", f"zz-{number}").replace("80Gi", "40Gi") for number in range(6)]
    needs = "{tensor: 8}, requires: {memoryPerGpu: 80Gi}}\n    engine"
    file = tmp_path / "fleet.yaml"
    file.write_text("---\n".join([first, *more, *others]).replace("{tensor: 8}}\n    engine", needs))
    shown = run("why", "-f", str(file), "chat", "-q").stdout
    assert "1. 1 environment: InsufficientCapacity (waiting)\n   eu-h100\n" in shown
    assert "\n   do: Wait for team-b/trial-1, which is about to leave pool h100" in shown


def test_why_offers_each_way_out_of_a_refusal(fleet: str) -> None:
    done = run("why", "-f", fleet, "chat", "-q")
    assert done.returncode == 1
    assert done.stdout.endswith(EXPLAINED)
