"""The command line as users run it: a process of its own, on files or against an API server on loopback."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from function.kube.manifests import Manifest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KIMI = "examples/kimi-k2-two-nodes"
# Where Kimi K2 does not fit, each for another reason.
ELSEWHERE = ("-f", "examples/two-environments/environment.yaml", "-f", "examples/kimi-k26-vram/environment.yaml")
# Nothing of the tester's own control planes, tokens or colours.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent/config"}


def run(
    *arguments: str, stdin: str = "", program: str = "modelplane", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        (str(Path(sys.executable).with_name(program)), *arguments),
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**ENVIRONMENT, **variables},
        input=stdin,
        text=True,
        timeout=120,
    )


def said(*arguments: str, **variables: str) -> str:
    """Run a command that succeeds and return what it wrote."""
    done = run(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(folder: Path, *manifests: Manifest) -> str:
    """Write manifests to a file of their own and return its name."""
    file = folder / f"{len(list(folder.iterdir()))}.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return str(file)


def cells(table: str) -> list[list[str]]:
    """Return the rows of a table without its header; columns are two spaces apart or more."""
    lines = table.partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[1:]]
