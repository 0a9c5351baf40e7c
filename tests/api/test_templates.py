"""No text of a user reaches a template, or a replacement of variables, on its way to a container.

Each text field of each kind is tried. A field that is not refused stays on the control plane, or is passed as data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from function.api.settings import parse_settings
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest
from tests.api.fields import KINDS, Field, Kind, is_quantity, put, sample, values, walk

TEMPLATE, EXPANSION = "{{.Spec}}", "$(HF_TOKEN)"
# Fields that may hold anything, by the end of their path, and why.
HARMLESS = {
    r"environmentSelector\..*": "compared with labels of environments, and written nowhere",
    r"(requires|capabilities)\..*": "hardware is compared, and written nowhere",
    r"acceleratorType|instanceType|provider": "compared, or for people to read",
    r"gke\.(project|region|kubernetesVersion|provision\..*)": "sent to Google Cloud, where nothing is replaced",
    r"(spec\.taints|tolerations)\[0\]\..*": "compared, and written into conditions only",
    r"rollout\.(order|digest)": "compared only",
    r"rollout\.gate\..*": "names what Crossplane fetches on the control plane, and is written into conditions only",
    r"gates\[0\]\..*": "compared only",
    r"unschedulableReason": "written into conditions only",
    r"target\.query\.promQL|schedule\[0\]\.(start|end)|prometheus\.url": "a ScaledObject, in which nothing is replaced",
    r"environments": "names of environments, compared",
    r"retry": "an annotation of a Job, in which nothing is replaced",
    r"kind|mode|signal|source": "one of a few words",
}
SOURCES = {"huggingFace": "HuggingFace", "oci": "OCI", "uri": "URI", "pvc": "PVC"}
FULL: dict[str, Manifest] = {kind.name: kind.manifest(sample(kind.schema)) for kind in KINDS}


def _fields() -> Iterator[tuple[Kind, Field]]:
    for kind in KINDS:
        for field in walk(kind.schema, (kind.root,), required=False):
            if field.schema.get("type") == "string" and not is_quantity(field.schema) and not values(field.schema):
                yield kind, field


CASES = tuple(_fields())


def _harmless(path: str) -> bool:
    return any(re.search(rf"(?:^|\.)(?:{pattern})(?:\[0\])?$", path) for pattern in HARMLESS)


def _refused(kind: Kind, field: Field, text: str) -> bool:
    """Tell whether a value that is allowed is refused with this text behind it."""
    manifest = put(FULL[kind.name], field.steps, f"{sample(field.schema)}{text}")
    for index, step in enumerate(field.steps):
        if step in SOURCES and "." in field.path:
            manifest = put(manifest, (*field.steps[:index], "source"), SOURCES[str(step)])
            break
    return field.path in {p.path for p in kind.problems(manifest)}


@pytest.mark.parametrize(("kind", "field"), CASES, ids=lambda v: getattr(v, "path", None) or v.name)
def test_no_text_reaches_a_template(kind: Kind, field: Field) -> None:
    assert _refused(kind, field, TEMPLATE) or _harmless(field.path)


def test_no_address_reaches_an_expansion() -> None:
    addresses = [(k, f) for k, f in CASES if re.search(r"\.(oci\.image|uri\.uri|pvc\.path|repo|revision)$", f.path)]
    assert len(addresses) == 18, "5 of a ClusterModel and of a Model, 4 of the adapters of two kinds"
    assert not [field.path for kind, field in addresses if not _refused(kind, field, EXPANSION)]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A map whose keys an author writes."""

    kind: str
    steps: tuple[str | int, ...]
    path: str


NAMED = (
    Named(kind="InferenceEnvironment", steps=("spec", "nodePools", 0, "labels"), path="spec.nodePools[0].labels"),
    Named(
        kind="InferenceEnvironment",
        steps=("spec", "storage", "download", "nodeSelector"),
        path="spec.storage.download.nodeSelector",
    ),
    Named(
        kind="ClusterModel",
        steps=("spec", "serving", 0, "engine", "env", 0, "valueFrom"),
        path="spec.serving[0].engine.env[0].valueFrom",
    ),
)


@pytest.mark.parametrize("case", NAMED, ids=lambda c: c.path)
def test_refuses_templates_in_keys_of_maps(case: Named) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == case.kind)
    problems = kind.problems(put(FULL[kind.name], case.steps, {TEMPLATE: "a"}))
    said = '"{{.Spec}}" is not allowed; must be without {{, which KServe reads as a template'
    assert said in [p.message for p in problems if p.path == case.path]


def test_refused_argument_names_the_way_through_a_variable() -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "ClusterModel")
    template = "--chat-template={{ bos_token }}"
    problems = kind.problems(put(FULL[kind.name], ("spec", "serving", 0, "engine", "args", 0), template))
    way = "put the value into a ConfigMap, the ConfigMap into engine.env, and $(NAME) into the argument"
    said = f'"{template}" is not allowed; must be without {{{{, which KServe reads as a template; {way}'
    assert said in [p.message for p in problems if p.path == "spec.serving[0].engine.args[0]"]


def test_refused_setting_leaves_the_weaker_one() -> None:
    found = parse_settings({"storageInitializerImage": TEMPLATE, "download": {"image": TEMPLATE}}, {})
    assert found.value.download.image == BUILT_IN.download.image
    assert [p.path for p in found.problems] == ["input.download.image", "input.storageInitializerImage"]
