"""What holds for every test: how long properties may take, and what coverage looks at.

Timings vary on shared machines: no property fails for being slow. In CI Hypothesis sees to that by itself.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("house")

# The tests of the pure rooms cover them by themselves; tracing the others as well would double what they take.
_UNCOVERED = frozenset({"apis", "cli", "hub", "properties", "server"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let coverage look away while it would learn nothing."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in _UNCOVERED:
            item.add_marker(pytest.mark.no_cover)
