"""Containers as processes: a root of their own over this machine's files, their mounts, their user and their rights.

A container is the first process in a namespace of process ids, as in a cluster: it dies of no signal that it does not
handle except SIGKILL, and all that it started dies with it. The shell script that starts it is kept beside its log.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import Manifest, flag, get, integer, list_texts, text
from tools.programs import CACHE
from tools.stack.kubelet.images import Image
from tools.stack.kubelet.sandbox import LEASHED
from tools.stack.kubelet.variables import expand
from tools.stack.kubelet.volumes import Mount

_DEVICES = ("null", "zero", "full", "random", "urandom")
_SECONDS = 20
_MESSAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """All that decides how a container starts."""

    container: Manifest
    pod: Manifest
    image: Image
    variables: Mapping[str, str]
    mounts: Sequence[Mount]
    hosts: Path  # the file of names
    folder: Path  # of this container alone
    log: Path


class Running:
    """A container that was started."""

    def __init__(self, process: "subprocess.Popen[bytes]", pid: int, message: Path) -> None:
        self._process, self._pid, self._message = process, pid, message
        self.started = time.time()

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def message(self, log: Path, *, falls_back: bool) -> str:
        """Returns what it left as its termination message, or the end of its log."""
        said = self._message.read_text(errors="replace")
        if not said and falls_back and self.exit_code() and log.exists():
            said = log.read_text(errors="replace")[-2048:]
        return said[-_MESSAGE_BYTES:]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to its first process."""
        if self.exit_code() is None:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:  # it ended in between
                return

    def execute(self, command: Sequence[str], seconds: float) -> None:
        """Runs a command in it, for so many seconds at most; whatever it says is ignored, as the kubelet does."""
        entering = ("nsenter", "--target", str(self._pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root")
        try:
            subprocess.run((*entering, *command), timeout=max(seconds, 0.1), check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        """Ends it at once and waits until it is gone."""
        self.signal(signal.SIGKILL)
        self._process.wait(_SECONDS)


def start_container(start: Start, sandbox: int) -> Running:
    """Starts a container in the sandbox that a process holds."""
    pid, message = start.folder / "pid", start.folder / "termination-log"
    start.folder.mkdir(parents=True, exist_ok=True)
    pid.unlink(missing_ok=True)
    message.write_text("")
    message.chmod(0o666)
    script = start.folder / "start.sh"
    script.write_text("\n".join(("set -e", *_write_script(start, pid, message), "")))
    entering = ("nsenter", "--target", str(sandbox), "--net", "--uts", "--ipc")
    own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", str(script))
    with start.log.open("ab") as log:
        process = subprocess.Popen(
            (*LEASHED, *entering, *own), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    return Running(process, _read_pid(process, pid), message)


def _read_pid(process: "subprocess.Popen[bytes]", path: Path) -> int:
    """Returns the id of the first process; that of its parent if it ended before it wrote its own."""
    end = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < end:
        if path.exists() and (written := path.read_text().strip()):
            return int(written)
        time.sleep(0.02)
    return process.pid


def _write_script(start: Start, pid: Path, message: Path) -> Iterator[str]:
    """Yields the lines that make the root and become the container."""
    top = start.folder / "root"
    root = top / "root"
    yield f"read -r pid rest < /proc/self/stat; echo $pid > {pid}"  # /proc still is that of the machine
    yield f"mkdir -p {top} && mount -t tmpfs tmpfs {top} && mkdir {top}/upper {top}/work {root}"
    yield f"mount -t overlay overlay -o lowerdir=/,upperdir={top}/upper,workdir={top}/work {root}"
    yield f"mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys"
    yield f"mount -t tmpfs -o mode=755 tmpfs {root}/dev && mkdir -m 1777 {root}/dev/shm"  # noqa: S108  # of the container
    yield f"ln -s /proc/self/fd {root}/dev/fd && ln -s /proc/self/fd/1 {root}/dev/stdout"
    yield f"ln -s /proc/self/fd/2 {root}/dev/stderr"
    for device in _DEVICES:
        yield f"touch {root}/dev/{device} && mount --bind /dev/{device} {root}/dev/{device}"
    # The programs may be below a home that only its owner enters.
    for folder in {*CACHE.parents, *Path(sys.base_prefix).parents}:
        yield f"chmod o+x {root}{folder}"
    yield f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp && chmod 1777 {root}/mnt && mkdir -p {root}{start.image.home}"  # noqa: S108  # likewise
    yield f"chown {start.image.user} {root}{start.image.home}"
    if start.image.files:
        yield f"cp -a {start.image.files}/. {root}/"
    files = (Mount(source=start.hosts, target="/etc/hosts"), Mount(source=message, target="/dev/termination-log"))
    for mount in (*files, *start.mounts):
        yield from _mount(mount, f"{root}{mount.target}")
    words = ("exec", "chroot", str(root), *_list_rights(start), *_list_command(start))
    yield shlex.join(words)


def _mount(mount: Mount, target: str) -> Iterator[str]:
    quoted = shlex.quote(target)
    if mount.source is None:
        yield f"mkdir -p {quoted} && mount -t tmpfs -o mode=1777 tmpfs {quoted}"
        return
    make = f"mkdir -p {quoted}" if mount.source.is_dir() else f"touch {quoted}"
    yield f"{make} && mount --bind {shlex.quote(str(mount.source))} {quoted}"
    if mount.read_only:
        yield f"mount -o remount,bind,ro {quoted}"


def _list_rights(start: Start) -> tuple[str, ...]:
    """Returns what makes a process the container's user with its capabilities; the machine's default is root with all.

    Raises:
        PermissionError: The container must not run as root and its user is root.
    """
    own, pod = (get(part, "securityContext") for part in (start.container, get(start.pod, "spec")))
    user = integer(own, "runAsUser", integer(pod, "runAsUser", start.image.user))
    group = integer(own, "runAsGroup", integer(pod, "runAsGroup", user))
    if user == 0 and (flag(own, "runAsNonRoot") or (get(own, "runAsNonRoot") is None and flag(pod, "runAsNonRoot"))):
        raise PermissionError("container has runAsNonRoot and image will run as root")
    groups = {group, integer(pod, "fsGroup", group)}
    rights = [f"--reuid={user}", f"--regid={group}", f"--groups={','.join(map(str, sorted(groups)))}"]
    if "ALL" in list_texts(own, "capabilities.drop"):
        added = [f"+{name.lower()}" for name in list_texts(own, "capabilities.add")]
        rights += [f"--bounding-set={','.join(('-all', *added))}", "--inh-caps=-all"]
    if get(own, "allowPrivilegeEscalation") is False:
        rights.append("--no-new-privs")
    return ("/usr/bin/setpriv", *rights)


def _list_command(start: Start) -> tuple[str, ...]:
    """Returns the command with exactly the container's variables."""
    command, args = list_texts(start.container, "command"), list_texts(start.container, "args")
    words = [expand(word, start.variables) for word in (*(command or start.image.entry_point), *args)]
    directory = text(start.container, "workingDir") or "/"
    variables = (f"{name}={value}" for name, value in start.variables.items())
    return ("env", "--ignore-environment", f"--chdir={directory}", *variables, *words)
