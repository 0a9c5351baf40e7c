"""The progress of a download in the statuses of a placement and of a ModelCache, until the weights are complete."""

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, listing, text
from tests.support.plane import only, plane

GIB = 2**30
EXAMPLES = {"ModelPlacement": ("kimi-k2-two-nodes", 1100), "ModelCache": ("model-cache", 520)}


def _find_progress(composite: Manifest) -> list[JSON]:
    storages = [get(composite, "status.storage"), *listing(composite, "status.environments")]
    return [progress for storage in storages if (progress := get(storage, "progress"))]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_status_has_the_progress_of_a_running_job_only(kind: str) -> None:
    example, size = EXAMPLES[kind]
    control = plane(example)
    ref = only(control, kind)
    composites = [each.rendered[ref].composite for each in control.rounds if ref in each.rendered]
    found = [progress for composite in composites for progress in _find_progress(composite)]
    want = {"parts": 8, "partsDone": 4, "bytesTotal": size * GIB, "bytesDone": size * GIB // 2}
    assert found
    assert all(isinstance(block, dict) and {key: block[key] for key in want} == want for block in found)
    messages = [
        text(condition(composite, "StorageReady" if kind == "ModelPlacement" else "Hydrated"), "message")
        for composite in composites
        if _find_progress(composite)
    ]
    assert all("running; 4 of 8 parts are complete (about " in message for message in messages)
    assert _find_progress(composites[-1]) == []
