"""How the simulated control plane is made: its delays, and how much works at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Seconds unless said otherwise. Those of core and the function are assumptions: they decide what happens while
    something else is under way, and how long it all takes, but no processor time in a table is made from them.
    """

    seed: int = 7
    # From a write to its event in the cache: half of this to one and a half of it, another for each burst of a kind.
    lag: float = 0.05
    # Whether it is drawn again while a burst lasts longer than the lag: no cache is late by the same time for ever.
    lag_varies: bool = False
    # --max-reconcile-rate, which is also core's number of workers for each kind.
    workers: int = 100
    api_seconds: float = 0.005
    core_processors: int = 2
    core_seconds: float = 0.02
    core_item_seconds: float = 0.00015
    function_processors: int = 1
    function_seconds: float = 0.003
    function_item_seconds: float = 0.00002
    provider_seconds: float = 0.5
    stage_seconds: float = 5.0
    collector_seconds: float = 0.1
    # Whether a TTL wakes. At rest it adds one call for each XR in ten minutes to whatever is measured.
    ttl: bool = False

    @property
    def unheard_seconds(self) -> float:
        """For how long no controller may have seen a write."""
        return 1.5 * self.lag

    @property
    def passing_seconds(self) -> float:
        """For how long what follows from a write may not be written.

        A reconcile waits for the processor that another one has, and writes ten things, one by one.
        """
        return self.unheard_seconds + 2 * self.core_seconds + 10 * self.api_seconds
