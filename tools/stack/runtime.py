"""The function as a process: from the image that its package carries, or from a source tree that has none.

The image is taken back out of the registry, so what runs is what was pushed: in a root of its own that cannot be
written to, as the user that the image names, with the certificates where Crossplane's runtime puts them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import programs
from tools.stack import layout
from tools.stack.layout import Home
from tools.stack.processes import Program

NAME = "function-modelplane"
_TLS = "tls/server"
# In a mount namespace of its own, with the two folders that every container is given; $0 is the root.
_CONFINED = (
    'mount --bind "$0" "$0" && mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc"'
    ' && mount -o remount,bind,ro,nosuid,nodev "$0" && exec "$@"'
)


def from_source(home: Home, source: Path) -> Program:
    """Install the wheel of a source tree beside the dependencies of this environment."""
    target = home.packages / f"function-{source.name}"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    how = ("--no-deps", "--no-build-isolation", "--no-index", "--upgrade", f"--target={target}")
    environment = os.environ | {"PIP_CACHE_DIR": str(home.packages / "pip")}
    subprocess.run((*pip, *how, str(source)), check=True, env=environment)
    command = (str(target / "bin" / NAME), _address(), f"--tls-server-certs-dir={home.server_tls}")
    return Program(name=NAME, argv=command, env={"PYTHONPATH": str(target), **_metrics()})


def from_package(home: Home, reference: str) -> Program:
    """Unpack the image that a package in the registry carries; the two layers of its own come along unread."""
    crane = str(programs.path("crane"))
    image = json.loads(subprocess.run((crane, "config", reference), check=True, capture_output=True).stdout)["config"]
    root = home.root / "function"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("dev", "proc"):
        (root / folder).mkdir(parents=True)
    files = home.packages / "function.tar"
    subprocess.run((crane, "export", reference, str(files)), check=True, capture_output=True)
    subprocess.run(("tar", "--extract", f"--directory={root}", f"--file={files}"), check=True)
    certificates = root / _TLS
    shutil.copytree(home.server_tls, certificates)
    for file in certificates.iterdir():
        file.chmod(0o644)  # as in a volume from a Secret
    confined = ("unshare", "--mount", "sh", "-c", _CONFINED, str(root))
    command = (*image["Entrypoint"], _address(), f"--tls-server-certs-dir=/{_TLS}")
    given = (*image["Env"], *(f"{key}={value}" for key, value in _metrics().items()))
    return Program(name=NAME, argv=(*confined, "env", "-i", *given, *_as(image["User"], root), *command))


def _as(user: str, root: Path) -> tuple[str, ...]:
    """Return what to put before a command so that it runs in a root as a user ("uid:gid").

    An ordinary user has only its own id in the stack's namespace, and can only map that one.
    """
    if int(Path("/proc/self/uid_map").read_text().split()[2]) > 1:
        # Only on root's PATH, and not on that of every root.
        chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        return (str(chroot), f"--userspec={user}", str(root))
    uid, gid = user.split(":")
    return (str(shutil.which("unshare")), "--user", f"--map-user={uid}", f"--map-group={gid}", f"--root={root}")


def _metrics() -> dict[str, str]:
    """Return where metrics are; by variable, as a release before them has no such option."""
    return {"METRICS_ADDRESS": f"127.0.0.1:{layout.FUNCTION_METRICS}"}


def _address() -> str:
    return f"--address=127.0.0.1:{layout.FUNCTION}"
