"""KServe's own single-node preset, run by a shell: what an engine would really be started with.

The preset is read from the module that KServe is built from. It is a Go template around a shell script; the
few expressions in it are filled in here as KServe's controller would for a cluster without TLS.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from function.kube.manifests import Manifest, get, listing, mapping, text
from tests.conformance.crossplane import read
from tools import programs

PRESET = "config/llmisvcconfig/config-llm-template.yaml"
# Prints its own arguments; its version is one that takes every branch of the script.
ENGINE = """#!/bin/sh
if [ "$1" = --version ]; then echo 0.22.0; exit; fi
exec python3 -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@"
"""


def run_single_node_preset(service: Manifest, folder: Path) -> list[str]:
    """Return the arguments with which the preset starts the engine for a service of one node."""
    module = programs.module_dir("kserve", "github.com/kserve/kserve")
    (preset,) = read(module / PRESET)
    (main,) = (c for c in listing(preset, "spec.template.containers") if c["name"] == "main")
    command = [_fill(part, service) for part in _strings(main, "command")]
    (ours,) = (c for c in listing(service, "spec.template.containers") if c["name"] == "main")
    engine = folder / "vllm"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        (*command, *_strings(ours, "args")), env=environment, capture_output=True, text=True, check=True
    )
    arguments: list[str] = json.loads(done.stdout.splitlines()[-1])
    return arguments


def _strings(manifest: Manifest, path: str) -> list[str]:
    found = get(manifest, path)
    return [str(item) for item in found] if isinstance(found, list) else []


def _fill(part: str, service: Manifest) -> str:
    tensor = mapping(service, "spec.parallelism").get("tensor")
    part = re.sub(r"\{\{-? *if \.GlobalConfig\.EnableTLS *\}\}.*?\{\{-? *end *\}\}", "", part)
    flag = r" --tensor-parallel-size \2" if tensor else ""
    part = re.sub(r"\{\{- if and (\S+) (\S+) \}\} --tensor-parallel-size .*?\{\{- end \}\}", flag, part)
    values = {
        ".Spec.Model.Name": text(service, "spec.model.name"),
        ".ObjectMeta.Namespace": text(service, "metadata.namespace"),
        ".Spec.Parallelism.Tensor": str(tensor),
        "shutdownTimeout .Spec.Template 15": "15",
        "kvTransferConfig .Spec.KVCacheOffloading": "",
    }
    for expression, value in values.items():
        part = part.replace("{{ " + expression + " }}", value)
    assert "{{" not in part, part
    return part
