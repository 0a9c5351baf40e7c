"""Names are DNS-1035, bounded, and distinguished by a hash of their identity."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube import names

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)


def test_hash_depends_on_the_borders_of_parts() -> None:
    assert names.hash_parts("a", "bc") != names.hash_parts("ab", "c")
    assert names.hash_parts("a", "b") != names.hash_parts("b", "a")
    assert re.fullmatch("[0-9a-f]{16}", names.hash_parts("a"))


def test_name_has_the_stem_and_a_hash() -> None:
    # printf 'ml\0gemma' | sha256sum begins with fb4e9e2d1c535a39.
    assert names.hash_parts("ml", "gemma") == "fb4e9e2d1c535a39"
    assert names.build_name("Gemma 3/27B", "ml", "gemma") == "gemma-3-27b-fb4e9e2d"


@pytest.mark.parametrize(
    ("stem", "start"), [("3gemma", "m-3gemma-"), ("", "m-"), ("---", "m-"), ("Ünïcode", "n-code-")]
)
def test_name_starts_with_a_letter(stem: str, start: str) -> None:
    name = names.build_name(stem, "x")
    assert name.startswith(start)
    assert DNS_1035.fullmatch(name)


def test_names_of_long_stems_differ() -> None:
    long = "a" * 60
    one, two = names.build_name(long, "1"), names.build_name(long, "2")
    assert one != two
    assert len(one) == len(two) == names.PREFIXED_LIMIT
    assert len(names.build_name(long, "1", limit=40)) == 40


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3), st.sampled_from((35, 40)))
def test_names_are_dns_1035_and_bounded(stem: str, identity: list[str], limit: int) -> None:
    name = names.build_name(stem, *identity, limit=limit)
    assert DNS_1035.fullmatch(name)
    assert len(name) <= limit


def test_label_values_are_shortened_names() -> None:
    assert names.label_value("a" * 63) == "a" * 63
    one, two = names.label_value("a" * 64), names.label_value("a" * 65)
    assert one != two
    assert len(one) == len(two) == 63
