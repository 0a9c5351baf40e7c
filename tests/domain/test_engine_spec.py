"""Every table of engines has a row for every engine, and every engine can be started."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from function.api.cluster_model import parse_model
from function.domain.engines import (
    DATA,
    DATA_LOCAL,
    ENGINES,
    EXPERT,
    PIPELINE,
    TENSOR,
    Ability,
    find_model_faults,
    find_shape_faults,
    find_tls_faults,
    get_version,
    has_ability,
    is_stock,
)
from function.domain.model import Engine, EngineName, Parallelism
from function.serving.service import find_service_problems
from tests.support.builders import HUB, shape
from tests.support.serving_requests import request
from tools.documents import document

APIS = Path(__file__).parents[2] / "apis"
FIELDS = {TENSOR, PIPELINE, DATA, DATA_LOCAL, EXPERT}


def stock_engine(name: EngineName) -> Engine:
    return Engine(name=name, image=f"{ENGINES[name].stock_image}:v9.0.0")


@pytest.mark.parametrize("name", EngineName)
def test_engine_has_a_row_in_every_table(name: EngineName) -> None:
    spec, engine = ENGINES[name], stock_engine(name)
    assert spec.abilities.keys() == set(Ability)
    assert set(spec.size_flags) <= FIELDS
    assert {TENSOR, PIPELINE, DATA} <= set(spec.size_flags)
    assert is_stock(engine)
    assert get_version(engine) == (9, 0, 0), "the tag of the stock image is its version"
    required = {field.name for field in fields(spec)} - {"shared_ranks_flag", "author_flags", "tls_flags"}
    empty = {name for name in required if getattr(spec, name) in ("", (), {})}
    assert not empty


@pytest.mark.parametrize("name", EngineName)
@pytest.mark.parametrize("ability", Ability)
def test_ability_has_an_answer_for_every_version(name: EngineName, ability: Ability) -> None:
    span, engine = ENGINES[name].abilities[ability], stock_engine(name)
    assert has_ability(engine, ability) == (span.until is None)
    if span.until:
        assert span.since <= span.until, "the versions are in order"


@pytest.mark.parametrize("name", EngineName)
@pytest.mark.parametrize("asked", [shape(1, 8), shape(2, 8), shape(1, 8, Parallelism(tensor=8, expert=True))])
def test_service_of_every_engine_can_be_built(name: EngineName, asked: Any) -> None:
    engine = stock_engine(name)
    assert (
        find_model_faults(engine, HUB, "org/kimi", "engine")
        == find_shape_faults(engine, asked)
        == find_tls_faults(engine)
        == ()
    )
    assert find_service_problems(request(asked, engine)) == ()
    assert find_service_problems(replace(request(asked, engine), kserve=replace(request().kserve, tls=True))) == ()


@pytest.mark.parametrize("name", EngineName)
def test_model_of_every_engine_is_valid(name: EngineName) -> None:
    engine = {"name": str(name), "image": stock_engine(name).image}
    spec: Any = {
        "model": {"name": "org/kimi"},
        "huggingFace": {"repo": "org/kimi"},
        "serving": [{"name": "default", "replicaTopology": {"nodes": 2, "gpusPerNode": 8}, "engine": engine}],
    }
    parsed = parse_model({"kind": "ClusterModel", "spec": spec})
    assert parsed.value
    assert [profile.engine.name for profile in parsed.value.profiles] == [name]


@pytest.mark.parametrize("kind", ["clustermodels", "models"])
def test_schema_offers_every_engine(kind: str) -> None:
    definition = json.dumps(document(APIS / kind / "definition.yaml"))
    assert f'"enum": {json.dumps([str(name) for name in EngineName])}' in definition
