"""What an environment's ledger admits, by placement."""

from dataclasses import replace
from typing import TypeAlias

from bench.simulator.objects import Version
from function.domain.allocation import Share
from function.domain.records.shares import parse_share
from function.kube.manifests import Manifest, integer, listing, mapping, text

Row: TypeAlias = tuple[str, str, int, int]  # of a ledger: uid, pool, nodes, GPUs of each


def read_grants(environment: Version) -> dict[tuple[str, Share], int]:
    """Return how many replicas are granted, by whose they are and their shape, in whichever pool."""
    rows = [(text(row, "uid"), parse_share(row)) for row in listing(environment.manifest, "status.admitted")]
    granted: dict[tuple[str, Share], int] = {}
    for uid, share in rows:
        key = uid, replace(share, pool="", replicas=0)
        granted[key] = max(granted.get(key, 0), share.replicas)
    return granted


def read_row(row: Manifest) -> Row:
    """Returns a row without its replicas."""
    return text(row, "uid"), text(row, "pool"), integer(row, "nodes"), integer(row, "gpusPerNode")


def find_row(placement: Version) -> Row:
    """Returns the row of an environment's ledger that admits a placement."""
    topology = mapping(placement.manifest, "spec.topology")
    pool = text(placement.manifest, "spec.pool")
    return placement.uid, pool, integer(topology, "nodes", 1), integer(topology, "gpusPerNode")
