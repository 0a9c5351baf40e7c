"""kubectl, as a user calls it, with the identity of one of our kubeconfigs."""

import subprocess

import yaml

from function.kube.manifests import Manifest
from tools import programs
from tools.stack.layout import Home
from tools.stack.waiting import until


class Kubectl:
    """kubectl against one API server."""

    def __init__(self, home: Home, identity: str) -> None:
        self._command = (str(programs.path("kubectl")), "--kubeconfig", str(home.kubeconfig(identity)))

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run it and return what it prints; what it says on failure is in the exception."""
        done = subprocess.run((*self._command, *arguments), input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ChildProcessError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifests: list[Manifest], *, server_side: bool = False) -> None:
        """Apply a stream of manifests, server-side where they are too large for an annotation."""
        how = ("--server-side", "--force-conflicts") if server_side else ()
        self("apply", *how, "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def established(self, *what: str) -> None:
        """Wait until definitions are established; one made a moment ago has no conditions, which kubectl fails on."""

        def probe() -> bool:
            self("wait", "--for=condition=Established", *what, "--timeout=60s")
            return True

        until(f"{what[0]} to be established", probe, seconds=120)
