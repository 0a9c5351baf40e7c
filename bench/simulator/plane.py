"""A control plane with its users: create, edit, delete, wait for rest, and what all that cost."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from bench.simulator.core import Core
from bench.simulator.kernel import Kernel
from bench.simulator.measured import Function, Meter
from bench.simulator.objects import Event, Version
from bench.simulator.provider import Provider
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.composers import COMPOSERS
from function.kube.manifests import Manifest

# Nothing of ours takes an hour: what is not at rest by then never will be.
LIMIT_SECONDS = 3600.0


class UnsettledError(Exception):
    """Something is written again and again."""


class Plane:
    """One simulated control plane."""

    def __init__(self, settings: Settings | None = None, function: Function | None = None) -> None:
        self.settings = settings or Settings()
        self.kernel = Kernel()
        random = Random(self.settings.seed)  # noqa: S311  # the same history for the same seed
        self.server = ApiServer(self.kernel, self.settings)
        self.core = Core(self.kernel, self.settings, random, self.server, function)
        self.provider = Provider(self.kernel, self.settings, random, self.server)
        self.server.watchers.append(self._count)

    @property
    def meter(self) -> Meter:
        """What was counted since the last `measured`."""
        return self.core.function.meter

    def _count(self, event: Event) -> None:
        self.meter.writes[event.ref.kind] += 1

    def create(self, manifest: Manifest) -> Ref:
        """Create an object as a user does."""
        return self.server.create(manifest).ref

    def edit(self, ref: Ref, change: Callable[[Manifest], None]) -> None:
        """Change an object as it is now."""
        edited = copy.deepcopy(self.server.latest[ref].manifest)
        change(edited)
        self.server.put(ref, edited)

    def delete(self, ref: Ref) -> None:
        """Delete an object as kubectl does, in the background."""
        self.server.delete(ref)

    def all(self, kind: str) -> list[Version]:
        """Return the objects of a kind as they are, by namespace and name."""
        return [version for ref, version in sorted(self.server.latest.items()) if ref.kind == kind]

    def rest(self) -> float:
        """Run until nothing happens any more, and return for how many seconds something did.

        Raises:
            UnsettledError: It does not end.
        """
        begun = self.kernel.now
        if not self.kernel.run(LIMIT_SECONDS):
            raise UnsettledError(f"not at rest after {LIMIT_SECONDS:.0f} s")
        return self.kernel.now - begun

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Bring something up at small cost: who asks for every object of a kind is woken once, after it."""
        self.core.quiet = True
        yield
        self.rest()
        self.core.quiet = False
        for kind in COMPOSERS:
            for version in self.all(kind):
                self.core.wake(version.ref)
        self.rest()

    @contextmanager
    def measured(self) -> Iterator[Meter]:
        """Count from nothing."""
        self.core.function.meter = Meter()
        yield self.core.function.meter
