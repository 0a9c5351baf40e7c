"""The CRDs of Envoy Gateway and Envoy AI Gateway: what examples/ai-gateway is checked against.

Those of Envoy Gateway come from its Go module. Not every Go proxy has that of Envoy AI Gateway, so its schemas are
used only where the variable AI_GATEWAY names a folder that has its source.
"""

import json
import os
from pathlib import Path

from tools.programs import CACHE, BuildError, find_go, output

MODULE = "github.com/envoyproxy/gateway@v1.9.1"
SUM = "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY="
SOURCE_VARIABLE = "AI_GATEWAY"


def list_crds() -> list[Path]:
    """Return the CRDs of Envoy Gateway.

    Raises:
        BuildError: They cannot be had, or are not what this file pins.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    found = json.loads(output((find_go(), "mod", "download", "-json", MODULE), CACHE))
    if found["Sum"] != SUM:
        raise BuildError(f"{MODULE} has the sum {found['Sum']}, not {SUM}")
    return sorted((Path(found["Dir"]) / "charts/gateway-helm/charts/crds/crds/generated").glob("*.yaml"))


def list_ai_crds() -> list[Path]:
    """Return the CRDs of Envoy AI Gateway; none where its source is not named.

    Raises:
        BuildError: The folder does not have them.
    """
    folder = os.environ.get(SOURCE_VARIABLE, "")
    found = sorted((Path(folder) / "manifests/charts/ai-gateway-crds-helm/templates").glob("*.yaml"))
    if folder and not found:
        raise BuildError(f"{folder} has no CRDs of Envoy AI Gateway")
    return found if folder else []
