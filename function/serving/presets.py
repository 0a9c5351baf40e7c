"""The one preset that KServe looks up for pipeline parallelism and no release ships.

Without it a service stays stuck. It is empty on purpose: the service itself has everything that it needs, so that a
change of ours never restarts a running service.
"""

from function.domain.settings import Kserve
from function.kube.manifests import Manifest
from function.kube.names import MANAGED_BY

API_VERSION = "serving.kserve.io/v1alpha2"


def pipeline_preset_name(kserve: Kserve) -> str:
    """Returns the name that KServe's controller looks up, and that a service lists in `baseRefs`."""
    return f"{kserve.config_prefix}config-llm-worker-pipeline-parallel"


def build_pipeline_preset(kserve: Kserve) -> Manifest:
    """Returns the preset, in KServe's own namespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": pipeline_preset_name(kserve), "namespace": kserve.namespace, "labels": {**MANAGED_BY}},
        "spec": {},
    }
