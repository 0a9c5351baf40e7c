"""What core counts of itself: calls of the function, reconciles, and its own processor time."""

import json
import re
import urllib.request
from collections import Counter
from pathlib import Path

from tools.stack import layout


def calls() -> int:
    """Return how often core has called the function so far."""
    return int(_sum(r"function_run_function_request_total\{.*\}"))


def reconciles() -> int:
    """Return how many reconciles of composites core has ended so far."""
    return int(_sum(r"controller_runtime_reconcile_total\{controller=\"composite/.*\}"))


def conflicts() -> int:
    """Return how many of them core gave up and began again: what it had read was older than its own last write."""
    return int(_sum(r"controller_runtime_reconcile_total\{controller=\"composite/.*result=\"requeue\"\}"))


def core_seconds() -> float:
    """Return the seconds of processor time that core has spent so far."""
    return _sum("process_cpu_seconds_total")


def _sum(series: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{layout.CORE_METRICS}/metrics") as response:
        metrics = response.read().decode()
    return sum(float(number) for number in re.findall(rf"^{series} (\S+)$", metrics, re.MULTILINE))


def calls_by_kind() -> dict[str, int]:
    """Return how many calls of each kind the function has answered so far."""
    found: dict[str, int] = {}
    for labels, number in re.findall(r"^modelplane_call_seconds_count\{(.*)\} (\S+)$", _function(), re.MULTILINE):
        kind = dict(re.findall(r'(\w+)="(\w+)"', labels))["kind"]
        found[kind] = found.get(kind, 0) + int(float(number))
    return found


def calls_by_name(logs: Path, kind: str) -> Counter[str]:
    """Return how many calls the function has answered so far for each composite of a kind."""
    lines = (logs / "function-modelplane.log").read_text().splitlines()
    calls = [json.loads(line) for line in lines if line.startswith("{")]
    return Counter(call["name"] for call in calls if call.get("kind") == kind)


def _function() -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{layout.FUNCTION_METRICS}/metrics") as response:
        return str(response.read().decode())
