"""Timings vary on shared machines: no property fails for being slow. In CI Hypothesis sees to that by itself."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("house")
