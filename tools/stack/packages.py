"""Packages as users get them: built and pushed with the Crossplane CLI, to a registry on loopback.

Crossplane's libraries speak plain HTTP to a registry on a loopback address, so it needs no certificate. It
wants the address in figures: `localhost` is no fully qualified name to its package manager.
"""

import subprocess
from pathlib import Path

from tools import package_roots, programs
from tools.stack import layout
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

REGISTRY = f"127.0.0.1:{layout.REGISTRY}"


def serve(home: Home, processes: Processes) -> None:
    """Start the registry; it keeps what is pushed for as long as the stack runs."""
    command = (str(programs.path("crane")), "registry", "serve", f"--address={REGISTRY}")
    processes.start(Program(name="registry", argv=(*command, f"--disk={home.registry}")))
    until("the registry", lambda: listens(layout.REGISTRY))


def publish(home: Home, root: Path, reference: str, image: Path | None = None) -> None:
    """Build the package of a folder, around a runtime image if there is one, and push it."""
    target = _file(home, reference).with_suffix("")
    push(home, package_roots.write(root, target), reference, image)


def push(home: Home, root: Path, reference: str, image: Path | None = None) -> None:
    """Build the package of a package root, around a runtime image if there is one, and push it."""
    file = _file(home, reference)
    file.unlink(missing_ok=True)
    runtime = (f"--embed-runtime-image-tarball={image}",) if image else ()
    _crossplane("xpkg", "build", f"--package-root={root}", f"--package-file={file}", "--examples-root=none", *runtime)
    _crossplane("xpkg", "push", f"--package-files={file}", reference)


def _file(home: Home, reference: str) -> Path:
    return home.packages / f"{reference.rpartition('/')[2].replace(':', '-')}.xpkg"


def _crossplane(*arguments: str) -> None:
    done = subprocess.run((str(programs.path("crossplane")), *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildProcessError(f"crossplane {' '.join(arguments)}: {done.stderr.strip()}")
