"""A stronger level falls back on a weaker one field by field, within its blocks too; empty counts as said."""

from function.domain.settings import BUILT_IN, Download, Kserve, Settings


def test_what_the_stronger_level_says_wins() -> None:
    merged = Settings(storage_class="fast", ttl_settled=60).or_else(BUILT_IN)
    assert (merged.storage_class, merged.ttl_settled, merged.ttl_pending) == ("fast", 60, 30)


def test_an_empty_value_is_said() -> None:
    merged = Settings(storage_class="", object_watch=False).or_else(Settings(storage_class="slow", object_watch=True))
    assert merged.storage_class == ""
    assert merged.object_watch is False


def test_blocks_merge_within() -> None:
    merged = Settings(download=Download(backoff_limit=0), kserve=Kserve(gateway=False)).or_else(BUILT_IN)
    assert (merged.download.backoff_limit, merged.download.deadline_seconds) == (0, 86400)
    assert merged.kserve == Kserve(namespace="kserve", config_prefix="kserve-", gateway=False)


def test_blocks_merge_on_their_own() -> None:
    assert Download(image="mirror").or_else(BUILT_IN.download).resources == BUILT_IN.download.resources
    assert Kserve(namespace="llm").or_else(BUILT_IN.kserve).namespace == "llm"
