"""The cache of parsed items: what is parsed, what is found, and what is dropped."""

from dataclasses import dataclass
from functools import partial

import pytest

from function.api.parse_cache import CacheStats, ParseCache
from function.contract import RequiredResource
from function.kube.manifests import Manifest


@dataclass(frozen=True)
class Case:
    """Lists that are parsed one after the other, and the names that are new in each of them."""

    id: str
    reason: str
    lists: tuple[str, ...]
    parsed: tuple[str, ...]


CASES = (
    Case("first-sight", "everything is parsed once", ("abc",), ("abc",)),
    Case("unchanged", "the same contents are not parsed again", ("abc", "abc"), ("abc", "")),
    Case("other-order", "the cache compares contents, not positions", ("abc", "cab"), ("abc", "")),
    Case("one-changed", "only what changed is parsed", ("abc", "abd"), ("abc", "d")),
    Case("short-list", "another call that asks for less changes nothing", ("abc", "a", "", "abc"), ("abc", "", "", "")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_only_new_content(case: Case) -> None:
    seen: list[str] = []

    def parse(manifest: Manifest) -> str:
        seen.append(str(manifest["name"]))
        return f"parsed {manifest['name']}"

    cache = ParseCache(parse)
    for names, parsed in zip(case.lists, case.parsed, strict=True):
        seen.clear()
        results = cache.parse([RequiredResource(name.encode(), partial(dict, name=name)) for name in names])
        assert results == tuple(f"parsed {name}" for name in names), case.reason
        assert "".join(seen) == parsed, case.reason
    read, misses = len("".join(case.lists)), len("".join(case.parsed))
    assert cache.stats == CacheStats(hits=read - misses, misses=misses), case.reason


def test_drops_entries_that_are_not_used() -> None:
    """Entries that are not used while 2,000 others are parsed are dropped."""
    seen: list[str] = []

    def parse(manifest: Manifest) -> None:
        seen.append(str(manifest["name"]))

    cache: ParseCache[None] = ParseCache(parse)

    def read(*names: str) -> list[str]:
        seen.clear()
        cache.parse([RequiredResource(name.encode(), partial(dict, name=name)) for name in names])
        return list(seen)

    read("kept", "left")
    for number in range(2_100):
        read("kept", str(number))
    assert read("kept", "left") == ["left"]


def test_caches_none() -> None:
    calls: list[Manifest] = []
    cache = ParseCache(calls.append)
    item = RequiredResource(b"x", dict)
    assert cache.parse([item]) == (None,)
    assert cache.parse([item]) == (None,)
    assert len(calls) == 1, "None is cached like any other result"


def test_keeps_a_cache_for_each_of_the_last_few_keys() -> None:
    seen: list[str] = []

    def parse(manifest: Manifest, value: dict[str, int]) -> str:
        seen.append(f"{manifest['name']}{value['n']}")
        return seen[-1]

    cache = ParseCache(parse)
    item = RequiredResource(b"a", partial(dict, name="a"))
    for n in (1, 2, 1, 2):
        assert cache.parse([item], {"n": n}) == (f"a{n}",)
    assert seen == ["a1", "a2"], "the cache compares values by equality, without identity or hash"
    for n in (3, 4, 5, 1):
        cache.parse([item], {"n": n})
    assert seen == ["a1", "a2", "a3", "a4", "a5", "a1"]
    assert cache.stats == CacheStats(hits=2, misses=6), "dropped entries stay counted"
