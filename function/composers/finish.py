"""The last step of every composer: all owned conditions, events where a reason changed, and when to be called again."""

from collections.abc import Iterable, Mapping

from function.contract import Call, Composed, Condition, Outcome, Requirement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping, text
from function.remote.carry_over import carry_over
from function.status.conditions import complete
from function.status.events import changes


def finish(  # noqa: PLR0913  # the parts of an Outcome
    call: Call,
    settings: Settings,
    *,
    requirements: Mapping[str, Requirement],
    composed: Mapping[str, Composed],
    status: Manifest,
    conditions: Iterable[Condition],
    settled: bool,
    ready: bool | None = None,
) -> Outcome:
    """Return the outcome; conditions that are missing are Unknown for the reason of the first that is not True.

    `settled`: it is as it shall be, so that nobody need look again soon. `ready` as in the outcome.
    """
    known = tuple(conditions)
    blocking = next((c for c in known if c.status != "True"), None)
    every = complete(
        text(call.xr, "kind"),
        known,
        blocking.reason if blocking else "Pending",
        f"Not evaluated while {blocking.type} is {blocking.status}" if blocking else "",
    )
    ttl = settings.ttl_settled if settled else settings.ttl_pending
    return Outcome(
        requirements=requirements,
        composed=composed,
        status=status,
        conditions=every,
        events=changes(call.xr, every),
        ready=ready,
        ttl_seconds=ttl,
    )


def keep_observed(
    call: Call, settings: Settings, requirements: Mapping[str, Requirement], conditions: Iterable[Condition]
) -> Outcome:
    """Return the outcome that keeps everything as observed, resources and status, while an input is unusable.

    Where there is nothing to keep the composite is not ready, although Crossplane would think so; where there is, it is
    as ready as what is kept.
    """
    return finish(
        call,
        settings,
        requirements=requirements,
        composed=carry_over(call.observed),
        status=observed_status(call.xr),
        conditions=conditions,
        settled=False,
        ready=None if call.observed else False,
    )


def unready(composed: Mapping[str, Composed], *, works: bool) -> bool | None:
    """Return False where all that is composed so far is ready and yet it does not work: there is more to come."""
    return False if not works and all(item.ready for item in composed.values()) else None


def observed_status(xr: Manifest) -> Manifest:
    """Return the status that we wrote earlier: left out, Crossplane would remove it."""
    return {key: value for key, value in mapping(xr, "status").items() if key not in {"conditions", "crossplane"}}
