"""References of images, compared with the parser of the kubelet (tests/oracle)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube.names import is_image

ORACLE = json.loads(Path(__file__).parent.parent.joinpath("oracle", "images.json").read_text("utf-8"))


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: repr(row["text"][:40]))
def test_agrees_with_the_parser_of_the_kubelet(row: dict[str, str | bool]) -> None:
    assert is_image(str(row["text"])) is row["valid"]


@pytest.mark.parametrize("text", ["a", "a-", "a.", "a_", "a/", "a:", "A", "[", "[:", "a@", "-", "0a"])
def test_takes_linear_time(text: str) -> None:
    """An algorithm that is not linear would take hours here."""
    assert not is_image(text * (2**16 // len(text)) + "!")


@given(st.text(max_size=600))
def test_accepts_any_text(text: str) -> None:
    assert is_image(text) in (True, False)
