"""Every example comes to rest through the real Crossplane, and applies as it stands."""

from collections.abc import Callable
from pathlib import Path

import pytest

from function.kube.manifests import listing, mapping
from tests.conformance import crossplane
from tests.conformance.rest import Rest
from tests.support.plane import APPLIED
from tools import programs

pytestmark = pytest.mark.conformance

# Checked in test_ai_gateway.py and test_own_cluster.py.
OF_OTHERS = {"ai-gateway", "bring-your-own-cluster"}
STORIES = [programs.ROOT / "examples" / name for name in APPLIED]


def test_there_are_examples() -> None:
    assert STORIES


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_example_comes_to_rest(story: Path, settle: Callable[..., Rest]) -> None:
    manifests = [m for path in sorted(story.glob("*.yaml")) for m in crossplane.read(path)]
    assert settle(*manifests).rendered, "an example without a composite"


def test_every_manifest_passes_the_schemas(schemas: Path, tmp_path: Path) -> None:
    folders = (programs.ROOT / "examples", programs.ROOT / "tests" / "acceptance")
    paths = (path for folder in folders for path in sorted(folder.rglob("*.yaml")))
    files = [path for path in paths if path.parent.name not in OF_OTHERS]
    manifests = [manifest for path in files for manifest in crossplane.read(path)]
    inputs = [
        mapping(step, "input")
        for manifest in manifests
        for step in listing(manifest, "spec.pipeline")
        if "input" in step
    ]
    assert inputs, "no example shows the function's input"
    assert crossplane.validate(schemas, [*manifests, *inputs], tmp_path) == []
