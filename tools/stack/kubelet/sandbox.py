"""The sandbox of a pod: a process that holds its network, host name and shared memory, as the pause container does.

All pods are on one bridge in the stack's own network namespace, so that probes and the gateway reach them as on a
cluster. The addresses do not overlap with those that kwok gives to its pods.
"""

import subprocess
import time
from pathlib import Path

BRIDGE, NODE_ADDRESS, _PREFIX, _FIRST = "pods0", "10.244.0.1", 16, 10
# The kernel ends a process with this before it when the thread that started it ends.
LEASHED = ("setpriv", "--pdeathsig", "KILL")
_SCRIPT = 'echo "$0" > /proc/sys/kernel/hostname && ip link set lo up && exec sleep infinity'
_SECONDS = 10


def build_bridge() -> None:
    """Builds the network of the pods, where it is not there yet."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "add", "name", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{NODE_ADDRESS}/{_PREFIX}", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")


def address_of(number: int) -> str:
    """Returns the address of the pod that was started as this one."""
    high, low = divmod(_FIRST + number, 250)
    return f"10.244.{high}.{low + 1}"


def open_sandbox(hostname: str, number: int) -> "subprocess.Popen[bytes]":
    """Returns the process that holds a new sandbox, with an interface `eth0` that has the pod's address."""
    command = (*LEASHED, "unshare", "--net", "--uts", "--ipc", "sh", "-c", _SCRIPT, hostname)
    holder = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _wait_for_namespace(holder)
        outside = f"pod{number}"
        _ip("link", "add", "name", outside, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip("link", "set", outside, "master", BRIDGE, "up")
        inside = ("nsenter", "--target", str(holder.pid), "--net", "ip")
        for arguments in (
            ("address", "add", f"{address_of(number)}/{_PREFIX}", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", NODE_ADDRESS),
        ):
            subprocess.run((*inside, *arguments), check=True)
    except BaseException:
        holder.kill()
        holder.wait()
        raise
    return holder


def _wait_for_namespace(holder: "subprocess.Popen[bytes]") -> None:
    own, its = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{holder.pid}/ns/net")
    end = time.monotonic() + _SECONDS
    while its.readlink() == own:
        if time.monotonic() > end:
            raise TimeoutError("a pod's sandbox has no network")
        time.sleep(0.02)


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True)
