"""A ModelCache of another model than the placement: the running service stays, and the message names both models."""

from function.kube.manifests import get
from function.reasons import Status
from tests.support.remote_scene import Scene, build_scene, set_field

OTHER = "models/0123456789abcdef"


def test_a_cache_of_another_model_changes_nothing_that_runs() -> None:
    rest = build_scene("model-cache")

    def other(found: Scene) -> None:
        cache = found.answers["cache"]
        set_field(cache, "spec.modelRef.name", "llama")
        rows = get(cache, "status.environments")
        assert isinstance(rows, list)
        for row in rows:
            assert isinstance(row, dict)
            row["path"] = OTHER

    changed = rest.edited(other)
    assert changed.composed() == rest.composed()
    state = changed.condition("StorageReady")
    assert state.status is Status.FALSE
    assert state.message.startswith("spec.modelCache.name: ModelCache ")
    assert "keeps model llama, not qwen3-235b" in state.message
    assert changed.condition("ServiceReady").status is Status.TRUE


def test_keeps_service_of_read_write_once_cache_without_second_replica() -> None:
    """The claim of the ModelCache, which every replica reads, became ReadWriteOnce after the placement was created."""
    rest = build_scene("model-cache")

    def once(found: Scene) -> None:
        rows = get(found.answers["cache"], "status.environments")
        assert isinstance(rows, list)
        for row in rows:
            assert isinstance(row, dict)
            row["accessMode"] = "ReadWriteOnce"

    changed = rest.edited(once, lambda found: set_field(found.xr, "spec.replicas", 2))
    state = changed.condition("StorageReady")
    assert (state.status, state.reason) == (Status.FALSE, "ClaimNotShared")
    assert changed.composed() == rest.composed()
