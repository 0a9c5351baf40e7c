"""Lent replicas: one deployment uses what is free, and another takes back what it is entitled to."""

import copy
from collections import Counter

import pytest

from function.cli.store import Ref
from function.kube.manifests import (
    JSON,
    Manifest,
    condition,
    format_time,
    get,
    integer,
    listing,
    mapping,
    parse_time,
    prune,
    text,
)
from tests.support.plane import call, change, manifests, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

NODES = 4  # of the pool, each with room for one replica
LENDER, OWNER, OTHER = (Ref("ModelDeployment", "team", name) for name in ("lender", "owner", "other"))


def deployment(ref: Ref, replicas: int, guaranteed: int | None = None, **spec: JSON) -> Manifest:
    """Returns a deployment of a model whose replicas take one node each."""
    fixed: Manifest = {"replicas": replicas, "guaranteed": guaranteed}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "spec": {"modelRef": {"name": "gemma-3-27b"}, "scaling": {"fixed": prune(fixed)}, **spec},
    }


def started(*deployments: Manifest, settings: Manifest | None = None, environments: int = 1) -> ControlPlane:
    control = ControlPlane(renderer=Engine(call, settings), world=World())
    found = [m for m in manifests("gemma-one-gpu") if m["kind"] != "ModelDeployment"]
    environment = next(m for m in found if m["kind"] == "InferenceEnvironment")
    for pool in listing(environment, "spec.nodePools"):
        pool.update({"acceleratorCount": 1, "maxNodeCount": NODES})
    control.apply(found)
    for number in range(1, environments):
        metadata = {**mapping(environment, "metadata"), "name": f"z-{number}"}
        control.apply([{**copy.deepcopy(environment), "metadata": metadata}])
    for manifest in deployments:
        control.apply([manifest])
        settle(control)
    return control


def settle(control: ControlPlane) -> None:
    """Lets the control plane come to rest; at no moment does an environment grant more GPUs than it has."""
    for _ in range(60):
        before = dict(control.store)
        control.advance()
        for ref in control.all("InferenceEnvironment"):
            assert get(control.composites[ref], "status.gpus.inUse") <= NODES  # type: ignore[operator]  # a number
        if before == dict(control.store):
            return
    raise AssertionError("it does not come to rest")


def replicas(control: ControlPlane) -> dict[str, int]:
    """Returns the admitted replicas of each deployment."""
    found: Counter[str] = Counter()
    for environment in control.all("InferenceEnvironment"):
        for row in listing(control.composites[environment], "status.admitted"):
            found[text(row, "name").rsplit("-", 1)[0]] += integer(row, "replicas")
    return dict(found)


def message(control: ControlPlane, ref: Ref, type_: str) -> str:
    """Returns the message of a condition, with T for the time at which replicas were asked for, and T+600."""
    found = text(condition(control.composites[ref], type_), "message")
    for environment in control.all("InferenceEnvironment"):
        for row in listing(control.composites[environment], "status.admitted"):
            since = parse_time(text(row, "yields.since"))
            if since is not None:
                found = found.replace(format_time(since), "T").replace(format_time(since + 600), "T+600")
    return found


def placement_of(control: ControlPlane, ref: Ref) -> Ref:
    (found,) = (
        each
        for each in control.all("ModelPlacement")
        if text(control.composites[each], "spec.deploymentRef.name") == ref.name
    )
    return found


def test_uses_what_is_free_and_gives_back_as_few_as_suffice() -> None:
    control = started(deployment(LENDER, 4, guaranteed=1))
    assert replicas(control) == {"lender": 4}
    control.apply([deployment(OWNER, 2)])
    control.advance()
    control.advance()
    control.advance()
    lender, owner = placement_of(control, LENDER), placement_of(control, OWNER)
    assert message(control, owner, "Admitted") == (
        "pool h100 of h100-west: 2 replicas of 1 node x 1 GPU required; waits for other replicas to end: "
        f"2 replicas of team/{lender.name}; if they are replaced elsewhere first, by T+600"
    )
    assert message(control, LENDER, "ScaledAsRequested") == (
        "asked for 4 replicas on each environment, 2 granted, 2 running; h100-west: has 2 replicas; profile one-gpu: "
        "the GPUs of 2 lent replicas of pool h100 go to team/owner (priority 0), which has needed 2 GPUs since T"
    )
    settle(control)
    assert replicas(control) == {"lender": 2, "owner": 2}
    assert said(control, OWNER, "Ready")[0] == "True"
    assert said(control, LENDER, "Ready")[0] == "True"
    assert said(control, LENDER, "ScaledAsRequested") == ("False", "Limited")


def test_gets_back_what_it_gave_when_it_is_not_needed_any_more() -> None:
    control = started(deployment(LENDER, 4, guaranteed=1), deployment(OWNER, 2))
    assert replicas(control) == {"lender": 2, "owner": 2}
    control.delete(OWNER)
    settle(control)
    assert replicas(control) == {"lender": 4}
    assert said(control, LENDER, "ScaledAsRequested") == ("True", "Scaled")


@pytest.mark.parametrize("rounds", range(1, 9))
def test_loses_nothing_more_once_the_other_is_deleted_half_way(rounds: int) -> None:
    control = started(deployment(LENDER, 4, guaranteed=1))
    control.apply([deployment(OWNER, 3)])
    for _ in range(rounds):
        control.advance()
    control.delete(OWNER)
    settle(control)
    assert replicas(control) == {"lender": 4}


def pool_of(control: ControlPlane) -> Manifest:
    (pool,) = listing(control.composites[control.all("InferenceEnvironment")[0]], "status.pools")
    return pool


def test_counts_how_often_replicas_are_taken_back() -> None:
    """A request counts once, however many replicas of whichever placements end for it, and for as long as they take."""
    control = started(deployment(LENDER, 2, guaranteed=1), deployment(OTHER, 2, guaranteed=1))
    assert pool_of(control).get("reclaims") is None
    for count in (1, 2, 3):
        control.apply([deployment(OWNER, 1 if count == 2 else 2)])
        settle(control)
        assert pool_of(control).get("reclaims") == count
        control.delete(OWNER)
        settle(control)
        assert pool_of(control).get("reclaims") == count


def test_guaranteed_replicas_are_never_taken() -> None:
    control = started(deployment(LENDER, 4, guaranteed=3), deployment(OWNER, 2))
    assert replicas(control) == {"lender": 4}
    assert said(control, OWNER, "Scheduled") == ("False", "InsufficientCapacity")
    assert message(control, OWNER, "Scheduled").splitlines()[1] == (
        "h100-west: profile one-gpu: pool h100 has no capacity now: 2 replicas of 1 node x 1 GPU required, 0 fit: 4 of "
        "4 nodes in use by 1 other placement; a deployment of priority 0 or higher can take back 1 GPU for guaranteed "
        "replicas"
    )


def test_nothing_is_taken_for_replicas_that_are_lent_themselves() -> None:
    control = started(deployment(LENDER, 4, guaranteed=2), deployment(OWNER, 2, guaranteed=1))
    assert replicas(control) == {"lender": 3, "owner": 1}
    assert numbers_requested(control, OWNER) == 1


def numbers_requested(control: ControlPlane, ref: Ref) -> object:
    return get(control.composites[placement_of(control, ref)], "spec.replicas")


def test_grows_to_what_is_guaranteed_and_takes_it_back() -> None:
    control = started(deployment(OWNER, 1), deployment(LENDER, 3, guaranteed=1))
    assert replicas(control) == {"owner": 1, "lender": 3}
    control.apply([deployment(OWNER, 3)])
    settle(control)
    assert replicas(control) == {"owner": 3, "lender": 1}
    assert said(control, OWNER, "Ready")[0] == "True"


LIMITS: Manifest = {"limits": {"maxPriority": 100}}


@pytest.mark.parametrize(
    ("settings", "lends", "asks", "found"),
    [
        (LIMITS, 10, 0, {"lender": 4}),
        (LIMITS, 10, 9, {"lender": 4}),
        (LIMITS, 10, 10, {"lender": 2, "owner": 2}),
        (LIMITS, -5, 0, {"lender": 2, "owner": 2}),
        ({}, 0, -1, {"lender": 4}),
        ({}, 50, 10, {"lender": 2, "owner": 2}),  # both count as 0
    ],
)
def test_takes_from_the_same_or_a_lower_priority(
    settings: Manifest, lends: int, asks: int, found: dict[str, int]
) -> None:
    lender = deployment(LENDER, 4, guaranteed=1, priority=lends)
    control = started(lender, deployment(OWNER, 2, priority=asks), settings=settings)
    assert replicas(control) == found


def test_says_that_the_platform_allows_no_such_priority() -> None:
    control = started(deployment(LENDER, 1, priority=50), settings={"limits": {"maxPriority": 10}})
    assert message(control, LENDER, "Scheduled") == (
        "Placed on h100-west (profile one-gpu, pool h100, 1 replica of 1 node x 1 GPU). Note: spec.priority: 50 counts "
        "as 10, as the platform allows no more (limits.maxPriority)"
    )
    assert get(control.composites[placement_of(control, LENDER)], "spec.priority") == 10


NAMED: Manifest = {"limits": {"maxPriority": 100, "priorities": {"critical": 100, "high": 200, "batch": -10}}}


@pytest.mark.parametrize(("lends", "asks", "takes"), [("batch", "critical", True), ("critical", "batch", False)])
def test_priorities_have_names(lends: str, asks: str, *, takes: bool) -> None:
    """Placements have numbers."""
    lender = deployment(LENDER, 4, guaranteed=1, priorityName=lends)
    control = started(lender, deployment(OWNER, 2, priorityName=asks), settings=NAMED)
    assert replicas(control) == ({"lender": 2, "owner": 2} if takes else {"lender": 4})
    assert get(control.composites[placement_of(control, LENDER)], "spec.priority") == (-10 if takes else 100)
    assert "priorityName" not in str(dict(control.composites[placement_of(control, LENDER)]))


def test_says_that_the_platform_allows_no_priority_of_that_name() -> None:
    control = started(deployment(LENDER, 1, priorityName="high"), settings=NAMED)
    assert message(control, LENDER, "Scheduled") == (
        "Placed on h100-west (profile one-gpu, pool h100, 1 replica of 1 node x 1 GPU). Note: spec.priorityName: high "
        "(200) counts as 100, as the platform allows no more (limits.maxPriority)"
    )
    assert get(control.composites[placement_of(control, LENDER)], "spec.priority") == 100


UNKNOWN = (
    'spec.priorityName: "{}" is not a name of limits.priorities in the platform settings; must be one of batch, '
    "critical, high{}"
)


def test_creates_nothing_for_a_priority_of_an_unknown_name() -> None:
    control = started(deployment(OWNER, 1, priorityName="critcal"), settings=NAMED)
    assert said(control, OWNER, "Scheduled") == ("False", "InvalidDeployment")
    assert message(control, OWNER, "Scheduled") == UNKNOWN.format("critcal", " (did you mean critical?)")
    assert control.all("ModelPlacement") == []
    change(control, OWNER, "spec.priorityName", "critical")
    settle(control)
    assert replicas(control) == {"owner": 1}


@pytest.mark.parametrize("cause", ["deployment", "platform"])
def test_keeps_what_runs_while_the_name_of_a_priority_is_unknown(cause: str) -> None:
    """Nothing is given back meanwhile; the other placement waits."""
    control = started(deployment(LENDER, 4, guaranteed=1, priorityName="batch"), settings=NAMED)
    if cause == "deployment":
        change(control, LENDER, "spec.priorityName", "none")
        said_now = UNKNOWN.format("none", "")
    else:
        control.renderer = Engine(call, {"limits": {"maxPriority": 100}})
        said_now = (
            'spec.priorityName: "batch" is not a name of limits.priorities in the platform settings; there are no '
            "names, so set priority"
        )
    before = dict(control.composites[placement_of(control, LENDER)])
    change(control, LENDER, "spec.scaling.fixed.replicas", 1)
    control.apply([deployment(OWNER, 2)])
    settle(control)
    assert message(control, LENDER, "Scheduled") == said_now
    assert said(control, LENDER, "Scheduled") == ("False", "InvalidDeployment")
    kept = control.composites[placement_of(control, LENDER)]
    assert (kept["spec"], mapping(kept, "metadata")) == (before["spec"], before["metadata"])
    assert replicas(control) == {"lender": 4}
    control.renderer = Engine(call, NAMED)
    change(control, LENDER, "spec.priorityName", "batch")
    settle(control)
    assert replicas(control) == {"lender": 1, "owner": 2}


def test_takes_from_the_lowest_priority_first() -> None:
    control = started(
        deployment(LENDER, 2, guaranteed=1, priority=-1),
        deployment(OTHER, 2, guaranteed=1, priority=-2),
        deployment(OWNER, 1),
    )
    assert replicas(control) == {"lender": 2, "other": 1, "owner": 1}


def test_free_gpus_elsewhere_are_used_first() -> None:
    control = started(deployment(LENDER, 4, guaranteed=1), deployment(OWNER, 2), environments=2)
    assert replicas(control) == {"lender": 4, "owner": 2}


def test_divided_replicas_go_where_there_is_room_before_any_ends() -> None:
    scaling: JSON = {"replicaScheduling": "Divided", "fixed": {"replicas": 4, "guaranteed": 1}}
    control = started(
        {**deployment(LENDER, 4), "spec": {"modelRef": {"name": "gemma-3-27b"}, "scaling": scaling}}, environments=2
    )
    assert replicas(control) == {"lender": 4}
    first = control.all("InferenceEnvironment")[0]
    change(control, first, "metadata.labels", {"here": "yes"})
    control.apply([deployment(OWNER, 3, environmentSelector={"matchLabels": {"here": "yes"}})])
    meanwhile: list[str] = []
    for _ in range(40):
        control.advance()
        assert integer(control.composites[LENDER], "status.scale.replicas") >= 4, "it lost a replica before another ran"
        meanwhile += [message(control, LENDER, "ScaledAsRequested")]
    assert replicas(control) == {"lender": 4, "owner": 3}
    counts = "asked for 4 replicas, 4 granted, 4 running"
    stays = "h100-west: 3 lent replicas may stay until as many serve on other environments, until T+600 at the latest"
    told = f"{counts}; {stays}; their GPUs then go to team/owner (priority 0), which has needed 3 GPUs since T"
    assert list(dict.fromkeys(meanwhile)) == [counts, told]
    assert said(control, LENDER, "ScaledAsRequested") == ("True", "Scaled")


def test_a_divided_deployment_takes_back_what_it_is_guaranteed() -> None:
    scaling: JSON = {"replicaScheduling": "Divided", "fixed": {"replicas": 4, "guaranteed": 2}}
    control = started(
        deployment(LENDER, 4, guaranteed=2),
        {**deployment(OWNER, 4), "spec": {"modelRef": {"name": "gemma-3-27b"}, "scaling": scaling}},
    )
    assert replicas(control) == {"lender": 2, "owner": 2}
    assert said(control, OWNER, "ScaledAsRequested") == ("False", "Limited")


@pytest.mark.parametrize("reason", ["selector", "taint"])
def test_a_lender_that_cannot_leave_gives_back_nevertheless(reason: str) -> None:
    """It must leave its environment, and there is no other."""
    control = started(deployment(LENDER, 4, guaranteed=1))
    owner = deployment(OWNER, 2)
    if reason == "selector":
        change(control, LENDER, "spec.environmentSelector", {"matchLabels": {"here": "no"}})
    else:
        taint: JSON = {"key": "k", "effect": "NoExecute"}
        change(control, control.all("InferenceEnvironment")[0], "spec.taints", [taint])
        owner = deployment(OWNER, 2, tolerations=[{"key": "k", "operator": "Exists"}])
    settle(control)
    control.apply([owner])
    settle(control)
    assert replicas(control) == {"lender": 2, "owner": 2}


def test_without_replicas_a_refusal_stays() -> None:
    selector: JSON = {"matchLabels": {"no": "where"}}
    control = started(deployment(LENDER, 0, environmentSelector=selector))
    assert said(control, LENDER, "Scheduled") == ("False", "NoEnvironmentMatches")


PREEMPTS: Manifest = {"limits": {"maxPriority": 100, "preemption": "LowerPriority"}}
HERE: JSON = {"matchLabels": {"here": "yes"}}


@pytest.mark.parametrize(
    ("settings", "lends", "asks", "found"),
    [
        (LIMITS, 0, 10, {"lender": 4}),  # by default, guaranteed replicas stay
        (PREEMPTS, 0, 10, {"lender": 2, "owner": 2}),
        (PREEMPTS, 10, 10, {"lender": 4}),  # the same priority
        (PREEMPTS, 20, 10, {"lender": 4}),
    ],
)
def test_a_higher_priority_takes_guaranteed_replicas_where_the_platform_allows_it(
    settings: Manifest, lends: int, asks: int, found: dict[str, int]
) -> None:
    control = started(deployment(LENDER, 4, priority=lends), deployment(OWNER, 2, priority=asks), settings=settings)
    assert replicas(control) == found


def test_takes_lent_replicas_before_guaranteed_ones() -> None:
    control = started(
        deployment(LENDER, 2, priority=-1),
        deployment(OTHER, 2, guaranteed=1),
        deployment(OWNER, 1, priority=10),
        settings=PREEMPTS,
    )
    assert replicas(control) == {"lender": 2, "other": 1, "owner": 1}
    control.apply([deployment(OWNER, 2, priority=10)])
    settle(control)
    assert replicas(control) == {"lender": 1, "other": 1, "owner": 2}


def test_a_preempted_deployment_waits_where_its_weights_are_and_comes_back() -> None:
    control = started(deployment(LENDER, 3), deployment(OWNER, 4, priority=10), settings=PREEMPTS)
    assert replicas(control) == {"lender": 0, "owner": 4}
    assert said(control, OWNER, "Ready")[0] == "True"
    assert said(control, LENDER, "ScaledAsRequested") == ("False", "Limited")
    assert message(control, LENDER, "ScaledAsRequested") == (
        "asked for 3 replicas on each environment, 0 granted, 0 running; h100-west: has 0 replicas; profile one-gpu: "
        "pool h100 has no capacity now: 3 replicas of 1 node x 1 GPU required, 0 fit: 4 of 4 nodes in use by 1 other "
        "placement"
    )
    placement = placement_of(control, LENDER)
    control.delete(OWNER)
    settle(control)
    assert replicas(control) == {"lender": 3}
    assert placement_of(control, LENDER) == placement
    assert said(control, LENDER, "Ready")[0] == "True"


def test_a_preempted_deployment_says_who_takes_its_replicas() -> None:
    control = started(deployment(LENDER, 3), settings=PREEMPTS)
    control.apply([deployment(OWNER, 4, priority=10)])
    told = set()
    for _ in range(20):
        control.advance()
        told.add(message(control, LENDER, "ScaledAsRequested"))
    who = "team/owner (priority 10), which has needed 4 GPUs since T"
    taken = f"profile one-gpu: the GPUs of 3 replicas of pool h100, including guaranteed ones, go to {who}"
    assert f"asked for 3 replicas on each environment, 0 granted, 0 running; h100-west: has 0 replicas; {taken}" in told


@pytest.mark.parametrize("divided", [False, True], ids=["each", "divided"])
def test_a_preempted_deployment_serves_until_it_serves_elsewhere(divided: bool) -> None:
    lender = deployment(LENDER, 3)
    mapping(lender, "spec.scaling").update({"replicaScheduling": "Divided"} if divided else {})
    control = started(lender, settings=PREEMPTS, environments=2)
    first = control.all("InferenceEnvironment")[0]
    change(control, first, "metadata.labels", {"here": "yes"})
    control.apply([deployment(OWNER, 4, priority=10, environmentSelector=HERE)])
    for _ in range(60):
        control.advance()
        serving = [
            integer(control.composites[each], "spec.replicas")
            for each in control.all("ModelPlacement")
            if each.name.startswith("lender") and said(control, each, "ServiceReady") == ("True", "Serving")
        ]
        assert max(serving) == 3
        if said(control, OWNER, "Ready")[0] == "True":
            break
    settle(control)
    assert replicas(control) == {"lender": 3, "owner": 4}
    assert said(control, LENDER, "Ready")[0] == "True"
    environment = text(control.composites[placement_of(control, LENDER)], "spec.inferenceEnvironmentRef.name")
    assert environment == "z-1"


def test_a_deployment_that_wakes_where_others_have_the_gpus_serves_elsewhere() -> None:
    control = started(deployment(LENDER, 3), environments=2)
    control.apply([deployment(LENDER, 0)])
    settle(control)
    first = control.all("InferenceEnvironment")[0]
    change(control, first, "metadata.labels", {"here": "yes"})
    control.apply([deployment(OWNER, 4, environmentSelector=HERE)])
    settle(control)
    control.apply([deployment(LENDER, 3)])
    settle(control)
    assert replicas(control) == {"lender": 3, "owner": 4}
    assert said(control, LENDER, "Ready")[0] == "True"
