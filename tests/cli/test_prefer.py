"""`plan` and `why` of a deployment that prefers the smallest pool that suffices: the order of choice, and why."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.cli.conftest import example
from tests.cli.process import cells, said, write


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Gemma, which asks for GPUs of 80Gi, where the H200 come first by name of environment."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    h100 = next(m for m in manifests if m["kind"] == "InferenceEnvironment")
    h200: Manifest = copy.deepcopy(h100)
    mapping(h200, "metadata")["name"] = "a-h200"
    (pool,) = listing(h200, "spec.nodePools")
    pool.update({"name": "h200", "acceleratorType": "nvidia-h200-141gb"})
    mapping(pool, "capabilities")["memoryPerGpu"] = "141Gi"
    return "-f", write(tmp_path, *manifests, h200), "-n", "chat"


@pytest.fixture
def smallest(files: tuple[str, ...]) -> tuple[str, ...]:
    file = Path(files[1])
    file.write_text(file.read_text().replace("scaling:", "placement: {prefer: SmallestSufficient}\n  scaling:"))
    return files


def test_declared_order_takes_the_first(files: tuple[str, ...]) -> None:
    rows = [(row[0], row[-2], row[-1]) for row in cells(said("plan", *files))]
    assert rows == [("a-h200", "room for 8", "placed"), ("h100-west", "room for 8", "fits")]


def test_the_smallest_is_taken_and_the_order_is_explained(smallest: tuple[str, ...]) -> None:
    shown = said("plan", *smallest)
    rows = [(row[0], row[-2], row[-1]) for row in cells(shown)]
    # 1 x 80Gi - 80Gi and 1 x 141Gi - 80Gi.
    assert rows == [
        ("h100-west", "room for 8, 0Gi unused", "placed"),
        ("a-h200", "room for 8, 61Gi unused", "fits"),
    ]
    smallest_is = "of what fits profile one-gpu, pool h100 is the smallest (0Gi unused)"
    note = f"h100-west: {smallest_is}, next a-h200/h200 (61Gi unused)"
    assert f"note: {note}" in shown
    assert f"note: {note}" in said("why", "gemma", *smallest)
    (plan,) = json.loads(said("plan", *smallest, "-o", "json"))
    assert plan["remarks"] == [note]
