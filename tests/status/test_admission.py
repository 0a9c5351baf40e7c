"""The condition Admitted of a placement: the pool, the requested and free GPUs, and the next step."""

from dataclasses import dataclass

import pytest

from function.capacity.admission import Admission
from function.domain.allocation import Free
from function.reasons import Admitted
from function.status.model_placement import build_admitted
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


WANTED = "pool pool of env: 2 replicas of 1 node x 8 GPUs required"
CASES = (
    Case(
        "admitted",
        Admission(reason=Admitted.ADMITTED, replicas=2, missing_labels={}),
        "True",
        "Admitted to pool pool of env: 2 replicas of 1 node x 8 GPUs",
    ),
    Case(
        "not-judged",
        Admission(reason=Admitted.WAITING, missing_labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has not evaluated this placement yet",
    ),
    Case(
        "list-of-rejected-is-full",
        Admission(reason=Admitted.WAITING, status_limit=1000, missing_labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has not evaluated this placement: it rejects 1000 others, and "
        "lists no more",
    ),
    Case(
        "list-of-admitted-is-full",
        Admission(reason=Admitted.REJECTED, evaluated=True, status_limit=4000, free=FREE, missing_labels={}),
        "False",
        f"{WANTED}; InferenceEnvironment env has admitted 4000 placements and lists no more; its deployment "
        "reschedules it",
    ),
    Case(
        "by-hand",
        Admission(reason=Admitted.WAITING, evaluated=True, free=NOTHING, missing_labels={}),
        "False",
        f"{WANTED}, no GPU is free; it will be admitted when capacity is available",
    ),
    Case(
        "more-than-the-pool-by-hand",
        Admission(reason=Admitted.WAITING, evaluated=True, exceeds_pool=True, free=FREE, missing_labels={}),
        "False",
        f"{WANTED}, more than the empty pool holds; request less, or raise what the pool declares",
    ),
    Case(
        "more-than-the-pool",
        Admission(reason=Admitted.REJECTED, evaluated=True, exceeds_pool=True, free=FREE, missing_labels={}),
        "False",
        f"{WANTED}, more than the empty pool holds; its deployment reschedules it",
    ),
    Case(
        "no-room-to-grow",
        Admission(reason=Admitted.REJECTED, evaluated=True, replicas=1, free=FREE, missing_labels={}),
        "False",
        f"{WANTED}, 1 admitted, free GPUs: 8 on 3 nodes, 2 on 1 node; its deployment reschedules it",
    ),
    Case(
        "a-node-to-itself",
        Admission(reason=Admitted.REJECTED, evaluated=True, exclusive_node=True, free=FREE, missing_labels={}),
        "False",
        "pool pool of env: 2 replicas of 1 node x 8 GPUs, each pod with a node to itself (it uses the node's network "
        "ports, or all of its devices), required, free GPUs: 8 on 3 nodes, 2 on 1 node; its deployment reschedules it",
    ),
    Case(
        "unlabelled",
        Admission(reason=Admitted.LABEL_MISSING, missing_labels={"modelplane.ai/environment": "env"}),
        "False",
        "metadata.labels must include modelplane.ai/environment: env; without them the environment cannot see this "
        "placement and nothing is started",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_words_the_condition(case: Case) -> None:
    said = build_admitted(TWO, case.found)
    assert (said.status, said.reason, said.message) == (case.status, case.found.reason, case.message)
