"""Simulated engines with prefix caches, one behind each address of a fake pod: what an endpoint picker chooses among.

As vLLM does, an engine keeps the beginnings of prompts in blocks of tokens, forgets the block that was used longest
ago, and reports how many tokens of a prompt it had cached. A token is four bytes. A request takes time for each token
that is not cached, and for each token of the answer; an engine works on a few requests at once, and others wait.
Runs as a process of its own: `python -m tools.stack.engines HOME`.
"""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from function.kube.manifests import JSON, Manifest, flag, integer, listing, text
from tools.stack import layout
from tools.stack.layout import Home
from tools.stack.processes import Program

NAME = "engines"
TOKEN_BYTES, BLOCK_TOKENS = 4, 16
CACHED_BLOCKS = 512  # of an engine: 8192 tokens
_AT_ONCE = 4  # requests
_PREFILL_SECONDS, _TOKEN_SECONDS = 0.00005, 0.002  # for each token
_TOKENS = 8  # of an answer, unless the request says how many
_INFERENCE = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
_BLOCK_BYTES = TOKEN_BYTES * BLOCK_TOKENS


def program(home: Home) -> Program:
    """Return the engines of a stack."""
    return Program(name=NAME, argv=(sys.executable, "-m", "tools.stack.engines", str(home.root)))


@dataclass(slots=True)
class PrefixCache:
    """The blocks that an engine keeps, by the hash of the prompt up to their end; the last one used comes last."""

    capacity: int = CACHED_BLOCKS
    _blocks: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    def use(self, prompt: bytes) -> int:
        """Keeps the full blocks of a prompt, and returns how many tokens at its beginning were there already."""
        found, is_known = 0, True
        for block in _hash_blocks(prompt):
            is_known = is_known and block in self._blocks
            found += is_known
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self.capacity:
            self._blocks.popitem(last=False)
        return found * BLOCK_TOKENS


def _hash_blocks(prompt: bytes) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for end in range(_BLOCK_BYTES, len(prompt) + 1, _BLOCK_BYTES):
        digest.update(prompt[end - _BLOCK_BYTES : end])
        yield digest.digest()


@dataclass(slots=True)
class Engine:
    """One engine, which answers every model alike."""

    address: str
    cache: PrefixCache = field(default_factory=PrefixCache)
    running: int = 0
    waiting: int = 0
    queried_tokens: int = 0
    cached_tokens: int = 0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def format_metrics(self) -> str:
        """Returns the metrics that an endpoint picker reads, with the names of vLLM."""
        values = {
            ("num_requests_running", "gauge"): self.running,
            ("num_requests_waiting", "gauge"): self.waiting,
            ("kv_cache_usage_perc", "gauge"): min(1.0, (self.running + self.waiting) / (4 * _AT_ONCE)),
            ("prefix_cache_queries_total", "counter"): self.queried_tokens,
            ("prefix_cache_hits_total", "counter"): self.cached_tokens,
        }
        lines = [
            f'# TYPE vllm:{name} {kind}\nvllm:{name}{{model_name="any"}} {value}\n'
            for (name, kind), value in values.items()
        ]
        labels = f'block_size="{BLOCK_TOKENS}",num_gpu_blocks="{self.cache.capacity}"'
        return "".join(lines) + f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{labels}}} 1\n"

    async def complete(self, request: Manifest) -> AsyncIterator[Manifest]:
        """Yields a part for each token, and at last the usage."""
        prompt = read_prompt(request)
        tokens, wanted = len(prompt) // TOKEN_BYTES, integer(request, "max_tokens", _TOKENS)
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            cached = self.cache.use(prompt)
            self.queried_tokens += tokens
            self.cached_tokens += cached
            await asyncio.sleep((tokens - cached) * _PREFILL_SECONDS)
            for _ in range(wanted):
                await asyncio.sleep(_TOKEN_SECONDS)
                yield {"choices": [{"index": 0, "text": "x"}]}
        finally:
            self.running -= 1
            self._slots.release()
        usage: Manifest = {
            "prompt_tokens": tokens,
            "completion_tokens": wanted,
            "total_tokens": tokens + wanted,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        yield {"usage": usage, "choices": []}


def read_prompt(request: Manifest) -> bytes:
    """Returns the text of a request that the engine would turn into tokens."""
    if messages := listing(request, "messages"):
        return "".join(f"<{text(each, 'role')}>{text(each, 'content')}" for each in messages).encode()
    return text(request, "prompt").encode()


async def serve(engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the requests of one connection."""
    try:
        while line := await reader.readline():
            path = line.split()[1].decode().partition("?")[0]
            body = await _read_body(reader)
            if path in _INFERENCE:
                await _answer(engine, json.loads(body), writer)
            elif path == "/metrics":
                _write(writer, engine.format_metrics().encode(), "text/plain; version=0.0.4")
            else:
                _write(writer, json.dumps({"engine": engine.address, "path": path}).encode())
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _answer(engine: Engine, request: Manifest, writer: asyncio.StreamWriter) -> None:
    base: Manifest = {"engine": engine.address, "model": text(request, "model")}
    if not flag(request, "stream"):
        parts = [part async for part in engine.complete(request)]
        choices: list[JSON] = [{"index": 0, "text": "x" * (len(parts) - 1)}]
        _write(writer, json.dumps({**base, **parts[-1], "choices": choices}).encode())
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    async for part in engine.complete(request):
        await _write_event(writer, json.dumps({**base, **part}).encode())
    await _write_event(writer, b"[DONE]")
    writer.write(b"0\r\n\r\n")


async def _write_event(writer: asyncio.StreamWriter, data: bytes) -> None:
    event = b"data: " + data + b"\n\n"
    writer.write(b"%x\r\n%s\r\n" % (len(event), event))
    await writer.drain()


def _write(writer: asyncio.StreamWriter, body: bytes, media: str = "application/json") -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    """Returns the body of a request; a gateway may send it in chunks."""
    length, is_chunked = 0, False
    while (header := await reader.readline()).strip():
        name, _, value = header.decode().partition(":")
        if name.lower() == "content-length":
            length = int(value)
        is_chunked = is_chunked or (name.lower() == "transfer-encoding" and "chunked" in value)
    if not is_chunked:
        return await reader.readexactly(length)
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


async def _run() -> None:
    engines: dict[str, Engine] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        engine = engines.setdefault(address, Engine(address))
        await serve(engine, reader, writer)

    server = await asyncio.start_server(accept, "0.0.0.0", layout.ENGINE, backlog=1024)  # noqa: S104  # in the namespace
    await server.serve_forever()


if __name__ == "__main__":
    subprocess.run(("ip", "route", "replace", "local", layout.EAST.pods, "dev", "lo"), check=True)
    asyncio.run(_run())
