"""The preset that no release of KServe ships."""

from function.domain.settings import Kserve
from function.serving.service import build_pipeline_preset, pipeline_preset_name


def test_the_preset_is_empty_and_lies_where_kserve_looks() -> None:
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


def test_the_controllers_prefix_is_part_of_the_name() -> None:
    name = pipeline_preset_name(Kserve(namespace="llm", config_prefix="", gateway=False))
    assert name == "config-llm-worker-pipeline-parallel"
