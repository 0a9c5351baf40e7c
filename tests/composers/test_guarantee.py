"""The guarantee of a namespace: how many of its GPUs are taken back for it, and are not taken from it."""

import random
from collections.abc import Sequence

import pytest

from function.cli.store import Ref
from function.composers import compose
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, strings, text
from function.kube.names import ANNOTATION_DEPLOYMENT_CREATED
from function.parts import requirements
from tests.composers.test_lent import deployment, message, placement_of, replicas, settle, started
from tests.support.plane import call, change, composed_placements, fetched, said
from tools.control_plane import ControlPlane
from tools.engine import Engine

LENDER = Ref("ModelDeployment", "lab", "lender")
FIRST, SECOND, THIRD = (Ref("ModelDeployment", "team", name) for name in ("zeta", "mid", "alpha"))


def limits(gpus: int | None, **others: JSON) -> Manifest:
    """Returns settings that guarantee the namespace `team` so many GPUs."""
    own: Manifest = {} if gpus is None else {"guaranteedGpus": gpus}
    return {"limits": {"maxPriority": 100, "namespaces": {"team": {**own, **others}}}}


def of_age(manifest: Manifest, day: int) -> Manifest:
    metadata = {**mapping(manifest, "metadata"), "creationTimestamp": f"2025-12-{day:02}T00:00:00Z"}
    return {**manifest, "metadata": metadata}


def guaranteed(control: ControlPlane) -> dict[str, int]:
    """Returns the guaranteed replicas of the placements of each deployment, as they are written."""
    found: dict[str, int] = {}
    for ref in control.all("ModelPlacement"):
        spec = mapping(control.composites[ref], "spec")
        name = text(spec, "deploymentRef.name")
        written = min(integer(spec, "guaranteedReplicas", 1000), integer(spec, "replicas"))
        found[name] = found.get(name, 0) + written
    return found


def recorded(control: ControlPlane) -> dict[str, str]:
    """Returns the ages of deployments as their placements have them."""
    manifests = [control.composites[ref] for ref in control.all("ModelPlacement")]
    return {
        text(each, "spec.deploymentRef.name"): strings(each, "metadata.annotations").get(
            ANNOTATION_DEPLOYMENT_CREATED, ""
        )
        for each in manifests
    }


def configure(control: ControlPlane, settings: Manifest) -> None:
    control.renderer = Engine(call, settings)


LENT_3 = of_age(deployment(LENDER, 4, guaranteed=1), 1)


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        (None, {"lender": 1, "zeta": 3}),
        (4, {"lender": 1, "zeta": 3}),
        (3, {"lender": 1, "zeta": 3}),
        (2, {"lender": 2, "zeta": 2}),
        (1, {"lender": 3, "zeta": 1}),
        (0, {"lender": 4}),
    ],
)
def test_takes_back_no_more_than_the_namespace_is_guaranteed(gpus: int | None, found: dict[str, int]) -> None:
    control = started(LENT_3, of_age(deployment(FIRST, 3), 2), settings=limits(gpus))
    assert replicas(control) == found
    control.delete(LENDER)
    settle(control)
    assert replicas(control) == {"zeta": 3}
    assert guaranteed(control) == {"zeta": 3 if gpus is None else min(gpus, 3)}


def test_grows_by_taking_back_no_more_than_the_namespace_is_guaranteed() -> None:
    lender = of_age(deployment(LENDER, 3, guaranteed=1), 2)
    control = started(of_age(deployment(FIRST, 1), 1), lender, settings=limits(2))
    assert replicas(control) == {"zeta": 1, "lender": 3}
    control.apply([deployment(FIRST, 3)])
    settle(control)
    assert replicas(control) == {"zeta": 2, "lender": 2}
    assert message(control, FIRST, "Scheduled").rpartition(". ")[2] == (
        "Note: 2 of 3 guaranteed replicas count, and the others are lent: namespace team is guaranteed 2 GPUs "
        "(limits.namespaces.team.guaranteedGpus)"
    )


def test_a_lent_replica_of_a_guaranteed_number_is_taken_back() -> None:
    """The pool has 4 GPUs. Of the replicas that the author calls guaranteed, one is."""
    control = started(of_age(deployment(FIRST, 4), 1), settings=limits(1))
    assert guaranteed(control) == {"zeta": 1}
    control.apply([deployment(LENDER, 3)])
    settle(control)
    assert replicas(control) == {"zeta": 1, "lender": 3}
    assert said(control, LENDER, "Ready")[0] == "True"


def test_nothing_is_guaranteed_with_0() -> None:
    control = started(of_age(deployment(FIRST, 4), 1), settings=limits(0))
    assert replicas(control) == {"zeta": 4}
    assert message(control, FIRST, "Scheduled") == (
        "Placed on h100-west (profile one-gpu, pool h100, 4 replicas of 1 node x 1 GPU). Note: 0 of 4 guaranteed "
        "replicas count, and all are lent: namespace team is guaranteed 0 GPUs (limits.namespaces.team.guaranteedGpus)"
    )
    placement = placement_of(control, FIRST)
    control.apply([deployment(LENDER, 4)])
    settle(control)
    assert replicas(control) == {"zeta": 0, "lender": 4}
    assert said(control, FIRST, "ScaledAsRequested") == ("False", "Limited")
    control.delete(LENDER)
    settle(control)
    assert replicas(control) == {"zeta": 4}
    assert placement_of(control, FIRST) == placement


def test_says_which_replicas_end_where_none_is_guaranteed() -> None:
    control = started(of_age(deployment(FIRST, 4), 1), settings=limits(0))
    control.apply([deployment(LENDER, 4)])
    told = set()
    for _ in range(10):
        control.advance()
        told.add(message(control, FIRST, "ScaledAsRequested"))
    counts = "asked for 4 replicas on each environment, 0 granted, 0 running; h100-west: has 0 replicas"
    who = "lab/lender (priority 0), which has needed 4 GPUs since T"
    assert f"{counts}; profile one-gpu: the GPUs of 4 lent replicas of pool h100 go to {who}" in told


def test_the_older_deployment_is_guaranteed_first_and_names_do_not_count() -> None:
    control = started(of_age(deployment(FIRST, 2), 1), of_age(deployment(THIRD, 2), 2), settings=limits(3))
    assert guaranteed(control) == {"zeta": 2, "alpha": 1}
    assert message(control, THIRD, "Scheduled").rpartition(". ")[2] == (
        "Note: 1 of 2 guaranteed replicas count, and the others are lent: namespace team is guaranteed 3 GPUs "
        "(limits.namespaces.team.guaranteedGpus), of which deployments that come before it have 2"
    )
    assert "Note" not in message(control, FIRST, "Scheduled")


def test_a_higher_priority_is_guaranteed_first() -> None:
    urgent = of_age(deployment(THIRD, 2, priority=5), 2)
    control = started(of_age(deployment(FIRST, 2), 1), urgent, settings=limits(3))
    assert guaranteed(control) == {"alpha": 2, "zeta": 1}


def test_general_guarantee_is_one_of_each_namespace() -> None:
    settings: Manifest = {"limits": {"guaranteedGpusPerNamespace": 1}}
    control = started(of_age(deployment(FIRST, 2), 1), of_age(deployment(LENDER, 2), 2), settings=settings)
    assert guaranteed(control) == {"zeta": 1, "lender": 1}
    assert message(control, FIRST, "Scheduled").endswith(
        "namespace team is guaranteed 1 GPU (limits.guaranteedGpusPerNamespace)"
    )


def test_replicas_that_serve_stay_when_the_guarantee_is_lowered_and_raised() -> None:
    control = started(of_age(deployment(FIRST, 3), 1), settings=limits(None))
    assert guaranteed(control) == {"zeta": 3}
    for gpus in (1, 0, 2, 3):
        configure(control, limits(gpus))
        settle(control)
        assert guaranteed(control) == {"zeta": gpus}
        assert replicas(control) == {"zeta": 3}
        assert said(control, FIRST, "Ready")[0] == "True"


def test_what_was_guaranteed_to_a_deleted_deployment_goes_to_the_next() -> None:
    control = started(*(of_age(deployment(ref, 1), day) for day, ref in enumerate((FIRST, SECOND, THIRD), 1)),
                      settings=limits(2))  # fmt: skip
    assert guaranteed(control) == {"zeta": 1, "mid": 1, "alpha": 0}
    control.delete(FIRST)
    settle(control)
    assert guaranteed(control) == {"mid": 1, "alpha": 1}


def test_a_deployment_that_moves_keeps_its_guarantee_and_takes_none_from_others() -> None:
    here: JSON = {"matchLabels": {"here": "yes"}}
    control = started(
        of_age(deployment(FIRST, 2), 1), of_age(deployment(SECOND, 1), 2), settings=limits(3), environments=2
    )
    assert guaranteed(control) == {"zeta": 2, "mid": 1}
    control.apply([of_age(deployment(THIRD, 1), 3)])
    settle(control)
    assert guaranteed(control) == {"zeta": 2, "mid": 1, "alpha": 0}
    change(control, Ref("InferenceEnvironment", "", "z-1"), "metadata.labels", {"here": "yes"})
    change(control, FIRST, "spec.environmentSelector", here)
    for _ in range(30):
        control.advance()
        assert guaranteed(control)["mid"] == 1
        assert guaranteed(control)["alpha"] == 0
        assert guaranteed(control)["zeta"] >= 2
    settle(control)
    where = text(control.composites[placement_of(control, FIRST)], "spec.inferenceEnvironmentRef.name")
    assert (where, guaranteed(control)) == ("z-1", {"zeta": 2, "mid": 1, "alpha": 0})


def test_a_moving_deployment_takes_back_what_it_is_guaranteed() -> None:
    control = started(of_age(deployment(FIRST, 2), 1), settings=limits(2), environments=2)
    change(control, Ref("InferenceEnvironment", "", "z-1"), "metadata.labels", {"here": "yes"})
    here: JSON = {"matchLabels": {"here": "yes"}}
    control.apply([deployment(LENDER, 4, guaranteed=1, environmentSelector=here)])
    settle(control)
    change(control, FIRST, "spec.environmentSelector", here)
    settle(control)
    assert replicas(control) == {"zeta": 2, "lender": 2}
    assert guaranteed(control)["zeta"] == 2


def test_on_several_environments_the_older_placement_is_guaranteed_first() -> None:
    control = started(of_age(deployment(FIRST, 2, environments=1), 1), settings=limits(3), environments=2)
    control.apply([deployment(LENDER, 4, guaranteed=1)])
    settle(control)
    change(control, FIRST, "spec.environments", 2)
    settle(control)
    assert replicas(control) == {"zeta": 3, "lender": 3}
    assert guaranteed(control)["zeta"] == 3


def divided(ref: Ref, number: int, **fixed: JSON) -> Manifest:
    scaling: JSON = {"replicaScheduling": "Divided", "fixed": {"replicas": number, **fixed}}
    return {**deployment(ref, number), "spec": {"modelRef": {"name": "gemma-3-27b"}, "scaling": scaling}}


@pytest.mark.parametrize("fixed", [{}, {"guaranteed": 3}], ids=str)
def test_divided_replicas_take_back_no_more_than_is_guaranteed(fixed: dict[str, JSON]) -> None:
    control = started(LENT_3, of_age(divided(FIRST, 3, **fixed), 2), settings=limits(2))
    assert replicas(control) == {"lender": 2, "zeta": 2}
    assert guaranteed(control) == {"lender": 1, "zeta": 2}
    control.delete(LENDER)
    settle(control)
    assert (replicas(control), guaranteed(control)) == ({"zeta": 3}, {"zeta": 2})


def test_divided_replicas_share_the_guarantee_over_environments() -> None:
    control = started(of_age(divided(FIRST, 6), 1), settings=limits(5), environments=2)
    assert (replicas(control), guaranteed(control)) == ({"zeta": 6}, {"zeta": 5})
    before = [get(control.composites[ref], "spec") for ref in control.all("ModelPlacement")]
    settle(control)
    assert [get(control.composites[ref], "spec") for ref in control.all("ModelPlacement")] == before


def test_divided_replicas_take_nothing_back_where_nothing_is_left() -> None:
    control = started(LENT_3, of_age(divided(FIRST, 3), 2), settings=limits(0))
    assert replicas(control) == {"lender": 4}
    assert said(control, FIRST, "Scheduled") == ("False", "InsufficientCapacity")
    assert "quota" not in message(control, FIRST, "Scheduled")


def outcome(control: ControlPlane, ref: Ref, settings: Manifest, *, without: str = "") -> Outcome:
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref), input=settings)
    complete = fetched(first, control.composites.values())
    answers = {key: answer for key, answer in complete.answers.items() if key != without}
    return compose(Call(xr=complete.xr, observed=complete.observed, input=settings, answers=answers))


def written(found: Outcome) -> list[JSON]:
    return [get(manifest, "spec.guaranteedReplicas") for manifest in composed_placements(found).values()]


def test_changes_nothing_while_the_placements_of_the_namespace_are_not_known() -> None:
    control = started(of_age(deployment(FIRST, 3), 1), settings=limits(2))
    for gpus in (0, 1, 3):
        known = outcome(control, FIRST, limits(gpus))
        assert requirements.PLACEMENTS_IN_NAMESPACE in known.requirements
        assert written(known) == [gpus]
        unknown = outcome(control, FIRST, limits(gpus), without=requirements.PLACEMENTS_IN_NAMESPACE)
        assert written(unknown) == [2]
        assert requirements.PLACEMENTS_IN_NAMESPACE in unknown.requirements


def test_reads_the_placements_of_the_namespace_only_for_a_guarantee() -> None:
    control = started(of_age(deployment(FIRST, 3), 1), settings=limits(None))
    assert requirements.PLACEMENTS_IN_NAMESPACE not in outcome(control, FIRST, limits(None)).requirements
    assert recorded(control) == {"zeta": ""}
    configure(control, limits(2))
    settle(control)
    assert recorded(control) == {"zeta": "2025-12-01T00:00:00Z"}
    configure(control, limits(None))
    settle(control)
    assert recorded(control) == {"zeta": ""}


@pytest.mark.parametrize(
    "invalid", [{"guaranteedGpus": "1"}, {"guaranteedGpus": 9, "gpus": 8}, {"guaranteedGpu": 1}], ids=str
)
def test_an_invalid_guarantee_changes_nothing_and_nothing_is_taken_back(invalid: Manifest) -> None:
    control = started(of_age(deployment(FIRST, 2), 1), settings=limits(1))
    assert guaranteed(control) == {"zeta": 1}
    settings: Manifest = {"limits": {"namespaces": {"team": invalid}}}
    configure(control, settings)
    settle(control)
    assert (guaranteed(control), replicas(control)) == ({"zeta": 1}, {"zeta": 2})
    assert recorded(control) == {"zeta": "2025-12-01T00:00:00Z"}
    control.apply([deployment(LENDER, 2, guaranteed=1)])
    settle(control)
    change(control, FIRST, "spec.scaling.fixed.replicas", 3)
    control.apply([of_age(deployment(SECOND, 1), 2)])
    settle(control)
    assert (guaranteed(control), replicas(control)) == ({"zeta": 1, "lender": 1}, {"zeta": 2, "lender": 2})


CONVERGED = {"zeta": 2, "mid": 1, "alpha": 0, "lender": 1}


@pytest.mark.parametrize("seed", range(6))
def test_settles_in_every_order_of_reconciles(seed: int) -> None:
    """They race: all are applied at once, and are reconciled one by one, each round in another order."""
    generator = random.Random(seed)
    control = started(settings=limits(3), environments=2)
    control.apply(
        [
            of_age(deployment(FIRST, 2), 1),
            of_age(deployment(SECOND, 1), 2),
            of_age(deployment(THIRD, 1), 3),
            of_age(deployment(LENDER, 4, guaranteed=1), 4),
        ]
    )
    for _ in range(25):
        refs = [*control.store.refs("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ModelService")]
        generator.shuffle(refs)
        reconcile(control, refs)
        for environment in control.all("InferenceEnvironment"):
            assert integer(control.composites[environment], "status.gpus.inUse") <= 4
    settle(control)
    assert guaranteed(control) == CONVERGED
    assert listing(control.composites[FIRST], "status.placements")


def reconcile(control: ControlPlane, refs: Sequence[Ref]) -> None:
    """Reconciles objects one after the other, each from what the ones before it wrote."""
    for ref in refs:
        if ref in control.store:
            control.advance([ref])
