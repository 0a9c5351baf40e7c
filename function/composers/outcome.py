"""The last step of every composer: all conditions of the kind, events for those that changed, and the next call."""

from collections.abc import Iterable, Mapping

from function.contract import Call, Composed, Condition, Outcome, Requirement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping, text
from function.remote.object_writer import carry_over
from function.status.conditions import complete, list_changes


def build_outcome(  # noqa: PLR0913  # the parts of an Outcome
    call: Call,
    settings: Settings,
    *,
    requirements: Mapping[str, Requirement],
    composed: Mapping[str, Composed],
    status: Manifest,
    conditions: Iterable[Condition],
    settled: bool,  # the composite is as desired: the next call may be late
    ready: bool | None = None,
) -> Outcome:
    """Returns the outcome; missing conditions are Unknown for the reason of the first one that is not True."""
    known = tuple(conditions)
    blocking = next((c for c in known if c.status != "True"), None)
    all_conditions = complete(
        text(call.xr, "kind"),
        known,
        blocking.reason if blocking else "Pending",
        f"Not evaluated while {blocking.type} is {blocking.status}" if blocking else "",
    )
    return Outcome(
        requirements=requirements,
        composed=composed,
        status=status,
        conditions=all_conditions,
        events=list_changes(call.xr, all_conditions),
        ready=ready,
        ttl_seconds=settings.ttl_settled if settled else settings.ttl_pending,
    )


def keep_observed(
    call: Call, settings: Settings, requirements: Mapping[str, Requirement], conditions: Iterable[Condition]
) -> Outcome:
    """Returns the outcome that keeps resources and status as observed while an input is unusable.

    Without any resource Crossplane would consider the composite ready, so it is set to not ready.
    """
    return build_outcome(
        call,
        settings,
        requirements=requirements,
        composed=carry_over(call.observed),
        status=observed_status(call.xr),
        conditions=conditions,
        settled=False,
        ready=None if call.observed else False,
    )


def unready_if_incomplete(composed: Mapping[str, Composed], *, works: bool) -> bool | None:
    """Returns False if all that is composed so far is ready and it does not work yet: more resources will follow."""
    return False if not works and all(item.ready for item in composed.values()) else None


def observed_status(xr: Manifest) -> Manifest:
    """Returns the status that this function wrote earlier; Crossplane would remove what is left out."""
    return {key: value for key, value in mapping(xr, "status").items() if key not in {"conditions", "crossplane"}}
