"""Engines behind the addresses of fake pods of both GPU clusters: each answers as the pod whose address was called.

A pod that is deleted gracefully takes requests until the pause of its `preStop` has passed, and finishes what it has
begun, as the kubelet has it. One that is deleted without grace, as when its node is lost, ends its connections at once.
Runs as a process of its own: `python -m tools.stack.pods HOME`.
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from function.kube.manifests import Manifest, get, integer, listing, mapping, text
from tools.stack import layout
from tools.stack.api import Api
from tools.stack.layout import EAST, WESTERN, Home
from tools.stack.processes import Program

NAME = "pods"
_WATCH_SECONDS, _RETRY_SECONDS = 300, 0.5
# Go's proxy cuts some streams whose answer begins before their request was sent (golang/go#40747).
_THINK_SECONDS = 0.02
_EVENT_SECONDS = 0.25


def program(home: Home) -> Program:
    """Return the engines of a stack."""
    return Program(name=NAME, argv=(sys.executable, "-m", "tools.stack.pods", str(home.root)))


@dataclass(slots=True)
class _Pod:
    cluster: str
    name: str
    uid: str
    ends: float | None = None  # when it takes no request any more; None: it runs
    connections: set[asyncio.StreamWriter] = field(default_factory=set)

    def runs(self) -> bool:
        return self.ends is None or time.time() < self.ends


@dataclass(slots=True)
class Engines:
    """The pods that have an address."""

    by_address: dict[str, _Pod] = field(default_factory=dict)

    def note(self, cluster: str, kind: str, pod: Manifest) -> None:
        """Note what became of a pod."""
        address, uid = text(pod, "status.podIP"), text(pod, "metadata.uid")
        if not address or get(pod, "spec.hostNetwork"):
            return
        known = self.by_address.get(address)
        if known is None or known.uid != uid:
            if kind == "DELETED":
                return
            known = self.by_address[address] = _Pod(cluster, text(pod, "metadata.name"), uid)
        if known.ends is None and text(pod, "metadata.deletionTimestamp"):
            graceful = integer(pod, "metadata.deletionGracePeriodSeconds") > 0
            known.ends = time.time() + (_pause(pod) if graceful else 0)
        elif kind == "DELETED" and known.ends is None:
            known.ends = time.time()
        if not known.runs():
            for connection in known.connections:
                connection.transport.abort()

    def keep(self, cluster: str, uids: set[str]) -> None:
        """Forget pods that went while nothing was heard of them."""
        for pod in self.by_address.values():
            if pod.cluster == cluster and pod.uid not in uids and pod.ends is None:
                pod.ends = time.time()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        address = writer.get_extra_info("sockname")[0]
        pod = self.by_address.get(address)
        if pod is None or not pod.runs():
            writer.transport.abort()
            return
        pod.connections.add(writer)
        try:
            async for path, body in _requests(reader):
                # kwok deletes a pod at once and gives its address to the next one, long before the pause has passed.
                pod.connections.discard(writer)
                pod = self.by_address[address]
                pod.connections.add(writer)
                if not pod.runs():
                    break
                await asyncio.sleep(_THINK_SECONDS)
                await _answer(writer, pod, path, body)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            pod.connections.discard(writer)
            writer.close()


async def _requests(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, Manifest]]:
    while line := await reader.readline():
        path = line.split()[1].decode()
        length = 0
        while (header := await reader.readline()).strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        yield path, json.loads(await reader.readexactly(length)) if length else {}


async def _answer(writer: asyncio.StreamWriter, pod: _Pod, path: str, body: Manifest) -> None:
    said = json.dumps({"cluster": pod.cluster, "pod": pod.name, "path": path, "model": text(body, "model")}).encode()
    status = b"200 OK" if path.startswith("/v1/") else b"404 Not Found"
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n"
    if not get(body, "stream"):
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(said) + said)
        await writer.drain()
        return
    writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
    ends = time.monotonic() + integer(body, "seconds")
    while time.monotonic() < ends:
        await _chunk(writer, b"data: " + said + b"\n\n")
        await asyncio.sleep(_EVENT_SECONDS)
    await _chunk(writer, b"data: [DONE]\n\n")
    await _chunk(writer, b"")


async def _chunk(writer: asyncio.StreamWriter, part: bytes) -> None:
    writer.write(b"%x\r\n" % len(part) + part + b"\r\n")
    await writer.drain()


def _pause(pod: Manifest) -> int:
    """Return the seconds of the sleep before a pod's engine ends."""
    main = next((c for c in listing(pod, "spec.containers") if c["name"] == "main"), {})
    command = get(mapping(main, "lifecycle"), "preStop.exec.command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    return next((int(word) for word in words if word.isdigit()), 0)


def _follow(api: Api, cluster: str, engines: Engines, loop: asyncio.AbstractEventLoop) -> None:
    """Follow the pods of a cluster until the process ends; while its API server is away, they go on."""
    while True:
        try:
            found = {text(pod, "metadata.uid") for pod in api.find("Pod")}
            loop.call_soon_threadsafe(engines.keep, cluster, found)
            with contextlib.closing(api.watch("Pod", "", _WATCH_SECONDS)) as events:
                for kind, pod in events:
                    loop.call_soon_threadsafe(engines.note, cluster, kind, pod)
        except Exception as error:  # noqa: BLE001  # whatever a broken connection raises
            print(cluster, repr(error), flush=True)
            time.sleep(_RETRY_SECONDS)


async def _run(home: Home) -> None:
    engines, loop = Engines(), asyncio.get_running_loop()
    for cluster in (EAST.name, WESTERN.name):
        threading.Thread(target=_follow, args=(Api(home, cluster), cluster, engines, loop), daemon=True).start()
    server = await asyncio.start_server(engines.serve, "0.0.0.0", layout.ENGINE, backlog=1024)  # noqa: S104  # in the namespace
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_run(Home(Path(sys.argv[1]))))
