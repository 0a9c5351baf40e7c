"""Compares what an engine says of a replica with what was asked for."""

from collections.abc import Callable, Mapping

from function.domain.model import EngineName
from tests.engines import sglang_checks, vllm_checks
from tests.engines.replica import Group, Replica

_CHECKS: Mapping[EngineName, Callable[[Group, Replica], None]] = {
    EngineName.VLLM: vllm_checks.check_replica,
    EngineName.SGLANG: sglang_checks.check_replica,
}


def check_replica(name: EngineName, group: Group, replica: Replica) -> None:
    """Every pod has its place in the replica, and the model is served under its names."""
    _CHECKS[name](group, replica)
