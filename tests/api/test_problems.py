"""Errors of the schema become sentences: path, value found, what is allowed, nearest known word."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from function import schemas
from function.api.problems import (
    PATTERN_FORMS,
    find_nearest,
    find_unknown_fields,
    format_value,
    unknown_value,
    validate,
)
from function.domain.model import Problem
from function.kube.manifests import JSON
from function.schemas import ModelSpec


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    value: JSON
    want: Problem


def _with(**fields: JSON) -> JSON:
    profile: JSON = {"name": "a", "engine": {"name": "vLLM", "image": "a"}}
    return {"model": {"name": "a"}, "serving": [profile], **fields}


CASES = [
    Case("whole", "the root itself may be wrong", None,
         Problem("spec", "null is not allowed; must be a block of fields")),
    Case("alias", "paths use the API's names, never Python's", _with(huggingFace={"repo": "a/b", "secretRef": {}}),
         Problem("spec.huggingFace.secretRef.name", "is required")),
    Case("list", "items are numbered from 0",
         {"model": {"name": "a"}, "serving": [{"name": "a", "engine": {"name": "vLLM", "image": 3}}]},
         Problem("spec.serving[0].engine.image", "3 is not allowed; must be text, in quotes")),
    Case("map-key", "keys of maps stand as they are", _with(environmentSelector={"matchLabels": {"a.b/c": 1}}),
         Problem("spec.environmentSelector.matchLabels.a.b/c", "1 is not allowed; must be text, in quotes")),
    Case("key-like-a-type", "a key may be called like a branch of a union",
         _with(environmentSelector={"matchLabels": {"str": 1}}),
         Problem("spec.environmentSelector.matchLabels.str", "1 is not allowed; must be text, in quotes")),
    Case("union", "a quantity is one field, whatever its branches", _with(resources={"vram": True}),
         Problem("spec.resources.vram", "true is not a quantity; must be like 80Gi, 1.5T or 500m")),
    Case("name-for-a-block", "an example says what a block is",
         _with(huggingFace={"repo": "a/b", "secretRef": "token"}),
         Problem("spec.huggingFace.secretRef",
                 '"token" is not allowed; must be a block of fields, such as {"name": "token"}')),
    Case("union-with-map", "what was found may hold a key called like a branch", _with(resources={"vram": {"int": 1}}),
         Problem("spec.resources.vram", '{"int": 1} is not a quantity; must be like 80Gi, 1.5T or 500m')),
    Case("literal", "the nearest known value is named", _with(source="HugingFace"),
         Problem("spec.source", '"HugingFace" is not known; must be one of HuggingFace, OCI, URI, PVC '
                                "(did you mean HuggingFace?)")),
    Case("literal-number", "a value of another type is not known either", _with(source=3),
         Problem("spec.source", "3 is not known; must be one of HuggingFace, OCI, URI, PVC")),
    Case("least", "bounds are named", {"model": {"name": "a"}, "serving": []},
         Problem("spec.serving", "[] is not allowed; must be at least 1 long")),
    Case("pattern", "a form is named", _with(model={"name": "a b"}),
         Problem("spec.model.name", '"a b" is not allowed; must be of letters, digits, ., _, :, /, @, + and -, and '
                                    "must begin with a letter or digit")),
    Case("yes", "YAML makes true of yes", _with(environmentSelector={"matchLabels": {"a": True}}),
         Problem("spec.environmentSelector.matchLabels.a", "true is not allowed; must be text, in quotes: YAML reads "
                                                           "yes, no, on and off as true or false")),
    Case("no-list", "a list is shown", {"model": {"name": "a"}, "serving": [
        {"name": "a", "engine": {"name": "vLLM", "image": "a", "args": "--a=b"}}]},
         Problem("spec.serving[0].engine.args", '"--a=b" is not allowed; must be a list, such as ["--a=b"]')),
    Case("map-for-a-list", "the dash is missing", {"model": {"name": "a"}, "serving": {"name": "a"}},
         Problem("spec.serving", '{"name": "a"} is not allowed; must be a list, whose entries begin with -')),
    Case("address-for-a-block", "the block is shown", _with(source="URI", uri="s3://a/b"),
         Problem("spec.uri", '"s3://a/b" is not allowed; must be a block of fields, such as {"uri": "s3://a/b"}')),
    Case("name-of-a-secret", "a form is in words",
         _with(huggingFace={"repo": "a/b", "secretRef": {"name": "HF_Token"}}),
         Problem("spec.huggingFace.secretRef.name", '"HF_Token" is not allowed; must be of lower-case letters, digits, '
                                                    "- and ., and must begin and end with a letter or digit")),
    Case("too-long", "a length comes after the form", {"model": {"name": "a"}, "serving": [
        {"name": "a" * 64, "engine": {"name": "vLLM", "image": "a"}}]},
         Problem("spec.serving[0].name", f'"{"a" * 59}… is not allowed; must be of letters, digits, ., _ and -, and '
                                         "must begin and end with a letter or digit, at most 63 characters long")),
    Case("empty", "an empty text is refused in words", _with(environmentSelector={"matchExpressions": [
        {"key": "", "operator": "Exists"}]}),
         Problem("spec.environmentSelector.matchExpressions[0].key",
                 '"" is not allowed; must be not empty')),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_describes_each_error_of_the_schema(case: Case) -> None:
    assert validate(ModelSpec, case.value, "spec")[1].list() == (case.want,), case.reason


def test_every_pattern_of_the_schemas_has_words() -> None:
    models = [model for model in vars(schemas).values() if isinstance(model, type) and issubclass(model, BaseModel)]
    fields = (info for model in models for info in model.model_fields.values())
    patterns = {pattern for info in fields for rule in info.metadata if (pattern := getattr(rule, "pattern", None))}
    assert patterns == set(PATTERN_FORMS)


def test_refused_fields_have_defaults_or_empty_values() -> None:
    engine: JSON = {"name": "vlm", "image": 3, "args": ["-a", 4]}
    value: JSON = {"serving": [{"name": "a", "engine": engine}, 7], "resources": {"vram": True}}
    spec, problems = validate(ModelSpec, value, "spec")
    assert spec.model.name == "", "a missing required block has empty fields"
    assert (spec.source, spec.resources.cpu, spec.resources.vram) == ("HuggingFace", "4", None), "defaults"
    first, second = spec.serving
    assert (first.name, first.engine.name, first.engine.image, first.engine.args) == ("a", "", "", ["-a", ""])
    assert second.name == "", "invalid items keep their positions"
    assert problems["serving"][1].refused
    assert not problems["serving"][0].refused


def test_rule_is_not_reported_where_the_schema_refuses_the_field() -> None:
    class Block(BaseModel):
        a: int

    _, problems = validate(Block, {"a": "x"}, "spec")
    for path in ("a", "a.b", "ab"):
        problems[path].add("from a rule")
    schema = Problem("spec.a", '"x" has the wrong type')
    assert problems["a"].list() == (schema, Problem("spec.a.b", "from a rule"))
    assert problems.list() == (schema, Problem("spec.a.b", "from a rule"), Problem("spec.ab", "from a rule"))


def test_valid_value_has_no_problems() -> None:
    assert validate(ModelSpec, _with(), "spec")[1].list() == ()


def test_unknown_error_of_the_schema_is_a_problem() -> None:
    class Odd(BaseModel):
        number: float = Field(multiple_of=2)

    assert validate(Odd, {"number": 3.0}, "spec")[1].list() == (Problem("spec.number", "3.0 has the wrong type"),)


@pytest.mark.parametrize(
    ("found", "known", "want"),
    [
        ("NVLNK", ("pcie", "nvlink"), "nvlink"),
        ("vllm", ("vLLM", "SGLang"), "vLLM"),
        ("float16", ("bf16", "fp16", "tf32"), "fp16"),
        ("bfloat16", ("bf16", "fp16", "tf32"), "bf16"),
        ("coreweave-ib", ("coreweave-infiniband", "coreweave-roce"), "coreweave-infiniband"),
        ("coreweave", ("coreweave-infiniband", "coreweave-roce"), "coreweave-infiniband"),
        ("quantum", ("pcie", "nvlink"), ""),
    ],
)
def test_nearest_word_ignores_case(found: str, known: tuple[str, ...], want: str) -> None:
    assert find_nearest(found, known) == want


def test_suggests_words_that_are_not_listed() -> None:
    problem = unknown_value("a", "ib-400-or-better", ("ib-400g",), ("ib-400g-or-better",))
    assert problem.message == (
        '"ib-400-or-better" is not known; must be one of ib-400g (did you mean ib-400g-or-better?)'
    )


def test_truncates_long_values() -> None:
    assert format_value("a" * 100) == '"' + "a" * 59 + "…"


def test_keeps_null_in_a_free_form_map_beside_another_problem() -> None:
    class Block(BaseModel):
        free: dict[str, Any]
        count: int

    block, problems = validate(Block, {"free": {"a": None}, "count": "x"}, "spec")
    assert block.free == {"a": None}
    assert [p.path for p in problems.list()] == ["spec.count"]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("2GB/s", " without quotes and unit, such as 2"),
        ("2.5", " without quotes and unit, such as 2.5"),
        ("fast", ""),
        ([], ""),
    ],
)
def test_shows_the_number_of_a_value_with_a_unit(value: JSON, want: str) -> None:
    spec: JSON = {"cluster": {"source": "Existing"}, "nodePools": [], "storage": {"readBandwidth": value}}
    (problem,) = validate(schemas.EnvironmentSpec, spec, "spec")[1]["storage"].list()
    assert problem.message == f"{format_value(value)} is not allowed; must be a number{want}"


def test_fields_of_a_map_in_place_of_a_list_are_not_reported() -> None:
    assert list(find_unknown_fields(ModelSpec, {"serving": {"engine": {"image": "a"}}}, "spec")) == []
