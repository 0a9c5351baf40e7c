"""Findings in SARIF 2.1.0, which code hosts show beside the lines of a change."""

from collections.abc import Iterable
from importlib.metadata import version

from function.kube.manifests import JSON, Manifest

_RULES = {"error": "invalid", "warning": "caution"}


def sarif(findings: Iterable[Manifest]) -> Manifest:
    """Return a log of one run; a finding has level, file, line (or none), kind, namespace, name, path and message."""
    rules: list[JSON] = [
        {"id": "invalid", "shortDescription": {"text": "The manifest is refused, or a reference leads nowhere"}},
        {"id": "caution", "shortDescription": {"text": "Allowed, and most likely not meant"}},
    ]
    results: list[JSON] = [_result(finding) for finding in findings]
    driver: Manifest = {"name": "modelplane", "version": version("function-modelplane"), "rules": rules}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Manifest) -> Manifest:
    place: Manifest = {"artifactLocation": {"uri": finding["file"]}}
    if finding["line"]:
        place["region"] = {"startLine": finding["line"]}
    names = (finding["kind"], finding["namespace"], finding["name"], finding["path"])
    return {
        "ruleId": _RULES[str(finding["level"])],
        "level": finding["level"],
        "message": {"text": f"{finding['path']}: {finding['message']}"},
        "locations": [
            {
                "physicalLocation": place,
                "logicalLocations": [{"fullyQualifiedName": "/".join(str(name) for name in names if name)}],
            }
        ],
    }
