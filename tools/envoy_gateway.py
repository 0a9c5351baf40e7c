"""The CRDs of Envoy Gateway and Envoy AI Gateway, from their Go modules: what examples/ai-gateway is checked against.

Where the Go proxy does not have Envoy AI Gateway, the variable AI_GATEWAY names a folder with its source.
"""

import json
import os
from pathlib import Path

from tools.programs import CACHE, BuildError, find_go, output

MODULE = "github.com/envoyproxy/gateway@v1.9.1"
SUM = "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY="
AI_MODULE = "github.com/envoyproxy/ai-gateway@v1.1.0"  # its sum is verified by sum.golang.org alone
SOURCE_VARIABLE = "AI_GATEWAY"


def list_crds() -> list[Path]:
    """Return the CRDs of Envoy Gateway.

    Raises:
        BuildError: They cannot be had, or are not what this file pins.
    """
    found = _download(MODULE)
    if found["Sum"] != SUM:
        raise BuildError(f"{MODULE} has the sum {found['Sum']}, not {SUM}")
    return sorted((Path(found["Dir"]) / "charts/gateway-helm/charts/crds/crds/generated").glob("*.yaml"))


def list_ai_crds() -> list[Path]:
    """Return the CRDs of Envoy AI Gateway.

    Raises:
        BuildError: They cannot be had.
    """
    folder = os.environ.get(SOURCE_VARIABLE) or _download(AI_MODULE)["Dir"]
    found = sorted((Path(folder) / "manifests/charts/ai-gateway-crds-helm/templates").glob("*.yaml"))
    if not found:
        raise BuildError(f"{folder} has no CRDs")
    return found


def _download(module: str) -> dict[str, str]:
    CACHE.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = json.loads(output((find_go(), "mod", "download", "-json", module), CACHE))
    return found
