"""What core sees: late, in the order of the writes, and selected as the API server would."""

from dataclasses import dataclass
from random import Random

import pytest
from crossplane.function.proto.v1.run_function_pb2 import MatchLabels, ResourceSelector

from bench.simulator.cache import Cache
from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Selector
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.kube.manifests import Manifest


def _manifest(name: str, namespace: str = "team", **labels: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace, "labels": {**labels}}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


class Seen:
    """An API server and a cache that receives its writes."""

    def __init__(self, lag: float, *, varies: bool) -> None:
        self.kernel, self.events = Kernel(), list[tuple[float, str]]()
        settings = Settings(lag=lag, lag_varies=varies)
        self.server = ApiServer(self.kernel, settings)
        self.cache = Cache(self.kernel, settings, Random(1), self._note)
        self.server.watchers.append(self.cache.receive)

    def _note(self, event: Event) -> None:
        self.events.append((self.kernel.now, event.now.labels["step"] if event.now else "gone"))


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("lag", [0.0, 0.05, 1.0])
def test_writes_are_seen_in_their_order(lag: float, varies: bool) -> None:
    seen = Seen(lag, varies=varies)
    version = seen.server.create(_manifest("a", step="0"))
    assert seen.cache.get(version.ref) is None, "not before its time"
    for step in range(1, 30):
        seen.kernel.pass_time(0.01)
        seen.server.put(version.ref, _manifest("a", step=str(step)))
    seen.server.delete(version.ref)
    assert seen.kernel.run(10)
    assert [what for _, what in seen.events] == [*map(str, range(30)), "gone"]
    assert all(0.5 * lag - 1e-9 <= time - 0.01 * step for step, (time, _) in enumerate(seen.events[:-1]))
    assert seen.cache.get(version.ref) is None


@pytest.mark.parametrize(("varies", "lags"), [(False, 1), (True, 5)])
def test_a_lag_that_varies_is_another_after_as_long_as_it_is(varies: bool, lags: int) -> None:
    seen = Seen(0.2, varies=varies)
    version = seen.server.create(_manifest("a", step="0"))
    for step in range(1, 90):
        seen.kernel.pass_time(0.01)
        seen.server.put(version.ref, _manifest("a", step=str(step)))
    assert seen.kernel.run(10)
    late = {round(seen.events[step][0] - 0.01 * step, 6) for step in range(5, 90, 20)}  # of each 0.2 s one
    assert len(late) == lags


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    reason: str
    wanted: ResourceSelector
    found: tuple[str, ...]


CASES = (
    Case(
        id="by-name",
        reason="a name in a namespace is one object",
        wanted=ResourceSelector(kind="Thing", match_name="a", namespace="team"),
        found=("team/a",),
    ),
    Case(
        id="by-name-without-a-namespace",
        reason="core looks for a cluster-scoped object",
        wanted=ResourceSelector(kind="Thing", match_name="a"),
        found=(),
    ),
    Case(
        id="every-one",
        reason="with neither name nor labels all are meant, by namespace and name",
        wanted=ResourceSelector(kind="Thing"),
        found=("other/a", "team/a", "team/b"),
    ),
    Case(
        id="by-empty-labels",
        reason="no label is asked for",
        wanted=ResourceSelector(kind="Thing", match_labels=MatchLabels()),
        found=("other/a", "team/a", "team/b"),
    ),
    Case(
        id="by-label",
        reason="in all namespaces where none is named",
        wanted=ResourceSelector(kind="Thing", match_labels=MatchLabels(labels={"env": "one"})),
        found=("other/a", "team/a"),
    ),
    Case(
        id="by-label-in-a-namespace",
        reason="in that one only",
        wanted=ResourceSelector(kind="Thing", match_labels=MatchLabels(labels={"env": "one"}), namespace="team"),
        found=("team/a",),
    ),
    Case(
        id="by-labels-that-must-all-be-there",
        reason="one of two is not enough",
        wanted=ResourceSelector(kind="Thing", match_labels=MatchLabels(labels={"env": "one", "x": "y"})),
        found=(),
    ),
    Case(id="another-kind", reason="no such kind", wanted=ResourceSelector(kind="Other"), found=()),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_selectors(case: Case) -> None:
    seen = Seen(0, varies=False)
    for namespace, name, value in (("team", "b", "two"), ("team", "a", "one"), ("other", "a", "one")):
        seen.server.create(_manifest(name, namespace, env=value, step="0"))
    seen.kernel.run(1)
    numbers = seen.cache.find(Selector.of(case.wanted)).numbers
    names = {v.number: f"{ref.namespace}/{ref.name}" for ref, v in seen.server.latest.items()}
    assert tuple(names[number] for number in numbers) == case.found, case.reason


def test_a_list_is_made_anew_when_its_kind_changes() -> None:
    seen = Seen(0, varies=False)
    wanted = Selector("Thing", labels=(("env", "one"),))
    seen.server.create(_manifest("a", env="one", step="0"))
    seen.kernel.run(1)
    before = seen.cache.find(wanted)
    seen.server.put(Ref("Thing", "team", "a"), _manifest("a", env="two", step="1"))
    seen.kernel.run(1)
    assert (len(before.numbers), seen.cache.find(wanted).numbers) == (1, ())
