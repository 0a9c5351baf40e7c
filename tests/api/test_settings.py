"""Settings: EnvironmentConfigs override the input, which overrides the built-in defaults; invalid ones are reported."""

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from function.api.problems import PATTERN_FORMS, URL_FORM, Parsed
from function.api.settings import _MAX_NAME, _MAX_PRIORITY, _NAME, parse_settings
from function.domain.allocation import Cost, Limits
from function.domain.model import Problem
from function.domain.settings import BUILT_IN, Download, Kserve, PlatformGateway, Prepare, Settings
from function.kube.manifests import JSON, Manifest, get, mapping
from function.kube.urls import Origin

ROOT = Path(__file__).parents[2]
NAME = PATTERN_FORMS[_NAME]


def _context(fields: JSON) -> Manifest:
    return {"apiextensions.crossplane.io/environment": {"modelplane": fields}}


def test_absent_settings_are_the_built_in_ones() -> None:
    assert parse_settings({}, {}) == Parsed(BUILT_IN)
    assert parse_settings({}, {"apiextensions.crossplane.io/environment": "odd"}) == Parsed(BUILT_IN)


def test_parses_every_field() -> None:
    parsed = parse_settings(
        {
            "apiVersion": "modelplane.fn.crossplane.io/v1beta1",
            "kind": "Defaults",
            "storageInitializerImage": "mirror/storage-initializer:v0.20.0",
            "download": {
                "resources": {"requests": {"cpu": 1}, "limits": {"memory": "64Gi"}},
                "env": [{"name": "HF_ENDPOINT", "value": "http://mirror"}],
                "nodeSelector": {"pool": "cpu"},
                "tolerations": [{"operator": "Exists"}],
                "serviceAccountName": "loader",
                "imagePullSecrets": [{"name": "registry"}],
                "tokenSecretName": "hub",
                "activeDeadlineSeconds": 60,
                "backoffLimit": 0,
            },
            "storageClassName": "",
            "ttl": {"settled": "1h30m", "pending": "1.5s"},
            "secretNamespace": "vault",
            "kserve": {"namespace": "llm", "configPrefix": "", "gateway": False, "tls": True},
            "objectWatch": True,
            "gates": [{"apiVersion": "batch/v1", "kind": "Job"}],
            "gateway": {"name": "models", "sectionName": "https", "url": "https://models.example.com", "settle": "8s"},
            "remoteNamespacePrefix": "mp-",
        },
        {},
    )
    assert parsed.problems == ()
    assert parsed.value == Settings(
        download=Download(
            image="mirror/storage-initializer:v0.20.0",
            resources={"requests": {"cpu": 1}, "limits": {"memory": "64Gi"}},
            env=({"name": "HF_ENDPOINT", "value": "http://mirror"},),
            node_selector={"pool": "cpu"},
            tolerations=({"operator": "Exists"},),
            service_account_name="loader",
            image_pull_secrets=("registry",),
            token_secret_name="hub",
            active_deadline_seconds=60,
            backoff_limit=0,
        ),
        kserve=Kserve(namespace="llm", config_prefix="", gateway=False, tls=True),
        storage_class="",
        ttl_settled=5400,
        ttl_pending=2,
        secret_namespace="vault",
        object_watch=True,
        gates=frozenset({("batch/v1", "Job")}),
        gateway=PlatformGateway(
            name="models",
            namespace="modelplane-system",
            origin=Origin("https", "models.example.com", 443),
            section_name="https",
            settle=8,
        ),
        remote_namespace_prefix="mp-",
    )


def test_parses_the_security_context_of_downloads() -> None:
    said: Manifest = {"runAsUser": 2000, "supplementalGroups": [5]}
    parsed = parse_settings({"download": {"securityContext": said, "prepare": "Never"}}, {})
    assert parsed == Parsed(replace(BUILT_IN, download=Download(security_context=said, prepare=Prepare.NEVER)))


def test_context_overrides_the_input_field_by_field() -> None:
    parsed = parse_settings(
        {"storageClassName": "slow", "kserve": {"namespace": "a", "gateway": False}},
        _context({"storageClassName": "fast", "kserve": {"namespace": "b"}}),
    )
    assert parsed.problems == ()
    kserve = Kserve(namespace="b", config_prefix="kserve-", gateway=False)
    assert parsed.value == replace(BUILT_IN, storage_class="fast", kserve=kserve)


def test_empty_values_override() -> None:
    parsed = parse_settings(
        {"storageClassName": "slow", "objectWatch": True, "kserve": {"configPrefix": "llm-"}},
        _context({"storageClassName": "", "objectWatch": False, "kserve": {"configPrefix": ""}}),
    )
    settings = parsed.value
    assert (settings.storage_class, settings.object_watch, settings.kserve.config_prefix) == ("", False, "")


def test_image_of_downloads_overrides_the_common_image() -> None:
    parsed = parse_settings({"storageInitializerImage": "a", "download": {"image": "b"}}, {})
    assert parsed.value.download.image == "b"


def test_gateway_is_set_as_a_whole() -> None:
    weaker: Manifest = {"gateway": {"name": "a", "url": "https://a", "settle": "8s"}}
    parsed = parse_settings(weaker, _context({"gateway": {"name": "b", "namespace": "c", "url": "http://b:8080"}}))
    gateway = parsed.value.gateway
    assert gateway == PlatformGateway(name="b", namespace="c", origin=Origin("http", "b", 8080), settle=5)
    assert parse_settings(weaker, _context({})).value.gateway != gateway


def test_list_of_gates_replaces_a_weaker_one() -> None:
    job: Manifest = {"apiVersion": "batch/v1", "kind": "Job"}
    run: Manifest = {"apiVersion": "a.io/v1", "kind": "Run"}
    context: Manifest = {"apiextensions.crossplane.io/environment": {"modelplane": {"gates": [run]}}}
    assert parse_settings({"gates": [job]}, {}).value.gates == {("batch/v1", "Job")}
    assert parse_settings({"gates": [job]}, context).value.gates == {("a.io/v1", "Run")}


def test_null_counts_as_absent() -> None:
    assert parse_settings({"objectWatch": None, "download": None}, _context(None)) == Parsed(BUILT_IN)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    fields: Manifest
    want: Problem


ENV: JSON = [{"name": "A", "value": "1", "valueFrom": {}}]
DURATION = "must be a duration like 30s, 10m or 1h30m"
CASES = [
    Case("type", "text is not a boolean", {"objectWatch": "yes"},
         Problem("input.objectWatch", '"yes" is not allowed; must be true or false')),
    Case("bound", "a negative number is below the minimum", {"download": {"backoffLimit": -1}},
         Problem("input.download.backoffLimit", "-1 is not allowed; must be at least 0")),
    Case("duration", "a duration needs a unit", {"ttl": {"settled": "10"}},
         Problem("input.ttl.settled", f'"10" is not allowed; {DURATION}')),
    Case("duration-zero", "a duration of zero would stop all reconciles", {"ttl": {"pending": "0s"}},
         Problem("input.ttl.pending", f'"0s" is not allowed; {DURATION}')),
    Case("duration-long", "as long as the schema allows", {"ttl": {"pending": "1s" * 17}},
         Problem("input.ttl.pending", f'"{"1s" * 17}" is not allowed; must be a duration like 30s, 10m or 1h30m, at '
                                      "most 32 characters long")),
    Case("duration-type", "a number is not a duration", {"ttl": {"pending": 3}},
         Problem("input.ttl.pending", "3 is not allowed; must be text, in quotes")),
    Case("quantity", "an invalid quantity is refused", {"download": {"resources": {"limits": {"memory": "80 gigs"}}}},
         Problem("input.download.resources.limits.memory",
                 '"80 gigs" is not a quantity; must be like 80Gi, 1.5T or 500m')),
    Case("unknown-field", "an unknown field has no effect", {"storageClasName": "fast"},
         Problem("input.storageClasName", "is not a field; did you mean storageClassName?")),
    Case("unknown-field-below", "unknown fields are found at every depth", {"ttl": {"settle": "1h"}},
         Problem("input.ttl.settle", "is not a field; did you mean settled?")),
    Case("item", "one invalid item makes its list invalid", {"download": {"env": ENV}},
         Problem("input.download.env[0].valueFrom", "{} is not allowed; must be left out together with value")),
    Case("gateway-path", "ModelServices add their own path", {"gateway": {"name": "a", "url": "https://a/b"}},
         Problem("input.gateway.url", f'"https://a/b" is not allowed; must be {URL_FORM}')),
    Case("gateway-host", "the gateway needs a host name", {"gateway": {"name": "a", "url": "https://a_b"}},
         Problem("input.gateway.url", f'"https://a_b" is not allowed; must be {URL_FORM}')),
    Case("gateway-settle", "gateways need some time", {"gateway": {"name": "a", "url": "https://a", "settle": "0s"}},
         Problem("input.gateway.settle", f'"0s" is not allowed; {DURATION}')),
    Case("cost", "an invalid limit does not count as no limit",
         {"limits": {"costPerHour": {"amount": "a lot", "currency": "USD"}}},
         Problem("input.limits.costPerHour.amount", '"a lot" is not allowed; must be a decimal number such as "2.50"')),
    Case("own-variable", "the download sets this variable itself",
         {"download": {"env": [{"name": "MODELPLANE_JOB", "value": "x"}]}},
         Problem("input.download.env[0].name",
                 '"MODELPLANE_JOB" is not allowed; must be another name, because the download sets this '
                 "variable itself")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_invalid_setting_is_reported_and_left_out(case: Case) -> None:
    is_harmless = {"gateway", "limits", "objectWatch", "ttl"} >= case.fields.keys()
    want = replace(BUILT_IN, valid=is_harmless, limits=Limits(invalid="limits" in case.fields))
    assert parse_settings(case.fields, {}) == Parsed(want, (case.want,)), case.reason


def test_namespace_keeps_its_other_limits_when_the_one_of_costs_is_invalid() -> None:
    own: Manifest = {"gpus": 4, "costPerHour": {"amount": "1", "currency": "usd"}}
    parsed = parse_settings({"limits": {"gpusPerNamespace": 2, "namespaces": {"chat": own}}}, {})
    assert parsed.value.limits_of("chat") == Limits(gpus=4)
    assert [problem.path for problem in parsed.problems] == ["input.limits.namespaces.chat.costPerHour.currency"]


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        ({"gpusPerNamespace": 8, "namespaces": {"chat": {"gpus": "4"}}}, Limits(gpus=8)),
        ({"gpusPerNamespace": 8, "namespaces": {"chat": {"gpu": 4}}}, Limits(gpus=8, guarantee_invalid=True)),
        ({"gpusPerNamespace": 8, "namespaces": {"chat": "4"}}, Limits(gpus=8, guarantee_invalid=True)),
        ({"gpusPerNamespace": 8, "namespaces": {"chat": {"placements": 2, "gpus": "4"}}}, Limits(placements=2, gpus=8)),
        ({"gpusPerNamespace": 8, "namespaces": {"chat": None, "docs": {"gpus": "4"}}}, Limits(gpus=8)),
        ({"namespaces": {"chat": {"gpus": "4"}}}, Limits(invalid=True)),
        ({"namespaces": {"chat": "4"}}, Limits(invalid=True, guarantee_invalid=True)),
        ({"gpusPerNamespace": "8", "namespaces": {"chat": {"gpus": 4}}}, Limits(gpus=4)),
        ({"gpusPerNamespace": "8", "namespaces": {"chat": {"gpus": "4"}}}, Limits(invalid=True)),
        ({"gpusPerNamespace": "8"}, Limits(invalid=True)),
        ({"gpuPerNamespace": 8}, Limits(invalid=True, guarantee_invalid=True)),
        ({"gpusPerNamespace": 8, "namespaces": "chat"}, Limits(gpus=8, invalid=True, guarantee_invalid=True)),
        ("8", Limits(invalid=True, guarantee_invalid=True)),
    ],
    ids=str,
)
def test_invalid_limit_is_not_the_absence_of_a_limit(limits: JSON, want: Limits) -> None:
    """A namespace has the general limit instead; without a valid one, nothing more is admitted."""
    assert parse_settings({"limits": limits}, {}).value.limits_of("chat") == want


def test_invalid_general_limit_concerns_all_levels() -> None:
    parsed = parse_settings({"limits": {"gpusPerNamespace": "8"}}, _context({"limits": {"placementsPerNamespace": 2}}))
    assert parsed.value.limits_of("chat") == Limits(placements=2, invalid=True)


def test_namespace_has_a_limit_of_costs() -> None:
    cost: Manifest = {"amount": "120.50", "currency": "USD"}
    parsed = parse_settings({"limits": {"costPerHour": cost, "namespaces": {"chat": {"gpus": 1}}}}, {})
    assert parsed.value.limits_of("other") == Limits(cost=Cost("USD", Decimal("120.50")))
    assert parsed.value.limits_of("chat") == Limits(gpus=1), "instead of the common ones"


def test_limits_of_0_lift_those_of_the_weaker_level() -> None:
    weaker: Manifest = {
        "placementsPerNamespace": 20, "gpusPerNamespace": 128, "costPerHour": {"amount": "400", "currency": "USD"},
    }  # fmt: skip
    lifted: Manifest = {
        "placementsPerNamespace": 0, "gpusPerNamespace": 0, "costPerHour": {"amount": "0", "currency": "USD"},
    }  # fmt: skip
    assert parse_settings({"limits": weaker}, _context({"limits": lifted})).value.limits_of("chat") == Limits()


def test_priorities_have_names_from_all_levels() -> None:
    weaker: Manifest = {"limits": {"priorities": {"critical": 100, "batch": -10}, "gpusPerNamespace": 8}}
    parsed = parse_settings(weaker, _context({"limits": {"priorities": {"critical": 50, "least": -1000}}}))
    assert parsed == Parsed(
        replace(BUILT_IN, limits=Limits(gpus=8), priorities={"critical": 50, "batch": -10, "least": -1000})
    )


@pytest.mark.parametrize(
    ("name", "priority", "path", "message"),
    [
        ("high", "100", ".high", '"100" is not allowed; must be a whole number without quotes and unit, such as 100'),
        ("high", None, ".high", "null is not allowed; must be a whole number"),
        ("high", 1001, ".high", "1001 is not allowed; must be between -1000 and 1000"),
        ("high", -1001, ".high", "-1001 is not allowed; must be between -1000 and 1000"),
        ("High", 1, "", f'"High" is not allowed; must be {NAME}, at most 63 characters long'),
        ("high\n", 1, "", f'"high\\n" is not allowed; must be {NAME}, at most 63 characters long'),
        ("h" * 64, 1, "", f'"{"h" * 59}… is not allowed; must be {NAME}, at most 63 characters long'),
    ],
    ids=str,
)
def test_priority_with_a_problem_is_left_out_and_limits_nothing(
    name: str, priority: JSON, path: str, message: str
) -> None:
    """The quotas stay valid, and a value of a weaker level counts."""
    weaker: Manifest = {"limits": {"priorities": {"high": 7}, "gpusPerNamespace": 8}}
    parsed = parse_settings(weaker, _context({"limits": {"priorities": {name: priority, "low": -7}}}))
    want = replace(BUILT_IN, limits=Limits(gpus=8), priorities={"high": 7, "low": -7})
    assert parsed == Parsed(want, (Problem(f"modelplane.limits.priorities{path}", message),))


def test_priorities_that_are_no_map_limit_nothing() -> None:
    parsed = parse_settings({"limits": {"priorities": ["high"], "gpusPerNamespace": 8}}, {})
    problem = Problem("input.limits.priorities", '["high"] is not allowed; must be a map')
    assert parsed == Parsed(replace(BUILT_IN, limits=Limits(gpus=8)), (problem,))


def test_named_priorities_have_the_bounds_of_the_others() -> None:
    spec = json.loads((ROOT / "function/schemas/manifests.json").read_text())["definitions"]["ModelDeployment"]
    fields = mapping(spec, "properties.spec.properties")
    assert [get(fields, f"priorityName.{bound}") for bound in ("pattern", "maxLength")] == [_NAME, _MAX_NAME]
    bounds = [get(fields, f"priority.{bound}") for bound in ("minimum", "maximum")]
    assert bounds == [-_MAX_PRIORITY, _MAX_PRIORITY]


def test_invalid_setting_leaves_the_weaker_level() -> None:
    parsed = parse_settings({"ttl": {"settled": "5m"}}, _context({"ttl": {"settled": "soon"}}))
    assert parsed.value == replace(BUILT_IN, ttl_settled=300)
    assert [str(p) for p in parsed.problems] == [f'modelplane.ttl.settled: "soon" is not allowed; {DURATION}']


def test_settings_are_invalid_if_one_level_is() -> None:
    for settings in (
        parse_settings({"kserve": {"tls": "ja"}}, _context({"kserve": {"tls": True}})),
        parse_settings({"kserve": {"tls": True}}, _context({"kserve": {"tls": "ja"}})),
    ):
        assert not settings.value.valid


@pytest.mark.parametrize("invalid", ["b", {"name": "b"}, {"name": "b", "url": "https://b", "section": "c"}], ids=str)
def test_invalid_gateway_is_none_instead_of_a_weaker_one(invalid: JSON) -> None:
    """The routes of the stronger level may be on the Gateway that it names: they stay there without another."""
    weaker: Manifest = {"gateway": {"name": "a", "url": "https://a"}}
    parsed = parse_settings(weaker, _context({"gateway": invalid}))
    assert parsed.value == BUILT_IN
    assert len(parsed.problems) == 1


def test_reports_a_context_that_is_no_map() -> None:
    assert parse_settings({"gateway": {"name": "a", "url": "https://a"}}, _context("odd")) == Parsed(
        replace(BUILT_IN, valid=False), (Problem("modelplane", '"odd" is not allowed; must be a block of fields'),)
    )


@pytest.mark.parametrize(
    ("weaker", "stronger", "want"),
    [
        ({}, {}, False),
        ({"preemption": "LowerPriority"}, {}, True),
        ({"preemption": "LowerPriority"}, {"preemption": "LentOnly"}, False),
        ({"preemption": "LowerPriority", "namespaces": {"chat": {"gpus": 1}}}, {}, True),
    ],
)
def test_preemption_holds_for_every_namespace(weaker: Manifest, stronger: Manifest, want: bool) -> None:
    parsed = parse_settings({"limits": weaker}, _context({"limits": stronger}))
    assert (parsed.problems, parsed.value.limits_of("chat").preempts) == ((), want)


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        ({"guaranteedGpusPerNamespace": 4}, Limits(guaranteed_gpus=4)),
        ({"guaranteedGpusPerNamespace": 0, "gpusPerNamespace": 8}, Limits(guaranteed_gpus=0, gpus=8)),
        ({"guaranteedGpusPerNamespace": 8, "gpusPerNamespace": 8}, Limits(guaranteed_gpus=8, gpus=8)),
        ({"guaranteedGpusPerNamespace": 8, "gpusPerNamespace": 0}, Limits(guaranteed_gpus=8)),
        ({"guaranteedGpusPerNamespace": 4, "namespaces": {"chat": {"guaranteedGpus": 2}}}, Limits(guaranteed_gpus=2)),
        ({"guaranteedGpusPerNamespace": 4, "namespaces": {"chat": {"gpus": 2}}}, Limits(gpus=2)),
        ({"namespaces": {"chat": {"gpus": 4, "guaranteedGpus": 0}}}, Limits(gpus=4, guaranteed_gpus=0)),
    ],
    ids=str,
)
def test_a_namespace_is_guaranteed_part_of_its_quota(limits: JSON, want: Limits) -> None:
    parsed = parse_settings({"limits": limits}, {})
    assert (parsed.problems, parsed.value.limits_of("chat")) == ((), want)


WHOLE_NUMBER = "must be a whole number without quotes and unit"


@pytest.mark.parametrize(
    ("weaker", "stronger", "want", "problem"),
    [
        (
            {"guaranteedGpusPerNamespace": 9, "gpusPerNamespace": 8},
            {},
            Limits(gpus=8, guaranteed_gpus=9, guarantee_invalid=True),
            "input.limits.guaranteedGpusPerNamespace: 9 is not allowed; must be at most gpusPerNamespace (8)",
        ),
        (
            {"gpusPerNamespace": 8},
            {"guaranteedGpusPerNamespace": 9},
            Limits(gpus=8, guaranteed_gpus=9, guarantee_invalid=True),
            "modelplane.limits.guaranteedGpusPerNamespace: 9 is not allowed; must be at most gpusPerNamespace (8)",
        ),
        (
            {"guaranteedGpusPerNamespace": 9},
            {"gpusPerNamespace": 8},
            Limits(gpus=8, guaranteed_gpus=9, guarantee_invalid=True),
            "modelplane.limits.gpusPerNamespace: 8 is not allowed; must be at least 9, which are guaranteed",
        ),
        (
            {"namespaces": {"chat": {"gpus": 2, "guaranteedGpus": 3}}},
            {},
            Limits(gpus=2, guaranteed_gpus=3, guarantee_invalid=True),
            "input.limits.namespaces.chat.guaranteedGpus: 3 is not allowed; must be at most gpus (2)",
        ),
        (
            {"guaranteedGpusPerNamespace": "4"},
            {},
            Limits(guarantee_invalid=True),
            f'input.limits.guaranteedGpusPerNamespace: "4" is not allowed; {WHOLE_NUMBER}, such as 4',
        ),
        (
            {"guaranteedGpusPerNamespace": 4, "namespaces": {"chat": {"gpus": 2, "guaranteedGpus": "1"}}},
            {},
            Limits(gpus=2, guarantee_invalid=True),
            f'input.limits.namespaces.chat.guaranteedGpus: "1" is not allowed; {WHOLE_NUMBER}, such as 1',
        ),
    ],
    ids=str,
)
def test_an_invalid_guarantee_hides_what_is_guaranteed_and_no_other_limit(
    weaker: JSON, stronger: JSON, want: Limits, problem: str
) -> None:
    parsed = parse_settings({"limits": weaker}, _context({"limits": stronger}))
    assert ([str(p) for p in parsed.problems], parsed.value.limits_of("chat")) == ([problem], want)
    assert parsed.value.valid
