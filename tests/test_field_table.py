"""The page of fields has a row for every field that the schemas know, and says what must be set."""

import re

import pytest

from function.api.problems import SPECS
from tools import field_table


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_field_of_a_kind_has_a_row(kind: str) -> None:
    _, _, after = field_table.page().partition(f"\n## {kind}\n")
    section = after.partition("\n## ")[0]
    rows = re.findall(r"^\| `spec\.(\w+)(?:\[\])?` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(field.alias or name for name, field in SPECS[kind].model_fields.items())


def test_a_row_says_type_default_and_meaning() -> None:
    rows = {line.split("`")[1]: line for line in field_table.page().splitlines() if line.startswith("| `spec")}
    assert rows["spec.huggingFace.repo"].startswith("| `spec.huggingFace.repo` | text **required** |  | ")
    assert '| text | `"main"` | ' in rows["spec.huggingFace.revision"]
    assert "| list of object **required** |" in rows["spec.serving[]"]
    assert rows["spec.resources.disk"].startswith("| `spec.resources.disk` | quantity |")
    assert all(line.count(" | ") >= 3 and not line.endswith("|  |") for line in rows.values()), "each has a meaning"
