"""Parsing arbitrary input returns an object or problems, and never raises."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment, parse_placement
from function.api.problems import Parsed
from function.api.settings import parse_settings
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api.fields import KINDS, Kind, put, sample, walk

WORDS = st.sampled_from(
    ("", "a", "a/b", "{{", "80Gi", "80 gigs", "-1", "9" * 40, "In", "ib-400g", "-tp", "--tp=x", "s3://", "1h", "vLLM")
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
ANYTHING: st.SearchStrategy[JSON] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _read_everything(manifest: Manifest) -> None:
    for read in (parse_model, parse_deployment, parse_model_cache, parse_placement):
        parsed: Parsed[object] = read(manifest)
        assert all(isinstance(p, Problem) for p in parsed.problems)
        assert parsed.value or parsed.problems, "parsing without an object returns problems"
    environment = parse_environment(manifest, BUILT_IN)
    assert environment.value.broken is bool(environment.other_problems)


@QUICK
@given(spec=ANYTHING, metadata=ANYTHING, status=ANYTHING)
def test_parses_any_manifest_without_raising(spec: JSON, metadata: JSON, status: JSON) -> None:
    for kind in ("Model", "ClusterModel"):
        _read_everything({"kind": kind, "metadata": metadata, "spec": spec, "status": status})


@QUICK
@given(fields=st.dictionaries(st.text(max_size=5), ANYTHING), context=ANYTHING)
def test_parses_any_settings_without_raising(fields: Manifest, context: JSON) -> None:
    parse_settings(fields, {"apiextensions.crossplane.io/environment": context})
    merged = parse_settings(fields, {"apiextensions.crossplane.io/environment": {"modelplane": context}}).value
    assert merged.ttl_settled
    assert merged.ttl_pending


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@QUICK
@given(data=st.data())
def test_parses_any_value_in_any_field(kind: Kind, data: st.DataObject) -> None:
    """Two fields at a time, so that rules across fields see unexpected values."""
    manifest = kind.manifest(sample(kind.schema))
    fields = [f for f in walk(kind.schema, (kind.root,), required=False) if len(f.steps) > 1]
    first, second = data.draw(st.sampled_from(fields)), data.draw(st.sampled_from(fields))
    manifest = put(manifest, first.steps, data.draw(ANYTHING))
    if second.steps[: len(first.steps)] != first.steps:
        manifest = put(manifest, second.steps, data.draw(ANYTHING))
    problems = kind.problems(manifest)
    assert list(problems) == sorted(set(problems))
    assert all(p.path.startswith(kind.root) and p.message for p in problems)


def test_shows_numbers_that_json_does_not_have() -> None:
    problems = parse_deployment({"spec": {"modelRef": {"name": "a"}, "environments": math.nan}}).problems
    assert problems == (Problem("spec.environments", "NaN is not allowed; must be a whole number"),)
