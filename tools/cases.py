"""The cases of the tests: one request each and the whole answer to it (tests/test_cases.py).

A case is written out, or names another case with `from` and lists what differs as a JSON Patch (RFC 6902). The same
holds for its answer: it is in `tests/golden`, or `answer` lists what differs from the answer to another case.
"""

from pathlib import Path
from typing import Any

from jsonpath import patch

from tools.documents import document

CASES = Path(__file__).parents[1] / "tests" / "cases"
GOLDEN = CASES.with_name("golden")
NAMES = tuple(path.relative_to(CASES).with_suffix("").as_posix() for path in sorted(CASES.glob("*/*.yaml")))
_KEYS = {"reason", "xr", "observed", "required", "input", "context", "now"}


def read_case(name: str) -> dict[str, Any]:
    """Return a case, completed by the case that it names; it says why it exists."""
    written = document(CASES / f"{name}.yaml")
    base = read_case(written["from"]) if "from" in written else {}
    case = {**base, **{key: value for key, value in written.items() if key in _KEYS}}
    unknown = written.keys() - _KEYS - {"from", "changes", "answer"}
    if unknown or not written.get("reason"):
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}" if unknown else f"{name}: reason is missing")
    return _changed(case, written.get("changes", []))


def read_answer(name: str) -> dict[str, Any]:
    """Return the answer to a case, completed by the answer that it names."""
    written = document(CASES / f"{name}.yaml")
    if "answer" not in written:
        return document(GOLDEN / f"{name}.yaml")
    answer = written["answer"]
    return _changed(read_answer(answer.get("from", written["from"])), answer["changes"])


def has_golden(name: str) -> bool:
    """Tell whether the answer to a case is written out."""
    return "answer" not in document(CASES / f"{name}.yaml")


def _changed(value: dict[str, Any], changes: list[dict[str, Any]]) -> dict[str, Any]:
    changed: dict[str, Any] = patch.apply(changes, value)  # type: ignore[assignment]  # of any type, in general
    return changed
