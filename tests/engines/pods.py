"""The pods of a replica as a cluster would run them, with programs that only record their arguments.

KServe's own code merges a service with its preset; LeaderWorkerSet's variables are set on each pod; the kubelet's
replacement of `$(NAME)` is done here; then the container's command runs in a shell.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from function.kube.manifests import Manifest, get, listing, mapping, text
from function.serving.service import build_pipeline_preset
from tests.support.serving_requests import KSERVE
from tools import programs
from tools.stack import upstream

LEADER, ADDRESS = "kimi-0.kimi.team", "10.0.0.7"
_SECONDS = 60
# `python3` answers the question of whether all nodes have joined Ray, and is SGLang's server.
_RECORD = 'printf "%s\\0" "${0##*/}" "$@" "" >> "$CALLS"\n'
_STAND_INS: Mapping[str, str] = {
    "vllm": 'if [ "$1" = --version ]; then echo "$ENGINE_VERSION"; exit; fi\n' + _RECORD,
    "ray": _RECORD,
    "python3": _RECORD,
    "getent": f'[ "$1 $2" = "hosts {LEADER}" ] || exit 2\necho "{ADDRESS}      {LEADER}"\n',
    "sleep": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What the engine's container of one pod ran."""

    index: int  # in its group; the leader is 0
    calls: tuple[tuple[str, ...], ...]  # program and arguments

    @property
    def engine(self) -> tuple[str, ...]:
        """The arguments of the engine, which the shell starts last; empty if it starts none."""
        program, *arguments = self.calls[-1]
        return tuple(arguments) if program in {"vllm", "python3"} else ()


@dataclass(slots=True)
class Cluster:
    """KServe, LeaderWorkerSet and the kubelet, as far as they decide what a container runs."""

    folder: Path
    _bin: Path = field(init=False)

    def __post_init__(self) -> None:
        """Write the programs that stand in for an engine's."""
        self._bin = self.folder / "bin"
        self._bin.mkdir()
        for name, script in _STAND_INS.items():
            program = self._bin / name
            program.write_text(f"#!/bin/bash\n{script}")
            program.chmod(0o755)

    def run(self, service: Manifest, version: str, *, tls: bool = False) -> tuple[Pod, ...]:
        """Returns the pods of one replica of a service, the leader first."""
        (spec,) = merge([service], tls=tls)
        size = count_pods(spec)
        parts = ["template", *["worker"] * (size - 1)]
        return tuple(self._run_pod(mapping(spec, part), index, size, version) for index, part in enumerate(parts))

    def _run_pod(self, pod: Manifest, index: int, size: int, version: str) -> Pod:
        (container,) = (c for c in listing(pod, "containers") if c["name"] == "main")
        given = {text(entry, "name"): text(entry, "value") for entry in listing(container, "env")}
        group = {"LWS_GROUP_SIZE": str(size), "LWS_WORKER_INDEX": str(index), "LWS_LEADER_ADDRESS": LEADER}
        variables = {**given, **group} if size > 1 else given
        calls = self.folder / "calls"
        calls.write_text("")
        subprocess.run(
            [expand(part, variables) for part in (*_strings(container, "command"), *_strings(container, "args"))],
            env={**variables, "PATH": f"{self._bin}:{os.defpath}", "CALLS": str(calls), "ENGINE_VERSION": version},
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        recorded = [call.split("\0") for call in calls.read_text().split("\0\0")]
        return Pod(index=index, calls=tuple(tuple(call) for call in recorded if call != [""]))


def merge(services: Sequence[Manifest], *, tls: bool = False) -> list[Manifest]:
    """Returns the specs that KServe makes of services."""
    presets = {text(p, "metadata.name"): p for p in (*upstream.kserve_presets(), build_pipeline_preset(KSERVE))}
    given = {"presets": presets, "services": [{"tls": tls, "service": service} for service in services]}
    done = subprocess.run([str(_merge_program())], input=json.dumps(given), capture_output=True, text=True, check=True)
    specs: list[Manifest] = json.loads(done.stdout)
    return specs


def count_pods(spec: Manifest) -> int:
    """Returns the number of pods that KServe makes of one replica: `ParallelismSpec.GetSize`."""
    if "worker" not in spec:
        return 1
    split = mapping(spec, "parallelism")
    if "data" in split:
        return int(str(split["data"])) // int(str(split.get("dataLocal", 1)))
    return int(str(split["pipeline"]))


def expand(part: str, variables: Mapping[str, str]) -> str:
    """Returns a part of a command as the kubelet passes it on: `$(NAME)` replaced, `$$` a dollar."""
    return re.sub(
        r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", lambda m: "$" if m[0] == "$$" else variables.get(m[1], m[0]), part
    )


@cache
def _merge_program() -> Path:
    return programs.path("kserve-merge")


def _strings(manifest: Manifest, path: str) -> list[str]:
    found = get(manifest, path)
    return [str(item) for item in found] if isinstance(found, list) else []
