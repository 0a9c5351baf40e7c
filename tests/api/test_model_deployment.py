"""Parsing ModelDeployments, and the `modelCache` block that placements have too."""

from dataclasses import dataclass

import pytest

from function.api.model_deployment import parse_deployment, resolve_priority
from function.api.problems import Parsed
from function.domain.cache import CacheType, CreatedStorage, ModelCacheChoice, StorageChoice, UserClaim
from function.domain.model import ModelRef, Problem
from function.domain.placement import Deployment, Gate, Rollout
from function.kube.manifests import JSON, Manifest
from function.kube.selectors import Operator, Selector, SelectorRequirement, Toleration
from tests.api import manifests

GIB = 2**30


def test_parses_every_field() -> None:
    given = manifests.deployment(
        modelRef={"kind": "Model", "name": "gemma"},
        environments=3,
        environmentSelector={"matchLabels": {"tier": "production"}},
        tolerations=[{"key": "team", "value": "a", "effect": "NoSchedule"}, {"operator": "Exists"}],
        rollout={
            "environments": "OneByOne",
            "order": ["b", "a"],
            "paused": True,
            "whenFull": "Replace",
            "gate": {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "condition": "Complete"},
        },
        scaling={"signal": "Fixed", "fixed": {"replicas": 0}},
        modelCache={"name": "weights"},
    )
    assert parse_deployment(given).value == Deployment(
        namespace="ml-team",
        name="chat",
        model=ModelRef(kind="Model", name="gemma"),
        environments=3,
        replicas=0,
        selector=Selector((SelectorRequirement(key="tier", operator=Operator.IN, values=("production",)),)),
        tolerations=(Toleration(key="team", value="a", effect="NoSchedule"), Toleration(any_value=True)),
        storage_choice=ModelCacheChoice(name="weights"),
        rollout=Rollout(
            order=("b", "a"),
            paused=True,
            gate=Gate(api_version="batch/v1", kind="Job", name="smoke", condition="Complete"),
        ),
        replaces_when_full=True,
    )


def test_all_at_once_is_no_rollout() -> None:
    deployment = parse_deployment(manifests.deployment(rollout={"paused": True})).value
    assert deployment is not None
    assert deployment.rollout is None
    assert not deployment.replaces_when_full


def test_gate_is_ready_by_default() -> None:
    gate: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke"}
    deployment = parse_deployment(manifests.deployment(rollout={"environments": "OneByOne", "gate": gate})).value
    assert deployment is not None
    assert deployment.rollout is not None
    assert deployment.rollout.gate == Gate(api_version="batch/v1", kind="Job", name="smoke", condition="Ready")


def test_refuses_tolerations_that_kubernetes_refuses() -> None:
    tolerations: JSON = [{"value": "a"}, {"key": "team", "operator": "Exists", "value": "a"}]
    assert parse_deployment(manifests.deployment(tolerations=tolerations)) == Parsed(
        None,
        (
            Problem("spec.tolerations[0].key", "is required, unless operator is Exists"),
            Problem("spec.tolerations[1].value", '"a" is not allowed; must be left out for operator Exists'),
        ),
    )


def test_absent_fields_have_the_documented_defaults() -> None:
    assert parse_deployment(manifests.deployment()).value == Deployment(
        namespace="ml-team", name="chat", model=ModelRef(kind="ClusterModel", name="gemma")
    )


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    block: Manifest
    want: StorageChoice


CASES = [
    Case("name", "a ModelCache", {"name": "a"}, ModelCacheChoice(name="a")),
    Case("name-defaulted", "defaults of the API server do not count as set by the user",
         {"name": "a", "preload": True, "retain": False}, ModelCacheChoice(name="a")),
    Case("claim", "a user's claim", {"claimName": "a", "retain": False}, UserClaim(claim="a")),
    Case("claim-all", "downloads into it can be steered", {"claimName": "a", "preload": False, "retry": "2"},
         UserClaim(claim="a", preload=False, retry="2")),
    Case("managed", "a claim of ours",
         {"type": "PVC", "size": "1Ti", "storageClassName": "", "accessMode": "ReadWriteOnce", "preload": False,
          "retain": True, "retry": "2"},
         CreatedStorage(type=CacheType.PVC, size=1024 * GIB, class_name="", access_mode="ReadWriteOnce", preload=False,
                      retain=True, retry="2")),
    Case("empty-dir", "every pod has its own copy in an EmptyDir",
         {"type": "EmptyDir"}, CreatedStorage(type=CacheType.EMPTY_DIR)),
    Case("empty-dir-lower-case", "a type is known in both cases, as a source is",
         {"type": "emptyDir"}, CreatedStorage(type=CacheType.EMPTY_DIR)),
    Case("claim-lower-case", "a type is known in both cases, as a source is",
         {"type": "pvc"}, CreatedStorage(type=CacheType.PVC)),
    Case("nothing", "an empty block sets nothing", {}, CreatedStorage()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_every_form_of_a_cache(case: Case) -> None:
    deployment = parse_deployment(manifests.deployment(modelCache=case.block)).value
    assert deployment
    assert deployment.storage_choice == case.want, case.reason


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    fields: Manifest
    want: tuple[Problem, ...]


FAULTS = [
    Fault("name-and-claim", "name and claimName exclude each other", {"modelCache": {"name": "a", "claimName": "b"}},
          (Problem("spec.modelCache.claimName", '"b" is not allowed; must be left out together with name'),)),
    Fault("name-and-download", "a ModelCache configures its own download",
          {"modelCache": {"name": "a", "preload": False}},
          (Problem("spec.modelCache.preload", "false is not allowed; must be left out together with name"),)),
    Fault("claim-and-size", "the size of a user's claim cannot be set",
          {"modelCache": {"claimName": "b", "size": "1Gi", "retain": True}},
          (Problem("spec.modelCache.retain", "true is not allowed; must be left out together with claimName"),
           Problem("spec.modelCache.size", '"1Gi" is not allowed; must be left out together with claimName'))),
    Fault("environments", "the number of environments is between 1 and 100", {"environments": 0},
          (Problem("spec.environments", "0 is not allowed; must be at least 1"),)),
    Fault("many-environments", "the number of environments is between 1 and 100", {"environments": 101},
          (Problem("spec.environments", "101 is not allowed; must be at most 100"),)),
    Fault("no-model", "a model is required", {"modelRef": None},
          (Problem("spec.modelRef", "null is not allowed; must be a block of fields"),)),
    Fault("priority-and-its-name", "a priority has a number or a name", {"priority": -1, "priorityName": "batch"},
          (Problem("spec.priorityName", '"batch" is not allowed; must be left out together with priority'),)),
    Fault("signal", "two words are known", {"scaling": {"signal": "fixed"}},
          (Problem("spec.scaling.signal", '"fixed" is not known; must be one of Fixed, Load (did you mean Fixed?)'),)),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_reports_every_problem_of_a_deployment(case: Fault) -> None:
    assert parse_deployment(manifests.deployment(**case.fields)) == Parsed(None, case.want), case.reason


PRIORITIES = {"critical": 100, "batch": -10, "none": 0}
NAMES = '"{}" is not a name of limits.priorities in the platform settings; {}'


@pytest.mark.parametrize(
    ("fields", "priorities", "want"),
    [
        ({}, PRIORITIES, 0),
        ({"priority": 7}, PRIORITIES, 7),
        ({"priorityName": "critical"}, PRIORITIES, 100),
        ({"priorityName": "batch", "priority": 0}, PRIORITIES, -10),
        ({"priorityName": "none"}, PRIORITIES, 0),
        (
            {"priorityName": "critcal"},
            PRIORITIES,
            NAMES.format("critcal", "must be one of batch, critical, none (did you mean critical?)"),
        ),
        ({"priorityName": "x"}, PRIORITIES, NAMES.format("x", "must be one of batch, critical, none")),
        ({"priorityName": "critical"}, {}, NAMES.format("critical", "there are no names, so set priority")),
    ],
    ids=str,
)
def test_resolves_the_name_of_a_priority(fields: Manifest, priorities: dict[str, int], want: int | str) -> None:
    """The API server sets priority 0 as the default, also beside a name."""
    deployment = parse_deployment(manifests.deployment(**fields)).value
    assert deployment
    refused = Parsed(None, (Problem("spec.priorityName", str(want)),))
    assert resolve_priority(deployment, priorities) == (refused if isinstance(want, str) else Parsed(want))


def test_null_counts_as_absent() -> None:
    nothing: JSON = None
    deployment = parse_deployment(manifests.deployment(modelCache=nothing, environmentSelector=nothing)).value
    assert deployment
    assert deployment.storage_choice == CreatedStorage()
