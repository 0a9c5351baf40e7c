"""Parses replicas by load: `spec.scaling.load` of a ModelDeployment, and `autoscaling` of the platform settings."""

import re
from decimal import Decimal

from function import schemas
from function.api.problems import Problems
from function.api.values import parse_duration
from function.domain.scaling import Autoscaling, LoadScaling, ScheduledReplicas, Target, WakeUp

_MOST_SECONDS = 3600  # that a HorizontalPodAutoscaler accepts as a stabilization window
_NUMBER = re.compile(r"[0-9]{1,2}", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_CRON_FORM = "a cron expression of minute (0-59), hour (0-23), day (1-31), month (1-12) and day of the week (0-6)"
_DEFAULT = LoadScaling(minimum=1, maximum=1)


def parse_load(scaling: schemas.Scaling, problems: Problems) -> LoadScaling | None:
    """Returns how the replicas follow the load; None with signal Fixed, or if it has problems."""
    if scaling.signal != "Load":
        return None
    block = scaling.load
    at = problems["load"]
    if block is None:
        at.add("is required for signal Load, such as load: {maxReplicas: 8, target: {waitingRequests: 5}}")
        return None
    is_compared = not (at["minReplicas"].refused or at["maxReplicas"].refused)
    if is_compared and block.min_replicas > block.max_replicas:
        at["minReplicas"].add_invalid(block.min_replicas, f"at most maxReplicas ({block.max_replicas})")
    target = _parse_target(block.target, at["target"])
    for index, entry in enumerate(block.schedule or ()):
        _check_times(entry, at["schedule"][index])
        if entry.replicas > block.max_replicas:
            allowed = f"at most maxReplicas ({block.max_replicas})"
            at["schedule"][index]["replicas"].add_invalid(entry.replicas, allowed)
    schedule = tuple(ScheduledReplicas(**entry.model_dump()) for entry in block.schedule or ())
    if target == Target() and not schedule and not at["target"].list():
        at.add("needs a target, such as target: {waitingRequests: 5}, or an entry of schedule")
    windows = block.stabilization or schemas.Stabilization()
    return LoadScaling(
        minimum=block.min_replicas,
        maximum=block.max_replicas,
        target=target,
        up_seconds=_parse_window(windows.up, _DEFAULT.up_seconds, at["stabilization.up"]),
        down_seconds=_parse_window(windows.down, _DEFAULT.down_seconds, at["stabilization.down"]),
        schedule=schedule,
    )


def _parse_target(block: schemas.Target | None, problems: Problems) -> Target:
    if block is None:
        return Target()
    time = parse_duration(block.time_to_first_token)
    if time is not None and not time:
        problems["timeToFirstToken"].add_invalid(block.time_to_first_token, "more than 0s")
    if block.query and not problems["query.value"].refused and not Decimal(block.query.value):
        problems["query.value"].add_invalid(block.query.value, "more than 0")
    return Target(
        waiting_requests=block.waiting_requests,
        running_requests=block.running_requests,
        time_to_first_token=time,
        query=(block.query.prom_ql, block.query.value) if block.query else None,
    )


def _check_times(entry: schemas.Schedule, problems: Problems) -> None:
    """Adds a problem for times that KEDA refuses: with one of them, it reads no load either."""
    for name, value in (("start", entry.start), ("end", entry.end)):
        if not problems[name].refused and not _is_cron(value):
            problems[name].add_invalid(value, _CRON_FORM)
    if entry.start == entry.end and not problems["start"].refused:
        problems["end"].add_invalid(entry.end, "another time than start")


def _is_cron(expression: str) -> bool:
    fields = expression.split(" ")
    has_all = len(fields) == len(_CRON_FIELDS)
    return has_all and all(_is_cron_field(field, *limits) for field, limits in zip(fields, _CRON_FIELDS, strict=True))


def _is_cron_field(field: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    """Tells whether a field of a cron expression is a list of values, ranges and steps within its limits."""
    for item in field.split(","):
        values, slash, step = item.partition("/")
        if slash and not (_NUMBER.fullmatch(step) and int(step)):
            return False
        if values in {"*", "?"}:
            continue
        first, dash, last = values.lower().partition("-")
        numbers = [
            names.index(value) + least if value in names else int(value) if _NUMBER.fullmatch(value) else -1
            for value in ((first, last) if dash else (first,))
        ]
        if numbers != sorted(numbers) or not all(least <= number <= most for number in numbers):
            return False
    return True


def _parse_window(duration: str | None, default: int, problems: Problems) -> int:
    seconds = parse_duration(duration)
    if seconds is None:
        return default
    if seconds > _MOST_SECONDS:
        problems.add_invalid(duration, "at most 1h")
    return int(seconds)


def parse_autoscaling(block: schemas.Autoscaling | None, weaker: Autoscaling | None) -> Autoscaling | None:
    """Returns what the platform has for replicas by load, which one level sets as a whole."""
    if block is None:
        return weaker
    reference = block.prometheus.authentication_ref
    return Autoscaling(
        prometheus_url=block.prometheus.url,
        auth_modes=block.prometheus.auth_modes or "",
        authentication=(reference.kind or "ClusterTriggerAuthentication", reference.name) if reference else None,
        wake_up=WakeUp(block.wake_up) if block.wake_up else None,
    )
