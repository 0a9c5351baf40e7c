"""`explain` describes every field of the XRDs as `kubectl explain` does, without a control plane."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from jsonschema import Draft7Validator

from function.cli.options import SHORT_NAMES
from function.kube.manifests import Manifest, listing, mapping
from tests.cli.process import ROOT, output_of, run
from tools import manifest_schema
from tools.documents import document

FIXED = """\
GROUP:      modelplane.ai
KIND:       ModelDeployment
VERSION:    v1alpha1

FIELD: fixed <Object>
DEFAULT: {}

DESCRIPTION:
    Settings of signal Fixed. With signal Load, the autoscaler writes them.

FIELDS:
  replicas\t<integer>
    Number of replicas on each environment, or of all environments together
    where replicas are Divided. 0 stops the pods and keeps the placements, where
    replicas are Divided one of them. Defaults to 1.

  guaranteed\t<integer>
    Number of these replicas that nobody takes back. The others are lent, so
    they end when another deployment needs their GPUs for guaranteed replicas.
    With signal Load, load.minReplicas counts instead, or 1 if it is 0.
    limits.guaranteedGpusPerNamespace of the platform settings can lower it.
    Defaults to all replicas.
"""
# Fields that Kubernetes and Crossplane add.
ADDED = {
    *(("apiVersion",), ("kind",), ("metadata",), ("spec",), ("status",)),
    *(("metadata", name) for name in ("name", "namespace", "labels", "annotations")),
    *(("spec", "crossplane"), ("status", "conditions")),
    *(("status", "conditions", name) for name in ("type", "status", "reason", "message", "lastTransitionTime")),
}


def test_describes_a_field_and_the_fields_below() -> None:
    assert output_of("explain", "modeldeployment.spec.scaling.fixed") == FIXED


@pytest.mark.parametrize(
    "path",
    [
        *("mdldep.spec.scaling.fixed", "ModelDeployment.spec.scaling.fixed", "modeldeployments.spec.scaling.fixed"),
        *("modeldeployments.modelplane.ai.spec.scaling.fixed", "mdldep.spec.scaling.fixed."),
    ],
)
def test_takes_kinds_as_other_commands_do(path: str) -> None:
    assert output_of("explain", path) == FIXED


@pytest.mark.parametrize("kind", SHORT_NAMES)
def test_describes_each_kind(kind: str) -> None:
    shown = output_of("explain", kind)
    assert shown == output_of("explain", SHORT_NAMES[kind]) == output_of("explain", f"{kind.lower()}s.modelplane.ai")
    assert f"\nKIND:       {kind}\nVERSION:    v1alpha1\n\nDESCRIPTION:\n    " in shown
    assert "FIELD: " not in shown
    assert re.findall(r"^  (\w+)\t<(\w+)>( -required-)?$", shown, re.MULTILINE) == [
        ("apiVersion", "string", " -required-"),
        ("kind", "string", " -required-"),
        ("metadata", "Object", " -required-"),
        ("spec", "Object", " -required-"),
        ("status", "Object", ""),
    ]


def test_takes_paths_as_documents_and_messages_write_them() -> None:
    shown = output_of("explain", "clustermodel.spec.serving.engine.image")
    assert shown == output_of("explain", "clustermodel.spec.serving[].engine.image")
    assert shown == output_of("explain", "clustermodel.spec.serving[two.nodes].engine.image")
    assert "FIELD: image <string> -required-\n" in shown


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("mdldep.spec.modelRef.kind", ["FIELD: kind <string>", "ENUM: ClusterModel, Model", "DEFAULT: ClusterModel"]),
        ("mdldep.spec.environments", ["FIELD: environments <integer>", "LIMITS: 1 to 100"]),
        ("mdldep.spec.rollout.paused", ["FIELD: paused <boolean>", "DEFAULT: false"]),
        (
            "mdldep.spec.rollout.order",
            ["FIELD: order <[]string>", "LIMITS: at most 100 entries; no entry twice; each at most 253 characters"],
        ),
        (
            "cmdl.spec.model.name",
            [
                "FIELD: name <string> -required-",
                "LIMITS: 1 to 256 characters",
                "PATTERN: ^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$",
            ],
        ),
        (
            "mdldep.spec.environmentSelector.matchLabels",
            ["FIELD: matchLabels <map[string]string>", "LIMITS: at most 32 entries; each at most 63 characters"],
        ),
        (
            "ie.spec.nodePools.price.currency",
            ["FIELD: currency <string> -required-", "LIMITS: at most 3 characters", "PATTERN: ^[A-Z]{3}$"],
        ),
        ("ie.status.pools.gpusFree", ["FIELD: gpusFree <integer>"]),
    ],
)
def test_shows_what_a_field_accepts(path: str, lines: list[str]) -> None:
    sections = output_of("explain", path).split("\n\n")
    assert sections[1].splitlines() == lines


def test_words_are_listed_in_the_documented_spelling() -> None:
    assert "\nENUM: HuggingFace, OCI, URI, PVC\n" in output_of("explain", "cmdl.spec.source")


def test_quantities_have_a_type_of_their_own() -> None:
    assert "\nFIELD: disk <Quantity>\n" in output_of("explain", "cmdl.spec.resources.disk")


def test_shows_the_rules_of_a_field_and_of_its_entries() -> None:
    shown = output_of("explain", "mdldep.spec.tolerations")
    assert "DESCRIPTION:\n    Taints of environments that the deployment tolerates.\n    A toleration, as in" in shown
    assert "RULES:\n    key: is required for operator Equal\n    value: must not be set for operator Exists\n" in shown


def _list_fields(schema: Manifest, *before: str) -> Iterator[tuple[str, ...]]:
    """Yields the path of every field of an OpenAPI schema."""
    for name in mapping(schema, "properties"):
        yield (*before, name)
        yield from _list_fields(mapping(schema, f"properties.{name}"), *before, name)
    if entry := mapping(schema, "items") or mapping(schema, "additionalProperties"):
        yield from _list_fields(entry, *before)


@pytest.mark.parametrize("kind", SHORT_NAMES)
def test_recursive_lists_every_field_of_the_xrd(kind: str) -> None:
    (version,) = listing(document(ROOT / "apis" / f"{kind.lower()}s" / "definition.yaml"), "spec.versions")
    expected = {*_list_fields(mapping(version, "schema.openAPIV3Schema"))}
    shown: list[tuple[str, ...]] = []
    for margin, name in re.findall(r"^( +)(\w+)\t<", output_of("explain", kind, "--recursive"), re.MULTILINE):
        before = shown[-1] if shown else ()
        shown.append((*before[: len(margin) // 2 - 1], name))
    assert len(shown) == len(set(shown))
    assert expected <= {*shown} <= expected | ADDED


def test_recursive_shows_types_and_words_alone() -> None:
    shown = output_of("explain", "mdldep.spec.placement", "--recursive").partition("FIELDS:\n")[2]
    assert shown == "  prefer\t<string>\n  enum: Declared, SmallestSufficient, Cheapest\n"


def test_prints_the_schema_of_a_field() -> None:
    schema = json.loads(output_of("explain", "mdldep.spec.scaling.fixed.replicas", "-o", "json"))
    assert schema == yaml.safe_load(output_of("explain", "mdldep.spec.scaling.fixed.replicas", "-o", "yaml"))
    assert (schema["type"], schema["default"], schema["minimum"], schema["maximum"]) == ("integer", 1, 0, 1000)
    whole = json.loads(output_of("explain", "mdldep", "-o", "json"))
    assert whole == json.loads(manifest_schema.TARGET.read_text())["definitions"]["ModelDeployment"]
    Draft7Validator.check_schema(whole)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "mdldep.spec.scalng",
            "error: modeldeployment.spec.scalng is not a field; did you mean modeldeployment.spec.scaling?",
        ),
        ("mdldep.scaling.fixed", "modeldeployment.scaling is not a field; did you mean modeldeployment.spec.scaling?"),
        ("mdldep.replicas", "did you mean modeldeployment.spec.scaling.fixed.replicas?"),
        ("ie.nodePools", "did you mean inferenceenvironment.spec.nodePools?"),
        ("ie.hosts", "inferenceenvironment.hosts is not a field; known are apiVersion, kind, metadata, spec, status"),
        ("ie.secretRef", "known are apiVersion, kind, metadata, spec, status"),  # there are several
        ("mdldep.gpus", "did you mean modeldeployment.status.gpus?"),
        ("mdldep.spec.environments.x", "is not a field; modeldeployment.spec.environments has no fields"),
        ("mdldep.spec.crossplane.x", "is not a field; modeldeployment.spec.crossplane has no fields"),
        ("modeldeploymnt.spec", "modeldeploymnt is not a kind of modelplane.ai; did you mean modeldeployment?"),
        ("deployment", "did you mean modeldeployment?"),
        ("pod", "pod is not a kind of modelplane.ai; known are clustermodel, model, inferenceenvironment, "),
        (".", ". is not a kind of modelplane.ai; known are "),
    ],
)
def test_suggests_what_may_be_meant(path: str, message: str) -> None:
    done = run("explain", path)
    assert (done.returncode, done.stdout) == (4, "")
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_needs_one_path() -> None:
    assert run("explain").returncode == 2
    assert run("explain", "mdldep", "spec").returncode == 2
