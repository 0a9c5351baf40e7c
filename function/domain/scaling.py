"""Replicas by load: what an author requests, and what the platform has for it."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class WakeUp(StrEnum):
    """The gateways of the control plane whose metrics can wake a deployment without replicas."""

    TRAEFIK = "Traefik"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """What the platform has: KEDA, and a Prometheus with the metrics of the engines."""

    prometheus_url: str
    auth_modes: str = ""
    authentication: tuple[str, str] | None = None  # kind and name of KEDA's authentication
    wake_up: WakeUp | None = None  # None: nothing can wake a deployment without replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The load of one replica at which there are enough; None: this measure does not count."""

    waiting_requests: int | None = None
    running_requests: int | None = None
    time_to_first_token: Decimal | None = None  # seconds, in 95 of 100 requests
    query: tuple[str, str] | None = None  # PromQL for the load of all replicas, and the load of one replica

    @property
    def needs_metrics_of_engines(self) -> bool:
        measures = (self.waiting_requests, self.running_requests, self.time_to_first_token)
        return any(measure is not None for measure in measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledReplicas:
    """A time that repeats, and the replicas that are kept in it."""

    start: str  # cron expression
    end: str
    timezone: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScaling:
    """How the number of replicas follows the load."""

    minimum: int
    maximum: int
    target: Target = Target()
    up_seconds: int = 0  # for which more replicas must be needed
    down_seconds: int = 300  # for which fewer must be needed
    schedule: tuple[ScheduledReplicas, ...] = ()

    def limit(self, replicas: int) -> int:
        """Returns a number of replicas within the bounds."""
        return max(self.minimum, min(self.maximum, replicas))
