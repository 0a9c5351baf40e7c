"""How long each stage takes from `kubectl apply` to the first answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from function.kube.manifests import Manifest, condition, listing, mapping, text
from tests.answers.asking import TOKENS, Answer, ask
from tests.answers.model import REPOSITORY
from tests.e2e.world import World, running
from tools.stack.waiting import until

SECONDS = 900.0  # two engines that start at once on two busy processors


@dataclass(slots=True)
class Stages:
    """The stages of one deployment, in seconds since it was applied."""

    world: World
    namespace: str
    name: str
    began: float = field(default_factory=time.monotonic)
    reached: dict[str, float] = field(default_factory=dict)

    def wait(self) -> Answer:
        """Waits for the first answer, and notes when each stage was reached."""
        self._note("placed", lambda: bool(self.world.placements(self.namespace, self.name)))
        self._note("downloaded", self._has_weights)
        self._note("pods", lambda: all(text(pod, "status.phase") == "Running" for pod in self._find_pods()))
        self._note("engine up", lambda: self._are_ready(self._find_pods()))
        self._note("ready", self._is_ready)
        answer = until("an answer", self.ask, seconds=SECONDS)
        self._reach("first answer")
        return answer

    def ask(self, *, model: str = REPOSITORY, tokens: int = TOKENS, whole: bool = False) -> Answer:
        """Asks at the URL that the deployment names now."""
        url = text(self.world.deployment(self.namespace, self.name), "status.url")
        return ask(url, model=model, tokens=tokens, whole=whole)

    def __str__(self) -> str:
        """The stages in one line."""
        return ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.reached.items())

    def _note(self, stage: str, probe: Callable[[], bool]) -> None:
        until(stage, probe, seconds=SECONDS)
        self._reach(stage)

    def _reach(self, stage: str) -> None:
        """Notes a stage, and writes it to a log beside those of the stack: the results come only at the end."""
        self.reached[stage] = time.monotonic() - self.began
        with (self.world.stack.home.logs / "stages.log").open("a") as log:
            log.write(f"{self.name}: {stage} {self.reached[stage]:.1f} s\n")

    def _has_weights(self) -> bool:
        """Tells whether the weights are on their claim, or each pod fetches its own."""
        said = condition(self.world.placement(self.namespace, self.name), "StorageReady")
        if text(said, "status") != "True":
            raise LookupError(f"{text(said, 'reason')}: {text(said, 'message')}")
        return True

    def _find_pods(self) -> list[Manifest]:
        placement = self.world.placement(self.namespace, self.name)
        found = self.world.pods(self.world.service(placement)) if mapping(placement, "status.service") else []
        if not found:
            raise LookupError("no pods")
        return found

    def _are_ready(self, pods: list[Manifest]) -> bool:
        if not all(map(running, pods)):
            raise LookupError(str([listing(pod, "status.containerStatuses") for pod in pods]))
        return True

    def _is_ready(self) -> bool:
        found = self.world.deployment(self.namespace, self.name)
        return text(condition(found, "Ready"), "status") == "True" and bool(text(found, "status.url"))
