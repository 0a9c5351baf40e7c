"""Messages within 1,024 bytes, head and tail kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube.messages import fit_budget, join_with_more, truncate_middle


@given(st.text(), st.integers(0, 40))
def test_never_longer_than_the_limit(text: str, limit: int) -> None:
    found = truncate_middle(text, limit)
    assert len(found.encode()) <= max(limit, 3)
    assert found == text or "..." in found


def test_keeps_head_and_tail() -> None:
    assert truncate_middle("head" + "x" * 2000 + "tail", 20) == "headxxxxx...xxxxtail"


@pytest.mark.parametrize(
    ("items", "want"), [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a, b and 1 more")]
)
def test_list_names_its_first_items(items: list[str], want: str) -> None:
    assert join_with_more(items, 2) == want


@given(st.lists(st.text(), max_size=8), st.integers(40, 200))
def test_items_that_fit_are_never_truncated(items: list[str], room: int) -> None:
    found = fit_budget(items, room)
    assert sum(len(item.encode()) for item in found) <= room
    assert found == items or sum(len(item.encode()) for item in items) > room


def test_long_item_gets_what_short_ones_leave() -> None:
    """Of 20 bytes two items of 3 leave 14 to the third."""
    assert fit_budget(["abc", "x" * 30, "def"], 20) == ["abc", "x" * 6 + "..." + "x" * 5, "def"]
    assert join_with_more(["reason " * 60, "short"]) == "reason " * 60 + ", short"
