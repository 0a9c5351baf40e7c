"""The ledger equals a plain ledger, which charges the grants one by one, and starts over for every placement."""

from hypothesis import example, given
from hypothesis import strategies as st

from function.domain.environment import Pool
from tests.support.builders import shape
from tests.support.plain_ledger import (
    DAYS,
    FIVE,
    MAX_FEWER,
    MAX_REPLICAS,
    MAX_ROWS,
    POOLS,
    SHAPES,
    STATES,
    Row,
    compare_with_plain_ledger,
)

ROWS = st.builds(
    Row,
    replicas=st.integers(0, MAX_REPLICAS),
    shape=st.sampled_from(SHAPES),
    fewer=st.integers(0, MAX_FEWER),
    state=st.sampled_from(STATES),
    exclusive=st.booleans(),
    day=st.integers(1, DAYS),
)
# Cases in which the result once depended on grants of the same pass. In the first two, all three placements run. In
# the last one, a younger placement overtook an older one.
PAIRS = [Row(2, shape(1, 4)), Row(2, shape(1, 4), exclusive=True), Row(4, shape(1, 1), exclusive=True)]
THREES = [Row(4, shape(1, 3)), Row(2, shape(1, 3), exclusive=True), Row(3, shape(1, 3), exclusive=True)]
OVERTAKING = [
    Row(0, shape(1, 1), state="serves another shape"),
    Row(1, shape(1, 3)),
    Row(1, shape(1, 3)),
    Row(2, shape(1, 1), fewer=1, state="granted", day=2),
    Row(3, shape(1, 4)),
    Row(4, shape(1, 4)),
]


@example(rows=PAIRS, of=FIVE)
@example(rows=THREES, of=FIVE)
@example(rows=OVERTAKING, of=FIVE)
@given(rows=st.lists(ROWS, max_size=MAX_ROWS), of=st.sampled_from(POOLS))
def test_charging_at_once_equals_charging_one_by_one(rows: list[Row], of: Pool) -> None:
    compare_with_plain_ledger(rows, of)
