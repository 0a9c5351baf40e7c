"""The XRDs' own rules as the real validator runs them: what contradicts itself is refused at its field.

That the examples pass is shown by test_examples.py; one valid manifest of each kind shows here that the rest
of a bad one was not to blame.
"""

from pathlib import Path

import pytest

from tests.conformance import crossplane, node_contradictions
from tests.conformance.contradictions import ALLOWED, GOOD, REFUSED, Case, manifest

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="session")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our XRDs alone; beside them the package's meta would make the CLI look for what it depends on."""
    folder = tmp_path_factory.mktemp("definitions")
    found = [item for path in sorted(crossplane.APIS.glob("*/definition.yaml")) for item in crossplane.read(path)]
    crossplane.write(folder / "definitions.yaml", found)
    return folder


@pytest.mark.parametrize("kind", GOOD)
def test_the_good_manifest_passes(kind: str, definitions: Path, tmp_path: Path) -> None:
    good = manifest(Case("good", "", kind, {}))
    assert crossplane.validate(definitions, [good], tmp_path) == []


@pytest.mark.parametrize("case", [*ALLOWED, *node_contradictions.ALLOWED], ids=lambda case: case.id)
def test_what_is_allowed_passes(case: Case, definitions: Path, tmp_path: Path) -> None:
    assert crossplane.validate(definitions, [manifest(case)], tmp_path) == [], case.reason


@pytest.mark.parametrize("case", [*REFUSED, *node_contradictions.REFUSED], ids=lambda case: case.id)
def test_what_contradicts_itself_is_refused_at_its_field(case: Case, definitions: Path, tmp_path: Path) -> None:
    faults = crossplane.validate(definitions, [manifest(case)], tmp_path)
    start = f"{case.kind}/{case.id}: {case.at}: "
    assert [fault for fault in faults if fault.startswith(start) and case.say in fault], (case.reason, faults)
