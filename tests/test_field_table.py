"""The page of fields has a row for every field that the schemas know, and says what must be set."""

import re
from pathlib import Path

import pytest

from function.api.problems import SPECS
from tests.cli.process import run
from tools import field_table
from tools.programs import ROOT


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_field_of_a_kind_has_a_row(kind: str) -> None:
    _, _, after = field_table.page().partition(f"\n## {kind}\n")
    section = after.partition("\n## ")[0]
    rows = re.findall(r"^\| `spec\.(\w+)(?:\[\])?` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(field.alias or name for name, field in SPECS[kind].model_fields.items())


def test_an_example_of_each_kind_is_valid(tmp_path: Path) -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```$", field_table.page(), re.MULTILINE | re.DOTALL)
    assert len(examples) == len(SPECS)
    (tmp_path / "shown.yaml").write_text("---\n".join(examples))
    (cached,) = (ROOT / "examples" / "model-cache").glob("model.yaml")
    done = run("validate", str(tmp_path / "shown.yaml"), str(cached))
    assert done.returncode == 0, done.stdout + done.stderr


def test_large_objects_are_spelt_out_once_and_nearest_to_the_root() -> None:
    page = field_table.page()
    assert page.count("`spec.nodePools[].capabilities.memoryPerGpu`") == 1
    assert "`spec.cluster.gke.nodePools[].name`" not in page
    assert re.search(
        r"^\| `spec.cluster.gke.nodePools\[\]` .* The fields are those of `spec.nodePools\[\]`. \|$", page, re.MULTILINE
    )


def test_a_row_says_type_default_and_meaning() -> None:
    rows = {
        line.split("`")[1]: line
        for line in field_table.page().splitlines()
        if line.startswith(("| `spec", "| `status"))
    }
    assert rows["spec.huggingFace.repo"].startswith("| `spec.huggingFace.repo` | text **required** |  | ")
    assert '| text | `"main"` | ' in rows["spec.huggingFace.revision"]
    assert "| whole number, 1 to 100 | `1` | " in rows["spec.environments"]
    assert rows["status.pools[].gpusFree"].endswith("| whole number |  | Number of free GPUs on usable nodes. |")
    assert "| list of object **required** |" in rows["spec.serving[]"]
    assert rows["spec.resources.disk"].startswith("| `spec.resources.disk` | quantity |")
    assert all(line.count(" | ") >= 3 and not line.endswith("|  |") for line in rows.values()), "each has a meaning"
