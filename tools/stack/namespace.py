"""A network namespace of its own for the whole stack, with nothing but a loopback device.

It confines the programs that cannot be configured to listen on 127.0.0.1, lets a stack use the usual ports beside
any other, and proves that nothing needs a network. A sleeping process holds it open; it is recorded and
ended like the others.
"""

import os
import time
from pathlib import Path

from tools.stack.layout import Home
from tools.stack.processes import Processes, Program

HOLDER = "network"
# User namespaces let an ordinary user do what root may; root needs none.
OPENING = ("unshare", *(() if os.geteuid() == 0 else ("--map-root-user",)), "--net")


def holder(home: Home, processes: Processes) -> int:
    """Open the namespace where it is not open yet, and return the process that holds it."""
    known = {r.program.name: r for r in processes.records() if r.runs()}
    if HOLDER not in known:
        script = f'ip link set lo up && touch "{home.root}/network" && exec sleep infinity'
        processes.start(Program(name=HOLDER, argv=(*OPENING, "sh", "-c", script)))
        if not _comes(home.root / "network"):
            said = processes.tail(HOLDER)
            processes.stop_all()
            wants = "unshare(1) with root or user namespaces, and ip(8) (packages util-linux and iproute2)"
            raise ChildProcessError(f"no network namespace, which takes {wants}: {said}")
        known = {r.program.name: r for r in processes.records()}
    return known[HOLDER].pid


def inside(pid: int) -> tuple[str, ...]:
    """Return what to put before a command so that it runs inside the namespace."""
    who = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    return ("nsenter", "--target", str(pid), *who, "--net")


def _comes(path: Path) -> bool:
    for _ in range(100):
        if path.exists():
            return True
        time.sleep(0.05)
    return False
