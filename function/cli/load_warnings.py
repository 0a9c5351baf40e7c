"""Finds slips in replicas by load, `spec.scaling.load` of a ModelDeployment."""

import re
from collections.abc import Iterator

from function.domain.model import EngineName, Problem
from function.kube.manifests import Manifest, get, integer, listing, text
from function.scheduling.verdicts import SchedulingRequest

_LOAD = "spec.scaling.load"
_NEVER_EMPTY = re.compile(r"\bor\s+(on\s*\(\s*\)\s*)?vector\s*\(", re.IGNORECASE)


def find_load_slips(manifest: Manifest) -> Iterator[Problem]:
    """Yields what is allowed in replicas by load and most likely not meant."""
    if get(manifest, _LOAD) is not None and get(manifest, "spec.scaling.signal") is None:
        yield Problem(_LOAD, "has no effect without signal: Load, so the number of replicas is fixed")
    yield from _find_guarantee_slips(manifest)
    if get(manifest, f"{_LOAD}.minReplicas") == 0 and get(manifest, "spec.service") is None:
        yield Problem(f"{_LOAD}.minReplicas", "is 0 without spec.service, so one replica stays: nothing could wake it")
    if _NEVER_EMPTY.search(text(manifest, f"{_LOAD}.target.query.promQL")):
        message = "or vector(0) hides that the load is unknown, and replicas would be stopped under load; leave it out"
        yield Problem(f"{_LOAD}.target.query.promQL", message)
    for index, entry in enumerate(listing(manifest, f"{_LOAD}.schedule")):
        zone = text(entry, "timezone")
        if zone and not _is_known_zone(zone):
            message = f"{zone} is no time zone that is known here; must be a name such as Etc/UTC or Europe/Vienna"
            yield Problem(f"{_LOAD}.schedule[{index}].timezone", message)


def _find_guarantee_slips(manifest: Manifest) -> Iterator[Problem]:
    """Yields numbers of guaranteed replicas without effect."""
    path = "spec.scaling.fixed.guaranteed"
    guaranteed = get(manifest, path)
    replicas = integer(manifest, "spec.scaling.fixed.replicas", 1)
    if guaranteed is None:
        return
    if text(manifest, "spec.scaling.signal") == "Load":
        yield Problem(path, "has no effect with signal: Load, where load.minReplicas counts")
    elif isinstance(guaranteed, int) and guaranteed > replicas > 0:
        yield Problem(path, f"{guaranteed} is more than replicas ({replicas}), so no replica is lent")


def _is_known_zone(name: str) -> bool:
    """Tells whether a time zone exists; True where the database of time zones is missing."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # few deployments need it, and every command would wait for it

    for zone in (name, "Etc/UTC"):
        try:
            ZoneInfo(zone)
        except (KeyError, OSError, ValueError):  # a missing zone, a folder, a name that is none
            continue
        return zone == name
    return True


def find_engines_without_metrics(request: SchedulingRequest) -> Iterator[Problem]:
    """Warns if the replicas follow a load that an engine does not report."""
    load = request.deployment.load
    if load is None or not load.target.needs_metrics_of_engines:
        return
    for profile in request.model.profiles:
        if profile.engine.name is EngineName.SGLANG and "--enable-metrics" not in profile.engine.args:
            message = (
                f"SGLang reports no load without --enable-metrics: add it to engine.args of profile {profile.name}"
            )
            yield Problem("spec.scaling.load.target", message)
