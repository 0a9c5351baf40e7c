"""On which line a field stands, in a document behind another, in a list, and where it does not stand at all."""

from pathlib import Path

import pytest

from function.cli import files
from function.cli.positions import line_of

TEXT = """\
kind: First
---
kind: Second
metadata: {name: second}
spec:
  serving:
  - name: a
    engine:
      image: engine:1
  - name: b
---
kind: List
items:
- kind: Third
  spec:
    disk: 1
"""


@pytest.mark.parametrize(
    ("index", "path", "line"),
    [
        (0, "kind", 1),
        (0, "metadata.name", 1),
        (1, "kind", 3),
        (1, "metadata.name", 4),
        (1, "spec.serving[0].engine.image", 9),
        (1, "spec.serving[1].engine.image", 10),
        (1, "spec.serving[7].name", 6),
        (1, "spec.serving[a]", 6),
        (1, "", 3),
        (2, "spec.disk", 16),
        (2, "kind", 14),
    ],
)
def test_lines(index: int, path: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TEXT)
    node = files.read([str(tmp_path)])[index].node
    assert node is not None
    assert line_of(node, path) == line
