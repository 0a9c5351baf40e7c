"""What a Composition supplies: expected values follow function-environment-configs' own documentation of its input."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from function.api.settings import ENVIRONMENT_KEY, OUR_KEY
from function.cli.composing import build_first_call
from function.cli.options import CliError, Code
from function.cli.store import Store
from function.kube.manifests import JSON, Manifest, mapping
from function.kube.names import VERSION
from tests.cli.process import KIMI, run, write

XR: Manifest = {
    "apiVersion": VERSION,
    "kind": "ModelDeployment",
    "metadata": {"name": "run", "namespace": "team", "labels": {"example.org/tier": "gold"}},
    "spec": {"tiers": ["none", "gold"]},
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


def config(name: str, labels: Manifest | None = None) -> Manifest:
    """Return an EnvironmentConfig whose data tell its name."""
    return {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": name, "labels": labels or {}},
        "data": {"rank": 0, OUR_KEY: {"storageClassName": name, f"by-{name}": True}},
    }


def reference(name: str) -> Manifest:
    return {"type": "Reference", "ref": {"name": name}}


BY_LABELS: Manifest = {
    "type": "Selector",
    "selector": {"matchLabels": [{"type": "Value", "key": "team", "value": "blue"}]},
}
FLEET = (
    config("a", {"team": "blue"}),
    config("b", {"team": "blue"}),
    config("c", {"team": "blue"}),
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
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_merges_environment_configs(case: Case) -> None:
    store = Store([composition("modeldeployments", configs(*case.sources, **case.spec), OURS), *FLEET])
    ours = mapping(build_first_call(store, XR).context.get(ENVIRONMENT_KEY), OUR_KEY)
    want = {**{f"by-{name}": True for name in case.want}, **({"storageClassName": case.want[-1]} if case.want else {})}
    assert ours == want, case.reason


REFUSED = (
    Case("gone", "a reference is required unless it says otherwise", (reference("z"),), ("EnvironmentConfig z",)),
    Case("labels", "not followed", (BY_LABELS,), ("by labels,", "without it with -f")),
    Case("moved", "not followed", ({**reference("a"), "toFieldPath": "inner"},), ("by toFieldPath,",)),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refuses_what_stops_the_pipeline_or_is_not_followed(case: Case) -> None:
    store = Store([composition("modeldeployments", configs(*case.sources), OURS), *FLEET])
    with pytest.raises(CliError) as refused:
        build_first_call(store, XR)
    assert refused.value.code == Code.REFUSED, case.reason
    assert all(part in refused.value.message for part in case.want), refused.value.message


def test_steps_before_ours_are_merged_over_their_defaults() -> None:
    earlier = configs(reference("a"), defaultData={"team": "red", OUR_KEY: {"storageClassName": "default", "kept": 1}})
    later, after = configs(reference("b")), configs(reference("c"))
    store = Store([composition("modeldeployments", earlier, later, defaults("input"), after), *FLEET])
    call = build_first_call(store, XR)
    ours: JSON = {"storageClassName": "b", "by-a": True, "by-b": True, "kept": 1}
    assert call.context == {ENVIRONMENT_KEY: {"team": "red", "rank": 0, OUR_KEY: ours}}
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


def test_validate_reports_what_other_commands_refuse(tmp_path: Path) -> None:
    by_labels = composition("modeldeployments", configs(BY_LABELS), OURS)
    files = ("-f", KIMI, "-f", write(tmp_path, by_labels))
    for command in ("plan", "validate"):
        done = run(command, *files)
        assert done.returncode == 1
        shown = done.stdout if command == "validate" else done.stderr
        assert "error: examples/kimi-k2-two-nodes/deployment.yaml:" in shown
        assert "the Composition selects EnvironmentConfigs by labels" in shown
