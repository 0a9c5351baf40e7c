"""Measures programs as processes: the fastest of some runs, start included.

Aims: `--help` within 100 ms, `plan` over a thousand environments within 2 s, the server serves after 0.3 s.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from bench.fleet import DEPLOYMENT, FLEET, MODEL
from function.kube.manifests import Manifest, mapping

PROGRAM = str(Path(sys.executable).with_name("modelplane"))
LOCAL = "127.0.0.1:0"
# As it is installed: structlog reads rich where it finds it, which only the tools of development bring.
INSTALLED = "import sys; sys.modules['rich'] = None; from function.program import main; main()"
SERVER = (sys.executable, "-c", INSTALLED, "--insecure", f"--address={LOCAL}", f"--metrics-address={LOCAL}")
RUNS = 5


def fastest(*command: str) -> str:
    """Return the elapsed and the processor milliseconds of the fastest run."""
    runs: list[tuple[float, float]] = []
    for _ in range(RUNS):
        before, begun = os.times(), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)  # noqa: S603  # our own command
        elapsed, after = time.perf_counter() - begun, os.times()
        computed = after.children_user + after.children_system - before.children_user - before.children_system
        runs.append((1000 * elapsed, 1000 * computed))
    elapsed, computed = min(runs)
    return f"{elapsed:6.0f} ms elapsed {computed:6.0f} ms of processor"


def serving() -> str:
    """Return the milliseconds of the fastest start of the server, until it says that it serves."""
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        with subprocess.Popen(SERVER, stdout=subprocess.PIPE) as process:  # noqa: S603  # our own command
            assert process.stdout is not None
            while b'"serving"' not in process.stdout.readline():
                assert process.poll() is None
            times.append(1000 * (time.perf_counter() - begun))
            process.terminate()
    return f"{min(times):6.0f} ms elapsed"


def fleet(manifests: Sequence[Manifest]) -> str:
    """Return the manifests as a file of YAML, as people write them: without statuses and identities."""
    written = []
    for manifest in manifests:
        metadata = {key: value for key, value in mapping(manifest, "metadata").items() if key != "uid"}
        written.append({**{key: manifest[key] for key in manifest if key != "status"}, "metadata": metadata})
    return yaml.dump_all(written, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def main() -> None:
    """Measure and print."""
    environments = FLEET["InferenceEnvironment"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.yaml"
        file.write_text(fleet([MODEL, DEPLOYMENT, *environments]))
        click.echo(f"{'python -c pass':<28}{fastest(sys.executable, '-c', 'pass')}")
        click.echo(f"{'function-modelplane':<28}{serving()}")
        click.echo(f"{'modelplane --help':<28}{fastest(PROGRAM, '--help')}")
        what = f"plan, {len(environments)} environments"
        click.echo(f"{what:<28}{fastest(PROGRAM, 'plan', '-f', str(file))}")


if __name__ == "__main__":
    main()
