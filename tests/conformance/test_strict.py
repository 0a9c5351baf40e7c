"""That the checks of manifests are strict: what a schema does not know is an error, wherever it stands.

Every control plane of these tests passes them at rest (rest.py), so a check that lost its teeth would go unseen.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from function.domain.model import Engine, HuggingFaceSource, Shape
from function.kube.manifests import JSON, Manifest
from function.serving.service import build_service, find_service_problems
from tests.conformance import crossplane, openapi
from tests.conformance.rest import Rest
from tests.serving.test_tls import SGLANG_TLS
from tests.support.remote_scene import set_field
from tests.support.serving_requests import (
    DATA,
    KSERVE,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    TENSOR,
    VLLM_OLD,
    VLLM_RANKS,
    engine,
    request,
)

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def composed(settle: Callable[..., Rest], acceptance: Callable[..., list[Manifest]]) -> dict[str, Manifest]:
    """One remote manifest of each kind that we compose."""
    found = settle(*acceptance("kimi-k2-two-nodes"))
    every = [m for outcome in found.rendered.values() for m in outcome.remote.values()]
    return {str(m["kind"]): m for m in every}


@dataclass(frozen=True)
class Slip:
    id: str
    kind: str
    path: str
    value: JSON = 1


SLIPS = (
    Slip("service", "LLMInferenceService", "spec.slip"),
    Slip("pod", "LLMInferenceService", "spec.template.slip"),
    Slip("worker", "LLMInferenceService", "spec.worker.slip"),
    Slip("container", "LLMInferenceService", "spec.worker.containers.0.slip"),
    Slip("type", "LLMInferenceService", "spec.template.containers.0.image", 7),
    Slip("probe", "LLMInferenceService", "spec.template.containers.0.startupProbe.slip"),
    Slip("job", "Job", "spec.slip"),
    Slip("jobs-pod", "Job", "spec.template.spec.slip"),
    Slip("jobs-container", "Job", "spec.template.spec.containers.0.slip"),
    Slip("jobs-type", "Job", "spec.backoffLimit", "six"),
    Slip("claim", "PersistentVolumeClaim", "spec.slip"),
    Slip("list", "PersistentVolumeClaim", "spec.accessModes", "ReadWriteMany"),
    Slip("namespace", "Namespace", "metadata.slip"),
)


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.id)
def test_a_slip_is_an_error_of_both_checks(
    slip: Slip, composed: dict[str, Manifest], schemas: Path, tmp_path: Path
) -> None:
    wrong = copy.deepcopy(composed[slip.kind])
    assert crossplane.validate(schemas, [wrong], tmp_path) == openapi.faults(wrong) == []
    set_field(wrong, slip.path, slip.value)
    assert len(crossplane.validate(schemas, [wrong], tmp_path)) == 1
    if slip.id != "service":  # that field is the CRD's
        (fault,) = openapi.faults(wrong)
        assert slip.path.rpartition(".")[2] in fault


def test_the_openapi_is_of_the_release_that_the_stack_runs() -> None:
    assert openapi.release().startswith("v1.34.")


TLS = replace(KSERVE, tls=True)
SGLANG = engine(image=SGLANG_TLS, name=engine(image="lmsysorg/sglang:v0.5.4").name)
MODES: tuple[tuple[str, Shape, Engine, str], ...] = (
    ("one-gpu", ONE_GPU, engine(), ""),
    ("one-node", ONE_NODE, engine(), ""),
    ("sglang", ONE_NODE, SGLANG, ""),
    ("file", ONE_GPU, engine(image="own/vllm:v0.15.0"), "m.gguf"),
    ("pipeline", PIPELINE, engine(), ""),
    ("ray", PIPELINE, engine(image=VLLM_OLD), ""),
    ("tensor", TENSOR, engine(), ""),
    ("sglang-nodes", PIPELINE, SGLANG, ""),
    ("data", DATA, engine(), ""),
    ("ranks", DATA, engine(image=VLLM_RANKS), ""),
)


@pytest.mark.parametrize(("mode", "shape", "run", "file"), MODES, ids=[mode[0] for mode in MODES])
def test_services_of_every_mode_pass(
    mode: str, shape: Shape, run: Engine, file: str, schemas: Path, tmp_path: Path
) -> None:
    source = HuggingFaceSource(repo="org/kimi", file=file)
    asked = [request(shape, run, source=source, uri=uri) for uri in ("pvc://weights/models/0123", "hf://org/kimi:main")]
    manifests = [build_service(one) for one in (*asked, *(replace(one, kserve=TLS) for one in asked))]
    assert [find_service_problems(one) for one in asked] == [(), ()], mode
    assert crossplane.validate(schemas, manifests, tmp_path) == []
    assert [fault for manifest in manifests for fault in openapi.faults(manifest)] == []
