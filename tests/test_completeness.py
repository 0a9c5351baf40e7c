"""What must be extended together: docs/extending.md has the checklists, this file fails if a step is missing.

A new member of a table (a pool capability, an engine, a reason for a refusal, a source of weights) is picked up here
without a change, except for the samples below, which have a value for each type.
"""

import importlib
import pkgutil
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from function import parts, schemas
from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.composers import COMPOSERS, inference_environment, model_cache, model_placement, model_service
from function.domain.engines import ENGINES, Ability
from function.domain.environment import Pool
from function.domain.model import (
    BandwidthRequirement,
    EngineName,
    HuggingFaceSource,
    OciSource,
    PvcSource,
    Requires,
    Source,
    UriSource,
)
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, get, mapping
from function.parts.part import Part
from function.reasons import OWNED, ConditionType, Outlook, Refused
from function.scheduling.filters import CHECKS, Candidate
from function.scheduling.refusals import Refusal
from function.serving.digest import EXCLUDED
from function.status.cluster_model import build_status
from function.weights.planner import plan_weights
from tests.api import manifests
from tests.support.builders import profile, shape
from tests.support.decisions import request
from tests.support.weights_requests import SINGLE, model

ROOT = Path(__file__).parent.parent
# A requirement that a pool without capabilities does not meet, by field of `Requires`, with the same value as the API
# takes it.
REQUIREMENTS: dict[str, tuple[object, JSON]] = {
    "memory_per_gpu": (80 * 2**30, "80Gi"),
    "interconnect": ("nvlink", "nvlink"),
    "bandwidth": (BandwidthRequirement(rung="ib-400g", or_better=False), "ib-400g"),
    "precision": (("fp8",), ["fp8"]),
    "nvlink_domain": (8, 8),
    "accelerator_type": ("nvidia-h200", "nvidia-h200"),
}
SOURCES: dict[type, tuple[str, Manifest]] = {
    HuggingFaceSource: ("HuggingFace", {"huggingFace": {"repo": "org/kimi"}}),
    OciSource: ("OCI", {"oci": {"image": "registry.example.com/kimi:1"}}),
    UriSource: ("URI", {"uri": {"uri": "s3://models/kimi"}}),
    PvcSource: ("PVC", {"pvc": {"claimName": "weights"}}),
}
REQUIRES = [field.name for field in fields(Requires)]


def _list_fields(*schema: Any) -> set[str]:
    return {field.alias or name for each in schema for name, field in each.model_fields.items()}


def _refuse(name: str) -> Refusal:
    """Returns the only refusal of a pool without capabilities, for a profile with one requirement."""
    required: Any = {name: REQUIREMENTS[name][0]}
    candidate = Candidate(
        request=request(),
        environment=parse_environment(manifests.environment(), BUILT_IN).value,
        profile=profile(shape=shape(), requires=Requires(**required)),
        pool=Pool(name="bare", gpus_per_node=8, max_nodes=1),
        shape=shape(),
    )
    refusals = [refusal for check in CHECKS if (refusal := check(candidate))]
    assert len(refusals) == 1, f"{name} has no check in CHECKS (function/scheduling/filters.py), or several"
    return refusals[0]


def test_every_requirement_has_a_sample() -> None:
    assert set(REQUIREMENTS) == set(REQUIRES)


def test_every_requirement_of_the_api_is_one_of_the_function() -> None:
    """Otherwise a profile's requirement would be accepted and ignored; a network speed has two names."""
    known = {str(_refuse(name).field) for name in REQUIRES} | {"multiNodeBandwidth", "interNodeBandwidth"}
    assert _list_fields(schemas.Requires) <= known


@pytest.mark.parametrize("name", REQUIRES)
def test_requirement_on_a_pool_is_checked_and_explained(name: str) -> None:
    refusal = _refuse(name)
    assert str(refusal.field) in refusal.message, "the message explains the refusal by the field that users know"
    assert all(refusal.columns), "`modelplane why` has both columns"


@pytest.mark.parametrize("name", REQUIRES)
def test_requirement_on_a_pool_is_a_field_of_profiles_and_pools(name: str) -> None:
    field = str(_refuse(name).field)
    assert field in _list_fields(schemas.Requires)
    assert field in _list_fields(schemas.Capabilities, schemas.NodePool)


@pytest.mark.parametrize("name", REQUIRES)
def test_requirement_on_a_pool_is_met_by_the_same_declaration(name: str) -> None:
    field, value = str(_refuse(name).field), REQUIREMENTS[name][1]
    capabilities: Manifest = {field: value} if field in _list_fields(schemas.Capabilities) else {}
    others: Manifest = {} if capabilities else {field: value}
    parsed = parse_environment(manifests.environment({"name": "a", "capabilities": capabilities, **others}), BUILT_IN)
    (pool,) = parsed.value.pools
    declared = getattr(pool, name)
    assert declared not in (None, "", ()), "the pool has a field of the same name"
    declaration = manifests.profile(replicaTopology=manifests.topology(requires={field: value}))
    read = parse_model(manifests.model(declaration)).value
    assert read
    required: Any = getattr(read.profiles[0].requires, name)
    assert required.is_met_by(declared) if isinstance(required, BandwidthRequirement) else required == declared


@pytest.mark.parametrize("name", REQUIRES)
def test_capability_of_a_pool_restarts_no_service(name: str) -> None:
    assert name in EXCLUDED[Pool]


@pytest.mark.parametrize("name", EngineName)
def test_engine_is_in_every_table(name: EngineName) -> None:
    assert ENGINES.keys() == set(EngineName)
    assert ENGINES[name].abilities.keys() == set(Ability)
    assert str(name) in get_args(schemas.Engine.model_fields["name"].annotation)
    assert str(name) in (ROOT / "docs" / "reference.md").read_text()


@pytest.mark.parametrize("reason", Refused)
def test_reason_for_a_refusal_is_given_and_documented(reason: Refused) -> None:
    code = "\n".join(
        path.read_text() for package in ("scheduling", "weights") for path in (ROOT / "function" / package).glob("*.py")
    )
    assert re.search(rf"Refused\.{reason.name}\b", code), "something refuses for this reason"
    assert re.search(rf"^\| [^|]*\| {reason} \|", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    assert isinstance(reason.outlook, Outlook)
    assert reason.phrase, "the header of Scheduled counts environments by it"


def test_every_part_is_in_a_list() -> None:
    files = (importlib.import_module(info.name) for info in pkgutil.iter_modules(parts.__path__, "function.parts."))
    declared = {id(value) for file in files for value in vars(file).values() if isinstance(value, Part)}
    composers = (inference_environment, model_cache, model_placement, model_service)
    listed = [*model_placement.KEPT_PARTS, *(part for composer in composers for part in composer.PARTS)]
    assert {id(part) for part in listed} == declared


def test_every_condition_has_an_owner() -> None:
    assert {type_ for owned in OWNED.values() for type_ in owned} == {*ConditionType}
    assert OWNED.keys() == COMPOSERS.keys()


def test_every_source_has_a_sample() -> None:
    assert set(SOURCES) == set(get_args(Source))
    known = {str(word) for word in get_args(schemas.ModelSpec.model_fields["source"].annotation)}
    assert {word.lower() for word in known} == {name.lower() for name, _ in SOURCES.values()}


@pytest.mark.parametrize("source", SOURCES)
def test_source_of_weights_is_parsed_planned_and_shown(source: type) -> None:
    name, block = SOURCES[source]
    given = manifests.model()
    spec = {key: value for key, value in mapping(given, "spec").items() if key != "huggingFace"}
    parsed = parse_model({**given, "spec": {**spec, "source": name, **block}})
    assert parsed.value, parsed.problems
    assert isinstance(parsed.value.source, source)
    planned = plan_weights(replace(SINGLE, model=model(parsed.value.source)))
    assert planned.uri
    assert get(build_status(parsed.value), "storage.uri")
    assert source in EXCLUDED, "the bytes are identified by the URI of the service"
