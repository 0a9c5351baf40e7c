"""What a Composition supplies: expected values follow function-environment-configs' own documentation of its input."""

from dataclasses import dataclass, field

import pytest

from function.api.settings import ENVIRONMENT_KEY, OUR_KEY
from function.cli.composing import build_first_call
from function.cli.options import CliError, Code
from function.cli.store import Store
from function.kube.manifests import JSON, Manifest, mapping
from function.kube.names import VERSION

XR: Manifest = {
    "apiVersion": VERSION,
    "kind": "ModelDeployment",
    "metadata": {"name": "run", "namespace": "team", "labels": {"example.org/tier": "gold"}},
}
OURS: Manifest = {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults"}


def composition(name: str, *inputs: Manifest, kind: str = "ModelDeployment") -> Manifest:
    steps: list[JSON] = [{"step": "none"}]
    steps += [{"step": str(number), "input": input_} for number, input_ in enumerate(inputs)]
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": name},
        "spec": {"compositeTypeRef": {"apiVersion": VERSION, "kind": kind}, "pipeline": steps},
    }


def defaults(name: str) -> Manifest:
    return {**OURS, "storageClassName": name}


def configs(*sources: Manifest, **spec: JSON) -> Manifest:
    """Return the input of a step that reads EnvironmentConfigs."""
    return {
        "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
        "kind": "Input",
        "spec": {"environmentConfigs": list(sources), **spec},
    }


def config(name: str, labels: Manifest | None = None, rank: int = 0) -> Manifest:
    """Return an EnvironmentConfig whose data tell its name."""
    return {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": name, "labels": labels or {}},
        "data": {"rank": rank, OUR_KEY: {"storageClassName": name, f"by-{name}": True}},
    }


def reference(name: str) -> Manifest:
    return {"type": "Reference", "ref": {"name": name}}


def label(value: str, key: str = "team") -> JSON:
    return {"type": "Value", "key": key, "value": value}


def selector(*matchers: JSON, **more: JSON) -> Manifest:
    return {"type": "Selector", "selector": {"matchLabels": list(matchers), **more}}


TIER: JSON = {
    "type": "FromCompositeFieldPath",
    "key": "example.org/tier",
    "valueFromFieldPath": "metadata.labels[example.org/tier]",
}
ABSENT: Manifest = {"key": "team", "valueFromFieldPath": "spec.team"}
FLEET = (
    config("a", {"team": "blue"}, rank=3),
    config("b", {"team": "blue"}, rank=1),
    config("c", {"team": "blue"}, rank=2),
    config("gold", {"example.org/tier": "gold"}),
)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    sources: tuple[Manifest, ...]
    want: tuple[str, ...]
    spec: dict[str, JSON] = field(default_factory=dict)


CASES = (
    Case("references", "in the order in which they are listed", (reference("b"), reference("a")), ("b", "a")),
    Case(
        "optional",
        "one that may be missing",
        (reference("z"), reference("a")),
        ("a",),
        {"policy": {"resolution": "Optional"}},
    ),
    Case("single", "the label's value stands in the composite", (selector(TIER),), ("gold",)),
    Case("multiple", "all, by name", (selector(label("blue"), mode="Multiple"),), ("a", "b", "c")),
    Case(
        "most",
        "the first so many of those sorted by a number",
        (selector(label("blue"), mode="Multiple", sortByFieldPath="data.rank", maxMatch=2),),
        ("b", "c"),
    ),
    Case("none-wanted", "no label at all selects nothing", (selector(),), ()),
    Case(
        "label-left-out",
        "an optional label that the composite does not say is left out",
        (selector({**ABSENT, "fromFieldPathPolicy": "Optional"}, TIER),),
        ("gold",),
    ),
    Case(
        "by-a-path-that-none-has",
        "nothing to sort by keeps them all",
        (selector(label("blue"), mode="Multiple", sortByFieldPath="data.none", minMatch=3),),
        ("a", "b", "c"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_merges_environment_configs(case: Case) -> None:
    store = Store([composition("modeldeployments", configs(*case.sources, **case.spec), OURS), *FLEET])
    ours = mapping(build_first_call(store, XR).context.get(ENVIRONMENT_KEY), OUR_KEY)
    want = {**{f"by-{name}": True for name in case.want}, **({"storageClassName": case.want[-1]} if case.want else {})}
    assert ours == want, case.reason


REFUSED = (
    Case("gone", "a reference is required unless it says otherwise", (reference("z"),), ("EnvironmentConfig z",)),
    Case("several", "Single means one", (selector(label("blue")),), ("exactly one", "there are 3")),
    Case("too-few", "fewer than wanted", (selector(label("red"), mode="Multiple", minMatch=1),), ("at least 1",)),
    Case("no-value", "a label is required unless it says otherwise", (selector(ABSENT),), ("spec.team",)),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refuses_what_would_stop_the_pipeline(case: Case) -> None:
    store = Store([composition("modeldeployments", configs(*case.sources), OURS), *FLEET])
    with pytest.raises(CliError) as refused:
        build_first_call(store, XR)
    assert refused.value.code == Code.REFUSED, case.reason
    assert all(part in refused.value.message for part in case.want), refused.value.message


def test_data_override_defaults_below_their_path() -> None:
    placed: Manifest = {**reference("a"), "toFieldPath": "modelplane.inner"}
    step = configs(placed, defaultData={"rank": 9, OUR_KEY: {"storageClassName": "default"}})
    context = build_first_call(Store([composition("modeldeployments", step, OURS), *FLEET]), XR).context
    assert context == {
        ENVIRONMENT_KEY: {"rank": 9, OUR_KEY: {"storageClassName": "default", "inner": FLEET[0]["data"]}}
    }


def test_steps_select_by_data_of_earlier_steps_only() -> None:
    earlier = configs(defaultData={"team": "gold-team"})
    matcher: JSON = {"type": "FromEnvironmentFieldPath", "key": "team", "valueFromFieldPath": "team"}
    later, after = configs(selector(matcher)), configs(reference("b"))
    store = Store(
        [
            composition("modeldeployments", earlier, later, defaults("input"), after),
            config("found", {"team": "gold-team"}),
            config("b"),
        ]
    )
    call = build_first_call(store, XR)
    ours: JSON = {"storageClassName": "found", "by-found": True}
    assert call.context == {ENVIRONMENT_KEY: {"team": "gold-team", "rank": 0, OUR_KEY: ours}}
    assert call.input == defaults("input")


@pytest.mark.parametrize(
    ("chosen", "want"),
    [("named", "of-named"), ("", "of-default"), ("gone", "of-default")],
    ids=["named", "not-named", "named-one-is-gone"],
)
def test_reads_the_input_of_the_composition_in_use(chosen: str, want: str) -> None:
    store = Store(
        [
            composition("another", defaults("of-another")),
            composition("modeldeployments", defaults("of-default")),
            composition("named", defaults("of-named")),
            composition("of-another-kind", defaults("of-another-kind"), kind="ModelCache"),
        ]
    )
    xr: Manifest = {**XR, "spec": {"crossplane": {"compositionRef": {"name": chosen}}}}
    assert build_first_call(store, xr).input["storageClassName"] == want
