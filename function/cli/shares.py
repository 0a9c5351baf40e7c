"""Computes which part of the requests to a ModelService each of its endpoints and placements gets."""

from dataclasses import dataclass

from function.domain.model_service import BackendEntry, EndpointEntry, ModelService


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointShare:
    """The part of all requests that an endpoint gets, and that each of its placements gets: 0 to 1."""

    entry: EndpointEntry
    share: float
    backends: tuple[tuple[BackendEntry, float], ...]


def compute_shares(service: ModelService) -> list[EndpointShare]:
    """Returns the shares of all endpoints, in the order of the status."""
    total = sum(entry.weight for entry in service.entries)
    shares = []
    for entry in service.entries:
        share = entry.weight / total if total else 0.0
        inside = sum(row.weight for row in entry.backends)
        backends = tuple((row, share * row.weight / inside if inside else 0.0) for row in entry.backends)
        shares.append(EndpointShare(entry=entry, share=share, backends=backends))
    return shares
