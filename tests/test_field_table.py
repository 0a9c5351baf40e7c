"""The pages of fields are current, have a row for every field that the schemas know, and say what must be set."""

import re
from pathlib import Path

import pytest

from function.api.problems import SPECS
from tests.cli.process import run
from tools import field_table
from tools.programs import ROOT

PAGES = field_table.render()


def test_generated_pages_are_current(tmp_path: Path) -> None:
    field_table.write(tmp_path)
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in field_table.TARGET.iterdir()}
    assert fresh == committed, "run make generate"


def test_every_kind_has_a_page_that_the_documents_and_the_site_link() -> None:
    assert sorted(PAGES) == sorted(f"{kind.lower()}.md" for kind in SPECS)
    for name in PAGES:
        assert f"](fields/{name})" in (ROOT / "docs" / "reference.md").read_text()
        assert f": fields/{name}\n" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_field_of_a_kind_has_a_row(kind: str) -> None:
    rows = re.findall(r"^\| `spec\.(\w+)(?:\[\])?` \|", PAGES[f"{kind.lower()}.md"], re.MULTILINE)
    assert sorted(rows) == sorted(field.alias or name for name, field in SPECS[kind].model_fields.items())


def test_an_example_of_each_kind_is_valid(tmp_path: Path) -> None:
    for name, page in PAGES.items():
        (example,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (tmp_path / name).with_suffix(".yaml").write_text(example)
    (cached,) = (ROOT / "examples" / "model-cache").glob("model.yaml")
    done = run("validate", str(tmp_path), str(cached))
    assert done.returncode == 0, done.stdout + done.stderr


def test_large_objects_are_spelt_out_once_and_nearest_to_the_root() -> None:
    page = PAGES["inferenceenvironment.md"]
    assert page.count("`spec.nodePools[].capabilities.memoryPerGpu`") == 1
    assert "`spec.cluster.gke.nodePools[].name`" not in page
    assert re.search(
        r"^\| `spec.cluster.gke.nodePools\[\]` .* The fields are those of `spec.nodePools\[\]`. \|$", page, re.MULTILINE
    )


def _rows(kind: str) -> dict[str, str]:
    lines = PAGES[f"{kind}.md"].splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith(("| `spec", "| `status"))}


def test_a_row_says_type_default_and_meaning() -> None:
    model, environment = _rows("clustermodel"), _rows("inferenceenvironment")
    assert model["spec.huggingFace.repo"].startswith("| `spec.huggingFace.repo` | text **required** |  | ")
    assert '| text | `"main"` | ' in model["spec.huggingFace.revision"]
    assert "| whole number, 0 to 1000 | `1` | " in _rows("modelplacement")["spec.replicas"]
    assert environment["status.pools[].gpusFree"].endswith("| whole number |  | Number of free GPUs on usable nodes. |")
    assert "| list of object **required** |" in model["spec.serving[]"]
    assert model["spec.resources.disk"].startswith("| `spec.resources.disk` | quantity |")
    for line in (*model.values(), *environment.values()):
        assert line.count(" | ") >= 3, line
        assert not line.endswith("|  |"), "each has a meaning"
