"""The LoRA adapters of a placement: each is downloaded like weights, to the claim of the model.

An adapter has Objects of the same kinds as the model's weights, with the adapter's cache key in their names. Its
download starts once the model is there, because the adapter is compared with it. Objects of adapters that the placement
does not name any more are dropped; the bytes stay on the claim.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from function.contract import Desired, combine
from function.domain.adapter import Adapter, ChosenAdapters, ServedAdapter
from function.domain.model import DownloadedSource, PvcSource
from function.domain.placement import ResolvedPlacement
from function.domain.records.weights import DownloadRecord
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.weights import WEIGHTS_NAMES, WEIGHTS_PART, request_weights
from function.reasons import Phase, PlacementStorage
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import SERVICE_PREFIX, ObjectWriter
from function.remote.observed_object import read_written
from function.serving.service import list_loaded_adapters
from function.status import model_placement as report
from function.weights.planner import WeightsPlan, plan_adapters
from function.weights.reconcile import CLAIM_PREFIX, ReconciledWeights, drop_weights, reconcile_weights
from function.weights.request import WeightsRequest, cache_key, get_download, model_directory, serving_path
from function.weights.state import WeightsState

_PREFIX, _END = "adapter-", "."  # around the cache key, before the name that the Object of a model has


def _reconcile_adapters(context: PlacementContext, decisions: Decisions) -> PartOutcome[ChosenAdapters]:
    resolved = context.resolved
    weights = decisions.of(WEIGHTS_PART)
    if not resolved.placement.adapters and not any(key.startswith(_PREFIX) for key in context.writer.observed):
        conditions = (report.build_storage_ready(weights.state, {}),)
        return PartOutcome(decision=ChosenAdapters(), conditions=conditions)
    by_name: dict[str, ReconciledWeights] = {}
    planned: tuple[ServedAdapter, ...] = ()
    desired: list[Desired] = []
    if weights.plan and not resolved.adapter_obstacle:
        request = request_weights(context.call, resolved)
        planned = list_planned(resolved, request, weights.plan)
        requests = plan_adapters(request, weights.plan, _get_max_rank(resolved))
        by_scope = {_name_scope(request): request for request in requests}
        desired.append(_drop_unnamed(context.writer, by_scope))
        if weights.service_may_read:
            downloads = {scope: _download(context, scope, request) for scope, request in by_scope.items()}
            desired += [_desire(download).with_prefix(scope) for scope, download in downloads.items()]
            by_name = {r.adapter.name: downloads[_name_scope(r)] for r in requests if r.adapter}
    return PartOutcome(
        decision=_choose(
            resolved.placement.adapters, {a.name: a for a in planned}, by_name, _list_loaded(context.writer)
        ),
        desired=combine(desired),
        conditions=(report.build_storage_ready(weights.state, by_name),),
        status=report.build_adapters(resolved.placement, by_name, resolved.adapter_obstacle),
    )


ADAPTERS_PART = Part(
    run=_reconcile_adapters, names={OBJECT: f"{_PREFIX}[0-9a-f]{{16}}{re.escape(_END)}(?:{WEIGHTS_NAMES})"}
)


def list_planned(resolved: ResolvedPlacement, request: WeightsRequest, plan: WeightsPlan) -> tuple[ServedAdapter, ...]:
    """Returns the adapters that a service loads once all of them are downloaded."""
    requests = () if resolved.adapter_obstacle else plan_adapters(request, plan, _get_max_rank(resolved))
    sources = {r.adapter.name: r.adapter.source for r in requests if r.adapter}
    served: list[ServedAdapter] = []
    for adapter in resolved.placement.adapters:
        source = sources.get(adapter.name)
        if isinstance(adapter.source, PvcSource):
            served.append(ServedAdapter(name=adapter.name, claim=adapter.source.claim, path=adapter.source.path))
        elif isinstance(source, DownloadedSource):
            path = serving_path(source, model_directory(source))
            served.append(ServedAdapter(name=adapter.name, claim=plan.claim_name, path=path))
    return tuple(served)


def _get_max_rank(resolved: ResolvedPlacement) -> int:
    return resolved.profile.lora.max_rank if resolved.profile.lora else 0


def _name_scope(request: WeightsRequest) -> str:
    return f"{_PREFIX}{cache_key(get_download(request))}{_END}"


def _download(context: PlacementContext, scope: str, request: WeightsRequest) -> ReconciledWeights:
    placement = context.resolved.placement
    path = model_directory(get_download(request))
    # By the path: an adapter may have been given another name.
    recorded = next((record for _, record in placement.adapter_downloads if record.path == path), DownloadRecord())
    return reconcile_weights(request, _narrow(context.writer, scope), recorded, now=context.call.now)


def _narrow(writer: ObjectWriter, scope: str) -> ObjectWriter:
    """Returns the writer of one adapter: it sees the Objects of this adapter, and the claims of the model."""
    claims = {key: manifest for key, manifest in writer.observed.items() if key.startswith(CLAIM_PREFIX)}
    own = {key.removeprefix(scope): m for key, m in writer.observed.items() if key.startswith(scope)}
    return replace(writer, observed={**claims, **own}, scope=scope)


def _desire(download: ReconciledWeights) -> Desired:
    return download.current | download.desire_previous(are_read=not download.service_may_read)


def _drop_unnamed(writer: ObjectWriter, scopes: Collection[str]) -> Desired:
    """Drops the Objects of adapters that the placement does not name any more."""
    others = {key.partition(_END)[0] for key in writer.observed if key.startswith(_PREFIX)}
    desired: list[Desired] = []
    for scope in sorted(f"{other}{_END}" for other in others):
        if scope not in scopes:
            keys = [key.removeprefix(scope) for key in sorted(writer.observed) if key.startswith(scope)]
            dropped = drop_weights(_narrow(writer, scope), keys, "the placement does not name the adapter any more")
            desired.append(dropped.with_prefix(scope))
    return combine(desired)


def _list_loaded(writer: ObjectWriter) -> frozenset[str]:
    services = (read_written(m) for key, m in writer.observed.items() if key.startswith(SERVICE_PREFIX))
    return frozenset(name for service in services for name in list_loaded_adapters(service))


def _needs_user(state: WeightsState) -> bool:
    """Tells whether a download does not go on unless a user does something."""
    return state.phase is Phase.FAILED or state.reason in (PlacementStorage.TOKEN_MISSING, PlacementStorage.NO_POD)


def _choose(
    adapters: Sequence[Adapter],
    planned: Mapping[str, ServedAdapter],
    downloads: Mapping[str, ReconciledWeights],
    loaded: Collection[str],
) -> ChosenAdapters:
    """Chooses the adapters that a service loads.

    An adapter that cannot be downloaded is left out: it must not keep the model and other adapters from starting. But
    where a service has loaded an adapter of this name before, the service stays as it is.
    """
    is_complete: dict[str, bool] = {}
    for adapter in adapters:
        download = downloads.get(adapter.name)
        is_complete[adapter.name] = isinstance(adapter.source, PvcSource) or (
            download is not None and download.service_may_read
        )
        if download and _needs_user(download.state) and adapter.name not in loaded:
            del is_complete[adapter.name]
    return ChosenAdapters(
        served=tuple(planned[name] for name, complete in is_complete.items() if complete and name in planned),
        planned=tuple(planned[name] for name in is_complete if name in planned),
        waits=not all(is_complete.values()),
    )
