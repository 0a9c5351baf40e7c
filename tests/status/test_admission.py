"""What a placement says of its admission: the pool, what it wants and what is free, and what happens next."""

from dataclasses import dataclass

import pytest

from function.domain.allocation import Free
from function.reasons import Admitted
from function.scheduling.admission import Admission
from function.status.admission import admitted
from tests.support.builders import placement

TWO = placement(replicas=2)
FREE = Free(placements=1, nodes=((2, 1), (8, 3)))
NOTHING = Free(placements=4, nodes=())


@dataclass(frozen=True)
class Case:
    id: str
    found: Admission
    status: str
    message: str


WANTED = "pool pool of env: 2 replicas of 1 node x 8 GPUs wanted"
CASES = (
    Case(
        "admitted",
        Admission(reason=Admitted.ADMITTED, replicas=2, labels={}),
        "True",
        "Admitted to pool pool of env: 2 replicas of 1 node x 8 GPUs",
    ),
    Case(
        "not-judged",
        Admission(reason=Admitted.WAITING, labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has not judged it yet",
    ),
    Case(
        "beyond-whom-a-status-names",
        Admission(reason=Admitted.WAITING, status_limit=1000, labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has not judged it: there is no room for 1000 others there, and it "
        "names no more",
    ),
    Case(
        "beyond-whom-a-status-admits",
        Admission(reason=Admitted.REJECTED, evaluated=True, status_limit=4000, free=FREE, labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has admitted 4000 placements and names no more; its deployment decides "
        "again",
    ),
    Case(
        "can-start-again",
        Admission(reason=Admitted.CANNOT_START, labels={}),
        "False",
        "Its references resolve again: it starts once env has admitted it again",
    ),
    Case(
        "by-hand",
        Admission(reason=Admitted.WAITING, evaluated=True, free=NOTHING, labels={}),
        "False",
        f"{WANTED}, no GPU is free; it is admitted when there is room",
    ),
    Case(
        "more-than-the-pool-by-hand",
        Admission(reason=Admitted.WAITING, evaluated=True, exceeds_pool=True, free=FREE, labels={}),
        "False",
        f"{WANTED}, more than the pool holds were nobody there; lower what it asks for, or raise what the pool "
        "declares",
    ),
    Case(
        "more-than-the-pool",
        Admission(reason=Admitted.REJECTED, evaluated=True, exceeds_pool=True, free=FREE, labels={}),
        "False",
        f"{WANTED}, more than the pool holds were nobody there; its deployment decides again",
    ),
    Case(
        "no-room-to-grow",
        Admission(reason=Admitted.REJECTED, evaluated=True, replicas=1, free=FREE, labels={}),
        "False",
        f"{WANTED}, 1 admitted, free GPUs: 8 on 3 nodes, 2 on 1 node; its deployment decides again",
    ),
    Case(
        "a-node-to-itself",
        Admission(reason=Admitted.REJECTED, evaluated=True, exclusive_node=True, free=FREE, labels={}),
        "False",
        "pool pool of env: 2 replicas of 1 node x 8 GPUs, each pod with a node to itself (ports of the node's network, "
        "or its devices), wanted, free GPUs: 8 on 3 nodes, 2 on 1 node; its deployment decides again",
    ),
    Case(
        "room-in-the-quota-again",
        Admission(reason=Admitted.QUOTA_EXCEEDED, labels={}),
        "False",
        "There is room in the quota again: it starts once env has admitted it anew",
    ),
    Case(
        "unlabelled",
        Admission(reason=Admitted.LABEL_MISSING, labels={"modelplane.ai/environment": "env"}),
        "False",
        "metadata.labels: must have modelplane.ai/environment: env, by which it is found. Nothing starts until it has",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_what_is_said(case: Case) -> None:
    said = admitted(TWO, case.found)
    assert (said.status, said.reason, said.message) == (case.status, case.found.reason, case.message)
