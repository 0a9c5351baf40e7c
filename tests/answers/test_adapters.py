"""Adapters in a real engine: each answers as transformers does with it merged, and bad ones never reach it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from function.kube.manifests import Manifest, listing, mapping, text
from tests.answers import scene
from tests.answers.adapters import FOLDER, TinyAdapters, build_adapters, name_adapter
from tests.answers.model import REPOSITORY, TinyModel
from tests.answers.serving import TEAM, Record, find_pods, is_replaced, list_uids
from tests.answers.stages import SECONDS, Stages
from tests.e2e.world import World
from tests.hub.hub import Hub
from tools.stack.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("environment")]
NAME = "adapted"
# What the row of each broken adapter says.
BROKEN = {
    "high": "AdapterRankTooHigh",
    "other": "AdapterOfOtherModel",
    "truncated": "Incomplete",
    "undescribed": "AdapterUndescribed",
}


@pytest.fixture(scope="module")
def adapters(hub: Hub, model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> TinyAdapters:
    """The adapters, in folders of the model's repository."""
    built = build_adapters(model, tmp_path_factory.mktemp("adapters"))
    hub.files.update(built.files)
    return built


@pytest.fixture(scope="module")
def served(world: World, adapters: TinyAdapters) -> Iterator[Stages]:
    """The model with one sound adapter and all broken ones."""
    assert adapters.tokens
    world.team(TEAM)
    manifest = scene.build_model(NAME, 1)
    (profile,) = listing(manifest, "spec.serving")
    profile["lora"] = {"maxAdapters": 5, "maxRank": 16}
    mapping(manifest, "spec.huggingFace")["ignorePatterns"] = [f"{FOLDER}/*"]
    world.apply(manifest)
    _name(world, "sql", *BROKEN)
    yield Stages(world, TEAM, NAME)
    world.remove(TEAM, NAME)


def _name(world: World, *names: str) -> None:
    deployment = scene.build_deployment(TEAM, NAME, claim=True)
    mapping(deployment, "spec")["adapters"] = [name_adapter(name) for name in names]
    world.apply(deployment)


def _rows(world: World) -> dict[str, Manifest]:
    return {text(row, "name"): row for row in listing(world.placement(TEAM, NAME), "status.adapters")}


def test_bad_adapters_are_refused_before_an_engine_starts(
    world: World, served: Stages, record_property: Record
) -> None:
    def have_ended() -> bool:
        if not world.placements(TEAM, NAME):
            raise LookupError("no placement")
        phases = {name: text(row, "phase") for name, row in _rows(world).items()}
        if phases != {**dict.fromkeys(BROKEN, "Failed"), "sql": "Ready"}:
            raise LookupError(str(phases))
        return True

    until("the downloads to end", have_ended, seconds=SECONDS)
    for name, reason in BROKEN.items():
        message = text(_rows(world)[name], "message")
        record_property(name, message)
        assert f"({reason})" in message
    assert served.name == NAME


def test_model_and_adapter_answer_as_transformers_does(
    world: World, served: Stages, model: TinyModel, adapters: TinyAdapters, record_property: Record
) -> None:
    until("a URL", lambda: bool(text(world.deployment(TEAM, NAME), "status.url")), seconds=SECONDS)
    until("an answer", served.ask, seconds=SECONDS)
    answers = {name: served.ask(model=name).tokens for name in (REPOSITORY, "sql")}
    record_property("tokens", f"{answers}; by transformers {model.tokens} and {adapters.tokens}")
    assert answers == {REPOSITORY: model.tokens, "sql": adapters.tokens["sql"]}


@pytest.mark.parametrize("names", [("sql", "Org/Law.v1"), ("Org/Law.v1",)], ids=["added", "removed"])
def test_a_change_of_adapters_costs_no_request_and_no_download_of_the_model(
    world: World, hub: Hub, served: Stages, adapters: TinyAdapters, names: tuple[str, ...], record_property: Record
) -> None:
    before, fetched = list_uids(find_pods(world, NAME)), _count_weights(hub)
    stays = "sql" if "sql" in names else "Org/Law.v1"
    failures, stop = list[str](), threading.Event()

    def keep_asking() -> int:
        count = 0
        while not stop.is_set():
            try:
                assert served.ask(model=stays).tokens == adapters.tokens[stays]
            except (OSError, AssertionError) as error:
                failures.append(f"{type(error).__name__}: {error}")
            count += 1
            stop.wait(0.5)
        return count

    _name(world, *names)
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(keep_asking)
        try:
            until("the new pod", partial(is_replaced, world, NAME, before), seconds=SECONDS)
        finally:
            stop.set()
    record_property("requests", f"{asking.result()}, {len(failures)} failed")
    assert not failures
    for name in names:
        assert served.ask(model=name).tokens == adapters.tokens[name]
    assert _count_weights(hub) == fetched, "the model is not fetched again"


def _count_weights(hub: Hub) -> int:
    return sum(name.startswith("model") for name in hub.fetched())
