"""The committed tables are what the real libraries say today."""

import subprocess

import pytest

from tools import programs

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("table", ["quantities", "selectors", "images"])
def test_table_is_current(table: str) -> None:
    said = subprocess.run((str(programs.path("oracle")), table), capture_output=True, text=True, check=True)
    committed = (programs.ROOT / "tests" / "oracle" / f"{table}.json").read_text()
    assert said.stdout == committed, f"run `make oracle` and look at what changed in {table}.json"
