"""The memo: what is parsed again, what is not, and what is forgotten."""

from dataclasses import dataclass
from functools import partial

import pytest

from function.api.parse_cache import CacheStats, KeyedParseCache, ParseCache
from function.contract import RequiredResource
from function.kube.manifests import Manifest


@dataclass(frozen=True)
class Case:
    """Lists read one after the other, and the names that had to be parsed for each of them."""

    id: str
    reason: str
    lists: tuple[str, ...]
    parsed: tuple[str, ...]


CASES = (
    Case("first-sight", "everything is parsed once", ("abc",), ("abc",)),
    Case("unchanged", "the same contents are not parsed again", ("abc", "abc"), ("abc", "")),
    Case("other-order", "contents count, not places", ("abc", "cab"), ("abc", "")),
    Case("one-changed", "only what changed is parsed", ("abc", "abd"), ("abc", "d")),
    Case("short-list", "another call that asks for less changes nothing", ("abc", "a", "", "abc"), ("abc", "", "", "")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_only_new_content(case: Case) -> None:
    seen: list[str] = []

    def parse(manifest: Manifest) -> str:
        seen.append(str(manifest["name"]))
        return f"fact {manifest['name']}"

    memo = ParseCache(parse)
    for names, parsed in zip(case.lists, case.parsed, strict=True):
        seen.clear()
        facts = memo.parse([RequiredResource(name.encode(), partial(dict, name=name)) for name in names])
        assert facts == tuple(f"fact {name}" for name in names), case.reason
        assert "".join(seen) == parsed, case.reason
    read, anew = len("".join(case.lists)), len("".join(case.parsed))
    assert memo.stats == CacheStats(hits=read - anew, misses=anew), case.reason


def test_drops_entries_that_are_not_used() -> None:
    """Two tables of 1,000 at least: what is not read while 2,000 others are goes, what is read stays."""
    seen: list[str] = []

    def parse(manifest: Manifest) -> None:
        seen.append(str(manifest["name"]))

    memo: ParseCache[None] = ParseCache(parse)

    def read(*names: str) -> list[str]:
        seen.clear()
        memo.parse([RequiredResource(name.encode(), partial(dict, name=name)) for name in names])
        return list(seen)

    read("kept", "left")
    for number in range(2_100):
        read("kept", str(number))
    assert read("kept", "left") == ["left"]


def test_caches_none() -> None:
    calls: list[Manifest] = []
    memo = ParseCache(calls.append)
    item = RequiredResource(b"x", dict)
    assert memo.parse([item]) == (None,)
    assert memo.parse([item]) == (None,)
    assert len(calls) == 1, "nothing is a result like any other"


def test_keeps_a_cache_for_each_of_the_last_few_keys() -> None:
    seen: list[str] = []

    def parse(manifest: Manifest, value: dict[str, int]) -> str:
        seen.append(f"{manifest['name']}{value['n']}")
        return seen[-1]

    memo: KeyedParseCache[dict[str, int], str] = KeyedParseCache(parse)
    item = RequiredResource(b"a", partial(dict, name="a"))
    for n in (1, 2, 1, 2):
        assert memo.parse([item], {"n": n}) == (f"a{n}",)
    assert seen == ["a1", "a2"], "equal values need not be the same, nor have a hash"
    for n in (3, 4, 5, 1):
        memo.parse([item], {"n": n})
    assert seen == ["a1", "a2", "a3", "a4", "a5", "a1"]
    assert memo.stats == CacheStats(hits=2, misses=6), "what is forgotten was counted all the same"
