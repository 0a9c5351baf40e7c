"""Kimi K2, a model of one terabyte, from the manifests of examples/ to the LLMInferenceService that serves it.

The real gRPC server runs as a process; a control plane in small calls it until nothing changes any more, with remote
clusters on which all goes well. First comes where the model goes and why it goes nowhere else, then the service and the
names of all manifests; --full writes them whole. Other manifests may be given as arguments (-m tools.demo FILE...).
"""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import click
import grpc
from crossplane.function.proto.v1.run_function_pb2_grpc import FunctionRunnerServiceStub

from function.cli.gpus import list_usages
from function.cli.inputs import Inventory, read_files
from function.cli.options import Form
from function.cli.pictures import draw_world
from function.cli.planning import Plan, Row, plan_deployments
from function.cli.render import Place, list_composed
from function.cli.store import Ref, Store, is_known, set_namespace
from function.cli.tables import format_data
from function.cli.validation import Item
from function.kube.manifests import JSON, Manifest, condition, listing, mapping, text
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World as RemoteClusters

EXAMPLES = Path(__file__).parent.parent / "examples"
STORY = "kimi-k2-two-nodes"
# Clusters of other stories, here all in production: each falls short of Kimi K2 in another way.
ELSEWHERE = ("deepseek-data-parallel", "kimi-k26-vram", "llama-405b-sglang", "two-environments")
PRODUCTION: Manifest = {"modelplane.ai/tier": "production"}
# What the platform team declares, and what users request.
BASE = ("InferenceEnvironment",)
REQUESTED = ("ModelDeployment", "ModelPlacement", "ModelCache")
PICTURE = Path(__file__).parent.parent / "build" / "demo.svg"
_SECONDS = 30
_WIDTH = 118


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--full", is_flag=True, help="Every manifest, whole.")
@click.option("--picture", type=click.Path(path_type=Path), default=PICTURE, help="Where to draw it.")
def main(paths: tuple[str, ...], *, full: bool, picture: Path) -> None:
    """Print the story."""
    manifests = [*read(paths or [str(EXAMPLES / STORY)]), *elsewhere()]
    with server() as address, grpc.insecure_channel(address) as channel:
        stub = FunctionRunnerServiceStub(channel)
        plane = ControlPlane(Engine(lambda request: stub.RunFunction(request, timeout=_SECONDS)), RemoteClusters())
        plane.apply(manifests)
        plane.settle()
    store = plane.store
    plans = plan(manifests, store)
    for decided in plans:
        tell(store, decided)
    found = list_composed(store, store.refs(*BASE, *REQUESTED))
    if full:
        for place, manifest in found.items():
            print(f"---\n# {place}\n{format_data(Form.YAML, _ordered(manifest))}")
        return
    draw_to(picture, plans)
    tell_service(found)
    tell_names(found)
    given = "".join(f" {path}" for path in paths)
    print(f"\nAll objects in full: .venv/bin/python -m tools.demo{given} --full")


def elsewhere() -> list[Manifest]:
    """Return environments of other stories, where Kimi K2 does not fit."""
    others = read(str(EXAMPLES / name / "environment.yaml") for name in ELSEWHERE)
    return [{**m, "metadata": {**mapping(m, "metadata"), "labels": PRODUCTION}} for m in others]


def read(paths: Iterable[str]) -> list[Manifest]:
    """Return what is known of in files."""
    manifests = (item.manifest for item in read_files([*paths]) if isinstance(item, Item))
    return [set_namespace(manifest, "default") for manifest in manifests if is_known(manifest)]


def plan(manifests: Iterable[Manifest], store: Store) -> list[Plan]:
    """Plan all deployments from their manifests, with environments as ready as they are on the control plane."""
    ready: dict[Ref, Manifest] = {
        ref: {"conditions": [*listing(store[ref], "status.conditions")]} for ref in store.refs(*BASE)
    }
    world = Inventory(Store({**m, "status": ready[Ref.of(m)]} if Ref.of(m) in ready else m for m in manifests), "")
    return [*plan_deployments(world, world.list_deployments()).values()]


def tell(store: Store, decided: Plan) -> None:
    """Print where the controller places a deployment, and why nowhere else."""
    scheduled = condition(store.get(decided.ref), "Scheduled")
    heading(f"{decided.ref}: {text(scheduled, 'reason')}")
    print(f"\n{text(scheduled, 'message')}\n")
    if decided.rows:
        print_table(decided.rows)


def print_table(rows: Iterable[Row]) -> None:
    """Print candidates in columns, each as wide as it must be."""
    cells = [("ENVIRONMENT", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT")]
    cells += [(r.environment, r.pool or "-", r.replica or "-", r.required, r.available, str(r.verdict)) for r in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def draw_to(file: Path, plans: Sequence[Plan]) -> None:
    """Draw the clusters with what is placed there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(draw_world(list_usages(plans[0].store), plans))
    print(f"\nAs a picture: {os.path.relpath(file)}")


def tell_service(found: Mapping[Place, Manifest]) -> None:
    """Print what serves, as far as it differs from model to model."""
    services = [(p, m) for p, m in found.items() if p.ref.kind == "LLMInferenceService"]
    for place, service in services[:1]:
        heading(f"{place} (abridged)")
        spec = mapping(service, "spec")
        short: Manifest = {key: _pairs(mapping(spec, key)) for key in ("model", "parallelism")}
        for role in ("template", "worker"):
            serving = next(iter(listing(spec, f"{role}.containers")), {})
            if serving:
                nodes, gpus = mapping(spec, f"{role}.nodeSelector"), mapping(serving, "resources.limits")
                short[role] = f"{text(serving, 'image')}, {_pairs(gpus)}, on nodes with {_pairs(nodes)}"
        print(format_data(Form.YAML, short))


def _pairs(values: Manifest) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(values.items()))


def tell_names(found: Mapping[Place, Manifest]) -> None:
    """Print every manifest by cluster and kind."""
    heading(f"{len(found)} manifests came of it")
    for (where, kind, namespace), places in groupby(found, key=lambda p: (p.environment, p.ref.kind, p.ref.namespace)):
        names = ", ".join(place.ref.name for place in places)
        line = f"{where or 'control plane'}: {kind} {f'in {namespace}: ' if namespace else ''}{names}"
        print(textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_on_hyphens=False))


def _ordered(manifest: Manifest) -> JSON:
    """Return a manifest with its keys in order, which maps of protobuf do not keep."""
    ordered: JSON = json.loads(json.dumps(manifest, sort_keys=True))
    return ordered


def heading(said: str) -> None:
    """Print a heading."""
    print(f"\n{said}\n{'=' * len(said)}")


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
    main()
