"""The preset that no release of KServe ships."""

from function.domain.settings import Kserve
from function.serving.service import build_pipeline_preset, pipeline_preset_name


def test_preset_is_empty_and_in_namespace_of_kserve() -> None:
    assert build_pipeline_preset(Kserve(namespace="kserve", config_prefix="kserve-", gateway=True)) == {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {
            "name": "kserve-config-llm-worker-pipeline-parallel",
            "namespace": "kserve",
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        },
        "spec": {},
    }


def test_preset_name_has_prefix_of_controller() -> None:
    name = pipeline_preset_name(Kserve(namespace="llm", config_prefix="", gateway=False))
    assert name == "config-llm-worker-pipeline-parallel"
