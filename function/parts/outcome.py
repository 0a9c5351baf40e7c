"""What composers of several kinds put into their outcomes."""

from collections.abc import Iterable, Mapping

from function.contract import Call, Composed, Condition, Outcome
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping, text
from function.reasons import Status
from function.remote.object_writer import ObjectWriter
from function.status.conditions import complete


def build_writer(
    call: Call, settings: Settings, provider_config: str, observed: Mapping[str, Manifest], scope: str = ""
) -> ObjectWriter:
    """Returns the writer of a composite's Objects for one cluster; an environment's Objects are beside its Secrets."""
    return ObjectWriter(
        owner=text(call.xr, "metadata.name"),
        namespace=text(call.xr, "metadata.namespace") or settings.secret_namespace,
        provider_config=provider_config,
        watch=settings.object_watch,
        observed=observed,
        scope=scope,
    )


def keep_observed(call: Call, settings: Settings, conditions: Iterable[Condition]) -> Outcome:
    """Returns the outcome that changes nothing while an input is unusable.

    Crossplane considers a composite without resources ready, so such a composite is set to not ready.
    """
    return Outcome(
        status=observed_status(call.xr),
        conditions=tuple(conditions),
        ready=None if call.observed else False,
        ttl_seconds=settings.ttl_pending,
    )


def unready_if_incomplete(composed: Mapping[str, Composed], *, works: bool) -> bool | None:
    """Returns False if all composed resources are ready, but the composite does not work yet: more will follow."""
    return False if not works and all(item.ready for item in composed.values()) else None


def observed_status(xr: Manifest) -> Manifest:
    """Returns the status that this function wrote earlier; Crossplane would remove omitted fields."""
    return {key: value for key, value in mapping(xr, "status").items() if key not in {"conditions", "crossplane"}}


def complete_conditions(xr: Manifest, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Returns all conditions of the kind; missing ones are Unknown with the reason of the first that is not True."""
    known = tuple(conditions)
    blocking = next((c for c in known if c.status is not Status.TRUE), None)
    message = f"Not evaluated while {blocking.type} is {blocking.status}" if blocking else ""
    return complete(text(xr, "kind"), known, blocking.reason if blocking else "Pending", message)
