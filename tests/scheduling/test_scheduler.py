"""The complete decision: fill environments, scale down, reschedule in place, move, and keep running placements."""

from dataclasses import replace

import pytest

from function.domain.allocation import Grant, Share
from function.domain.cache import CacheType, CreatedStorage, StorageChoice
from function.domain.environment import Environment
from function.domain.model import Model, Spread
from function.domain.placement import Deployment, Placement
from function.domain.scaling import LoadScaling
from function.reasons import Refused
from function.scheduling.refusals import Field
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, RemovalCause, SchedulingRequest
from tests.support.builders import (
    NAMESPACE,
    NO_CACHE,
    broken_profile,
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    selector,
    shape,
)

MODEL = model(profile(shape=shape()))
TWO_NODES = model(profile(shape=shape(2)))
EMPTY_DIR = CreatedStorage(type=CacheType.EMPTY_DIR)


def request(
    environments: int = 1, *, model: Model = MODEL, choice: StorageChoice = NO_CACHE, **fields: object
) -> SchedulingRequest:
    wanted: Deployment = deployment(environments=environments, **fields)  # type: ignore[arg-type]  # its keywords
    return SchedulingRequest(deployment=wanted, model=model, storage_request=planner(model, choice))


def environments(names: str, nodes: int = 4) -> list[Environment]:
    """Returns one Ready environment with one pool for each letter."""
    return [environment(name, pool(nodes=nodes)) for name in names]


def placed(decision: Decision) -> list[str]:
    return [assignment.environment for assignment in decision.assignments]


def carried(decision: Decision) -> list[str]:
    return [p.environment for p in decision.carried]


def dropped(decision: Decision) -> list[tuple[str, RemovalCause]]:
    return [(d.placement.environment, d.cause) for d in decision.dropped]


class TestFill:
    def test_environments_by_name(self) -> None:
        assert placed(schedule(request(2), environments("cab"), [])) == ["a", "b"]

    def test_existing_placement_counts(self) -> None:
        assert placed(schedule(request(2), environments("abc"), [placement("c")])) == ["a", "c"]
        assert placed(schedule(request(2), environments("abc"), [placement("a")])) == ["a", "b"]

    def test_reports_refused_environments_and_passes_over_them(self) -> None:
        decision = schedule(request(), [environment("a"), *environments("b")], [])
        assert placed(decision) == ["b"]
        assert [(m.environment, m.reason) for m in decision.refusals] == [("a", Refused.NO_POOL_SATISFIES_REQUIREMENTS)]

    def test_never_chooses_an_environment_that_is_not_ready(self) -> None:
        decision = schedule(request(), [environment("a", pool(), ready=False)], [])
        assert placed(decision) == []
        assert decision.refusals[0].reason is Refused.ENVIRONMENT_NOT_READY

    def test_ignores_environments_that_are_being_deleted(self) -> None:
        decision = schedule(request(), [environment("a", pool(), deleting=True)], [])
        assert decision.general_refusal is not None
        assert (decision.general_refusal.reason, decision.candidates) == (Refused.NO_ENVIRONMENTS, 0)

    def test_chooses_only_free_capacity(self) -> None:
        other = placement("a", deployment="other", namespace="elsewhere")
        assert placed(schedule(request(), environments("ab", nodes=1), [other])) == ["b"]

    def test_same_name_in_another_namespace_is_another_deployment(self) -> None:
        other = placement("a", namespace="elsewhere")
        decision = schedule(request(), environments("ab", nodes=1), [other])
        assert [(a.environment, a.placement) for a in decision.assignments] == [("b", None)]

    def test_exclusive_replicas_need_nodes_of_their_own(self) -> None:
        """Two replicas of 4 GPUs share one node of 8, unless they need exclusive nodes."""
        together = model(profile(shape=shape(1, 4)))
        apart = model(profile(shape=shape(1, 4), replicas_across_nodes=Spread.REQUIRED))
        assert placed(schedule(request(model=together, replicas=2), environments("a", nodes=1), [])) == ["a"]
        decision = schedule(request(model=apart, replicas=2), environments("a", nodes=1), [])
        assert decision.refusals[0].reason is Refused.POOL_TOO_SMALL

    def test_an_assignment_records_all_that_was_decided(self) -> None:
        """640Gi on 8 x 80Gi: one node with 8 GPUs."""
        decision = schedule(request(model=model(profile(), vram="640Gi"), replicas=2), environments("a"), [])
        (found,) = decision.assignments
        assert (found.profile, found.pool, found.shape, found.replicas, found.vram, found.placement) == (
            "default",
            "pool",
            shape(),
            2,
            640 * 2**30,
            None,
        )


class TestFaults:
    def test_storage_for_one_node_and_only_profiles_of_several(self) -> None:
        decision = schedule(request(model=TWO_NODES, choice=EMPTY_DIR), environments("a"), [])
        assert decision.general_refusal is not None
        assert (decision.general_refusal.reason, decision.general_refusal.field) == (
            Refused.INVALID_DEPLOYMENT,
            Field.STORAGE,
        )
        assert placed(decision) == []

    def test_a_claim_for_one_pod_and_several_replicas(self) -> None:
        choice = CreatedStorage(type=CacheType.PVC, access_mode="ReadWriteOnce")
        assert placed(schedule(request(choice=choice), environments("a"), [])) == ["a"]
        decision = schedule(request(choice=choice, replicas=2), environments("a"), [])
        assert decision.general_refusal is not None
        assert (decision.general_refusal.reason, decision.general_refusal.field) == (
            Refused.INVALID_DEPLOYMENT,
            Field.STORAGE,
        )

    def test_keeps_running_placements_of_an_invalid_deployment(self) -> None:
        """The placement on `a` is unchanged. The placement without a pool waits for a valid spec."""
        own = [placement("a", shape=shape(2)), placement("b", "gone", shape=shape(2))]
        decision = schedule(request(2, model=TWO_NODES, choice=EMPTY_DIR), environments("ab"), own)
        assert decision.general_refusal is not None
        assert (placed(decision), carried(decision), dropped(decision)) == (["a"], ["b"], [])

    def test_empty_list_of_environments_removes_nothing(self) -> None:
        own = [placement("a", has_served=True, ready=True), placement("b")]
        decision = schedule(request(2), [], own)
        assert decision.general_refusal is not None
        assert decision.general_refusal.reason is Refused.NO_ENVIRONMENTS
        assert (placed(decision), carried(decision), dropped(decision)) == ([], ["a", "b"], [])


class TestScaleDown:
    def test_drops_unready_placements_first(self) -> None:
        own = [placement("a"), placement("b", ready=True), placement("c", ready=True)]
        decision = schedule(request(2), environments("abc"), own)
        assert placed(decision) == ["b", "c"]
        assert dropped(decision) == [("a", RemovalCause.SCALED_DOWN)]

    def test_drops_the_last_by_name(self) -> None:
        own = [placement(name, ready=True) for name in "cab"]
        decision = schedule(request(1), environments("abc"), own)
        assert placed(decision) == ["a"]
        assert dropped(decision) == [("b", RemovalCause.SCALED_DOWN), ("c", RemovalCause.SCALED_DOWN)]

    def test_fewer_replicas_always_succeed(self) -> None:
        """This applies even if the pool is too small for the remaining replicas."""
        own = placement("a", replicas=9, has_served=True)
        decision = schedule(request(replicas=6), environments("a", nodes=4), [own])
        assert [a.replicas for a in decision.assignments] == [6]
        assert decision.refusals == ()

    def test_to_zero(self) -> None:
        decision = schedule(request(replicas=0), environments("a"), [placement("a", ready=True)])
        assert [a.replicas for a in decision.assignments] == [0]


class TestInPlace:
    def test_another_shape_stays_on_its_environment(self) -> None:
        """The nodes of the placement itself count as free: 2 x 8 fit on two nodes, one of which it uses."""
        own = placement("b")
        decision = schedule(request(model=TWO_NODES), environments("ab", nodes=2), [own])
        (found,) = decision.assignments
        assert (found.environment, found.placement, found.shape) == ("b", own, shape(2))
        assert (decision.carried, decision.dropped) == ((), ())

    def test_although_it_is_not_ready(self) -> None:
        down = environment("b", pool(), ready=False)
        decision = schedule(request(model=TWO_NODES), [*environments("a"), down], [placement("b")])
        assert placed(decision) == ["b"]

    def test_another_pool_of_the_same_environment(self) -> None:
        own = placement("b", "gone")
        decision = schedule(request(), environments("ab"), [own])
        assert [(a.environment, a.pool, a.placement) for a in decision.assignments] == [("b", "pool", own)]

    def test_vram_is_recorded_again(self) -> None:
        """1200Gi / 80Gi = 15 GPUs: 2 nodes of 8 instead of one."""
        own = placement("a", vram="640Gi")
        decision = schedule(request(model=model(profile(), vram="1200Gi")), environments("a"), [own])
        assert [(a.shape, a.vram, a.placement) for a in decision.assignments] == [(shape(2), 1200 * 2**30, own)]

    def test_no_more_than_wanted(self) -> None:
        """Two placements need rescheduling, and one is desired: the other one is carried until the first is Ready."""
        own = [placement("a"), placement("b")]
        decision = schedule(request(1, model=TWO_NODES), environments("ab"), own)
        assert (placed(decision), carried(decision)) == (["a"], ["b"])


class TestMove:
    """The selector now requires tier=new, and the placement runs on `old`."""

    model = model(profile(shape=shape()), selector=selector(tier="new"))
    old = environment("old", pool(nodes=1), labels={"tier": "old"})
    new = environment("new", pool(nodes=1), labels={"tier": "new"})
    own = placement("old", has_served=True, ready=True)

    def test_carries_the_old_placement_until_the_new_one_is_ready(self) -> None:
        decision = schedule(request(model=self.model), [self.old, self.new], [self.own])
        assert (placed(decision), carried(decision), dropped(decision)) == (["new"], ["old"], [])
        assert decision.placed == 1

    def test_while_the_new_starts(self) -> None:
        decision = schedule(request(model=self.model), [self.old, self.new], [self.own, placement("new")])
        assert (placed(decision), carried(decision), dropped(decision)) == (["new"], ["old"], [])

    def test_once_the_new_is_ready(self) -> None:
        own = [self.own, placement("new", has_served=True, ready=True)]
        decision = schedule(request(model=self.model), [self.old, self.new], own)
        assert (placed(decision), carried(decision)) == (["new"], [])
        assert dropped(decision) == [("old", RemovalCause.REPLACED)]

    def test_keeps_placement_and_reports_refusal_when_nothing_else_fits(self) -> None:
        other = placement("new", deployment="other")
        decision = schedule(request(model=self.model), [self.old, self.new], [self.own, other])
        assert (placed(decision), carried(decision), dropped(decision)) == ([], ["old"], [])
        assert [(m.environment, m.reason) for m in decision.refusals] == [
            ("new", Refused.INSUFFICIENT_CAPACITY),
            ("old", Refused.NO_ENVIRONMENT_MATCHES),
        ]

    def test_the_old_is_charged_to_others(self) -> None:
        """Other placements cannot use the node of a carried placement."""
        theirs = request(name="theirs")
        decision = schedule(theirs, [self.old], [self.own])
        assert decision.refusals[0].reason is Refused.INSUFFICIENT_CAPACITY

    @pytest.mark.parametrize("gone", [(), (environment("old", pool(), deleting=True),)])
    def test_a_vanished_environment_is_left_in_the_same_way(self, gone: tuple[Environment, ...]) -> None:
        decision = schedule(request(), [*gone, *environments("a")], [self.own])
        assert (placed(decision), carried(decision), dropped(decision)) == (["a"], ["old"], [])

    def test_each_that_is_ready_lets_one_go(self) -> None:
        """Both placements move. One of the new ones is Ready, so one of the old ones is still needed."""
        own = [placement("x", ready=True), placement("y", ready=True), placement("a", ready=True), placement("b")]
        decision = schedule(request(2), environments("ab"), own)
        assert (placed(decision), carried(decision)) == (["a", "b"], ["x"])
        assert dropped(decision) == [("y", RemovalCause.REPLACED)]

    def test_fewer_wanted_lets_the_surplus_go(self) -> None:
        """Three environments are deleted and one is desired, so the Ready placement is carried."""
        own = [placement("x"), placement("y", ready=True), placement("z")]
        decision = schedule(request(1), [], own)
        assert carried(decision) == ["y"]
        assert dropped(decision) == [("x", RemovalCause.SCALED_DOWN), ("z", RemovalCause.SCALED_DOWN)]


class TestYield:
    other = placement("a", deployment="other", created="2025")

    def test_evicts_a_placement_that_was_never_ready_and_does_not_fit(self) -> None:
        decision = schedule(request(), environments("ab", nodes=1), [placement("a"), self.other])
        assert placed(decision) == ["b"]
        assert dropped(decision) == [("a", RemovalCause.EVICTED)]

    def test_drops_it_where_nothing_fits(self) -> None:
        decision = schedule(request(), environments("a", nodes=1), [placement("a"), self.other])
        assert (placed(decision), carried(decision)) == ([], [])
        assert dropped(decision) == [("a", RemovalCause.EVICTED)]
        assert decision.refusals[0].reason is Refused.INSUFFICIENT_CAPACITY

    def test_it_comes_back_to_the_same_environment_in_place(self) -> None:
        """Four replicas of one node did not fit beside the other placement, but the two replicas desired now fit."""
        own = placement("a", replicas=4)
        decision = schedule(request(replicas=2), environments("a", nodes=3), [own, self.other])
        assert [(a.environment, a.replicas, a.placement) for a in decision.assignments] == [("a", 2, own)]
        assert decision.dropped == ()

    @pytest.mark.parametrize("reverse", [False, True])
    def test_two_that_decided_at_the_same_moment(self, reverse: bool) -> None:
        """Two placements of 2 x 8 have room for one: both deployments agree on the same one, and keep this decision."""
        writer = environments("a", nodes=2)
        names = ("one", "two")
        needs = {name: request(model=TWO_NODES, name=name) for name in names}
        view: list[Placement] = []
        for _ in range(3):
            decisions = {name: schedule(needs[name], writer, view) for name in names}
            view = [
                a.placement or placement("a", deployment=name, shape=a.shape, uid="21"[names.index(name)])
                for name in names
                for a in decisions[name].assignments
            ]
            view = view[::-1] if reverse else view
        assert [p.deployment for p in view] == ["two"], (
            "of two placements created in the same second, the one with the lower uid stays"
        )

    def test_placement_that_was_ready_is_not_evicted_for_an_older_one(self) -> None:
        own = placement("a", has_served=True, created="2026")
        decision = schedule(request(), environments("ab", nodes=1), [own, self.other])
        assert placed(decision) == ["a"]


class TestGrowth:
    def test_within_the_room(self) -> None:
        decision = schedule(request(replicas=4), environments("a", nodes=4), [placement("a")])
        assert [a.replicas for a in decision.assignments] == [4]

    def test_beyond_what_others_leave(self) -> None:
        """Another deployment uses one of four nodes: of 4 replicas, 3 fit."""
        other = placement("a", deployment="other")
        decision = schedule(request(replicas=4), environments("a", nodes=4), [placement("a"), other])
        assert [a.replicas for a in decision.assignments] == [3]
        (miss,) = decision.refusals
        assert (miss.reason, miss.granted_replicas) == (Refused.INSUFFICIENT_CAPACITY, 3)
        assert (miss.refusals[0].required, miss.refusals[0].actual) == (4, 3)

    def test_no_further_than_its_environment_admitted(self) -> None:
        """The spec has three replicas, two are admitted, and another deployment uses two of four nodes."""
        share = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=2)
        grant = Grant(uid="me", namespace=NAMESPACE, name="chat-a", share=share)
        there = environment("a", pool(nodes=4), uid="e", admitted=(grant,), rejected=(("me", "pool"),))
        mine = placement("a", uid="me", replicas=3, has_served=True)
        other = placement("a", deployment="other", replicas=2, has_served=True)
        decision = schedule(request(replicas=3), [there], [mine, other])
        assert [a.replicas for a in decision.assignments] == [2]
        (miss,) = decision.refusals
        assert (miss.reason, miss.granted_replicas) == (Refused.INSUFFICIENT_CAPACITY, 2)

    def test_a_new_placement_that_follows_the_load_begins_with_what_fits(self) -> None:
        """The autoscaler asks for 5 replicas, and a has room for 2, of which the minimum is 1; b has room for none."""
        load = LoadScaling(minimum=1, maximum=9)
        full = placement("b", deployment="other", replicas=2, has_served=True)
        asked = replace(request(replicas=5), deployment=replace(request(replicas=5).deployment, load=load))
        decision = schedule(asked, environments("ab", nodes=2), [full])
        assert [(a.environment, a.replicas) for a in decision.assignments] == [("a", 2)]
        assert [(i.environment, i.granted_replicas) for i in decision.refusals] == [("a", 2), ("b", None)]
        grown = schedule(asked, environments("ab", nodes=2), [placement("a"), full])
        assert [(a.environment, a.replicas) for a in grown.assignments] == [("a", 2)]

    def test_a_new_placement_that_lends_replicas_begins_with_what_fits(self) -> None:
        """Of 6 replicas, 2 are guaranteed. The pools of a, b and c have room for 1, 3 and 4."""
        places = [environment(name, pool(nodes=nodes)) for name, nodes in (("a", 1), ("b", 3), ("c", 4))]
        asked = replace(request(), deployment=replace(request(replicas=6).deployment, fixed_guaranteed=2))
        decision = schedule(asked, places, [])
        assert [(a.environment, a.replicas) for a in decision.assignments] == [("b", 3)]
        lent = replace(placement("c", deployment="other", replicas=4), guaranteed=0)
        free_first = schedule(asked, places, [lent])
        assert [(a.environment, a.replicas, a.takes_back) for a in free_first.assignments] == [("b", 3, False)]
        two = replace(asked, deployment=replace(asked.deployment, environments=2))
        assert [(a.environment, a.replicas) for a in schedule(two, places, []).assignments] == [("b", 3), ("c", 4)]

    def test_begins_where_all_replicas_fit(self) -> None:
        load = LoadScaling(minimum=1, maximum=9)
        asked = replace(request(replicas=2), deployment=replace(request(replicas=2).deployment, load=load))
        small, large = *environments("a", nodes=1), *environments("b", nodes=2)
        decision = schedule(asked, [small, large], [])
        assert [(a.environment, a.replicas) for a in decision.assignments] == [("b", 2)]

    def test_beyond_the_pool(self) -> None:
        decision = schedule(request(replicas=5), environments("a", nodes=4), [placement("a")])
        assert [a.replicas for a in decision.assignments] == [4]
        assert decision.refusals[0].reason is Refused.POOL_TOO_SMALL

    def test_apart(self) -> None:
        """Five replicas of 4 GPUs share 4 nodes of 8; of replicas that need exclusive nodes, four fit."""
        small = shape(1, 4)
        apart = model(profile(shape=small, replicas_across_nodes=Spread.REQUIRED))
        own = placement("a", shape=small)
        decision = schedule(request(model=apart, replicas=5), environments("a", nodes=4), [own])
        assert [a.replicas for a in decision.assignments] == [4]

    def test_a_claim_of_one_pod_is_not_shared(self) -> None:
        choice = CreatedStorage(type=CacheType.PVC)
        lone = environment("a", pool(), access_mode="ReadWriteOnce")
        decision = schedule(request(choice=choice, replicas=2), [lone], [placement("a")])
        assert [a.replicas for a in decision.assignments] == [1]
        assert decision.refusals[0].reason is Refused.SHARED_STORAGE_MISSING

    @pytest.mark.parametrize(
        "where", [environment("a", broken=True), environment("a", broken_pools=("pool",))], ids=["environment", "pool"]
    )
    def test_not_where_the_room_cannot_be_read(self, where: Environment) -> None:
        decision = schedule(request(replicas=2), [where], [placement("a")])
        assert [a.replicas for a in decision.assignments] == [1]
        assert decision.refusals[0].reason is Refused.NO_POOL_SATISFIES_REQUIREMENTS

    def test_a_broken_profile_keeps_the_shape_and_the_replicas_it_has(self) -> None:
        """With an invalid profile, a placement only accepts fewer replicas."""
        broken = model(profile("valid", shape()), broken=(broken_profile("default"),))
        own = placement("a", vram="640Gi")
        decision = schedule(request(model=broken, replicas=2), environments("a"), [own])
        assert [(a.profile, a.replicas, a.vram) for a in decision.assignments] == [("default", 1, 640 * 2**30)]
        assert [miss.reason for miss in decision.refusals] == [Refused.INVALID_PROFILE]


class TestUnreadable:
    def test_it_stays_as_observed_and_counts(self) -> None:
        own = placement("b", shape=None)
        decision = schedule(request(), environments("ab"), [own])
        assert (placed(decision), decision.carried, decision.placed) == ([], (own,), 1)

    def test_it_can_be_scaled_down(self) -> None:
        own = [placement("a", ready=True), placement("b", shape=None)]
        decision = schedule(request(), environments("ab"), own)
        assert (placed(decision), decision.unreadable) == (["a"], frozenset())
        assert dropped(decision) == [("b", RemovalCause.SCALED_DOWN)]


def test_deleting_placement_keeps_its_assignment() -> None:
    """A placement that a user deletes is assigned again, but another placement is preferred."""
    going = replace(placement("b", ready=True), deleting=True)
    assert placed(schedule(request(), environments("ab"), [going])) == ["b"]
    assert placed(schedule(request(), environments("abc"), [going, placement("c")])) == ["c"]
