"""Checks what a stack needs of the machine, before anything is installed or built.

`python -m tools.stack.needs` uses only Python's own library. It exits with one sentence where something is
missing; with `free` also where a stack is running.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.stack.layout import Home
from tools.stack.namespace import OPENING
from tools.stack.processes import Processes

KEPT = Path(tempfile.gettempdir()) / "function-modelplane-stack"
# The programs that are run as they are, by a stack or its scenarios, and Debian's packages that have them.
PROGRAMS = {
    "apt-get": "apt",
    "curl": "curl",
    "dpkg": "dpkg",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "tar": "tar",
    "unshare": "util-linux",
}


def missing() -> str:
    """Return one sentence with all that is missing, or nothing."""
    absent = [f"{name} (package {package})" for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if shutil.which("unshare") is not None:
        tried = subprocess.run((*OPENING, "true"), capture_output=True, text=True, check=False)
        if tried.returncode:
            absent.append(f"a network namespace, which takes root or user namespaces ({tried.stderr.strip()})")
    return f"the stack needs what is missing here: {', '.join(absent)}" if absent else ""


def kept() -> str:
    """Return a sentence where a stack is kept, or nothing."""
    home = Home(KEPT)
    return (
        f"a stack already runs in {home.root}: make e2e-shell uses it, make e2e-down ends it"
        if home.records.exists() and Processes(home).records()
        else ""
    )


if __name__ == "__main__":
    sys.exit(missing() or ("free" in sys.argv and kept()) or None)
