"""No server outlives the tests that started it, also where they end without a word: at Ctrl-C xdist's workers do."""

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.server.processes import ENVIRONMENT

KILLED = """
import os, pathlib, signal, sys
from tests.server.processes import started
with started(pathlib.Path(sys.argv[1]), "--insecure") as running:
    print(running.address, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_server_ends_with_killed_tests(tmp_path: Path) -> None:
    command = (sys.executable, "-c", KILLED, str(tmp_path))
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    host, port = done.stdout.split(":")
    deadline = time.monotonic() + 30
    while _listens(host, int(port)):
        assert time.monotonic() < deadline, f"{done.stdout} is still served"
        time.sleep(0.05)


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
