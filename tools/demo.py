"""Kimi K2, a model of one terabyte, from the manifests of examples/ to the LLMInferenceService that serves it.

The real gRPC server runs as a process; a control plane in small calls it until nothing changes any more, with remote
clusters on which all goes well. First comes where the model goes and why it goes nowhere else, then every manifest.
Other manifests may be given as arguments (python -m tools.demo FILE...).
"""

import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub

from function.cli import files
from function.cli.asked import Form
from function.cli.candidates import Row, candidates
from function.cli.control_plane import ControlPlane, as_files
from function.cli.planning import look
from function.cli.render import composed
from function.cli.store import Ref, Store, is_known, namespaced
from function.cli.tables import structured
from function.kube.manifests import JSON, Manifest, condition, mapping, text
from tools.engine import Engine
from tools.world import World

EXAMPLES = Path(__file__).parent.parent / "examples"
STORY = "kimi-k2-two-nodes"
# Clusters of other stories, here all in production: each falls short of Kimi K2 in another way.
ELSEWHERE = ("deepseek-data-parallel", "kimi-k26-vram", "llama-405b-sglang", "two-environments")
PRODUCTION: Manifest = {"modelplane.ai/tier": "production"}
# What exists for an environment's own sake, and what comes of a wish to serve.
BASE = ("InferenceEnvironment",)
WISHES = ("ModelDeployment", "ModelPlacement", "ModelCache")
_SECONDS = 30


def main(arguments: list[str]) -> None:
    """Print the story."""
    manifests = [*read(arguments or [str(EXAMPLES / STORY)]), *elsewhere()]
    with server() as address, grpc.insecure_channel(address) as channel:
        stub = FunctionRunnerServiceStub(channel)
        plane = ControlPlane(Engine(lambda request: stub.RunFunction(request, timeout=_SECONDS)), World())
        plane.apply(manifests)
        plane.settle()
    store = plane.store
    for ref in store.refs("ModelDeployment"):
        tell(store, ref)
    for said, kinds in (("Every manifest that came of it", WISHES), ("For each environment, whatever runs", BASE)):
        heading(said)
        for place, manifest in sorted(composed(store, store.refs(*kinds)), key=lambda item: item[0]):
            print(f"---\n# {place}\n{structured(Form.YAML, _ordered(manifest))}")


def elsewhere() -> list[Manifest]:
    """Return environments of other stories, where Kimi K2 does not fit."""
    others = read(str(EXAMPLES / name / "environment.yaml") for name in ELSEWHERE)
    return [{**m, "metadata": {**mapping(m, "metadata"), "labels": PRODUCTION}} for m in others]


def read(paths: Iterable[str]) -> list[Manifest]:
    """Return what is known of in files."""
    return list(namespaced((found.manifest for found in files.read(paths) if is_known(found.manifest)), "default"))


def tell(store: Store, ref: Ref) -> None:
    """Say where a deployment goes, and why nowhere else."""
    scheduled = condition(store.get(ref), "Scheduled")
    heading(f"{ref}: {text(scheduled, 'reason')}")
    print(text(scheduled, "message") + "\n")
    considered = look(as_files(copy.deepcopy(store)), ref)
    if considered:
        print_table(candidates(considered))


def print_table(rows: Iterable[Row]) -> None:
    """Print candidates in columns, each as wide as it must be."""
    cells = [("ENVIRONMENT", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT")]
    cells += [(r.environment, r.pool or "-", r.replica or "-", r.wanted, r.found, str(r.verdict)) for r in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _ordered(manifest: Manifest) -> JSON:
    """Return a manifest with its keys in order, which maps of protobuf do not keep."""
    ordered: JSON = json.loads(json.dumps(manifest, sort_keys=True))
    return ordered


def heading(said: str) -> None:
    """Print a heading."""
    print(f"\n{said}\n{'=' * len(said)}\n")


@contextmanager
def server() -> Iterator[str]:
    """Run the function as it is installed, on a port that the system chooses, and return its address."""
    program = str(Path(sys.executable).with_name("function-modelplane"))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as output:
            command = (program, "--insecure", "--address", "127.0.0.1:0", "--metrics-address", "")
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield f"127.0.0.1:{_port(process, log)}"
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Return the port once the server says that it serves."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        serving = [line for line in log.read_text().splitlines() if '"serving"' in line and line.endswith("}")]
        if serving:
            return int(json.loads(serving[0])["port"])
        time.sleep(0.1)
    raise SystemExit(f"the function does not serve:\n{log.read_text()}")


if __name__ == "__main__":
    main(sys.argv[1:])
