"""What an engine can do, by its version: `SPANS` is the whole of it, and nothing else asks for a version.

The version is `engine.version`, else that of the image's tag where the image's own name speaks of the engine (llm-d's,
for one, has versions of its own). Who has neither is taken for the newest, and told so. What only concerns the
contents of the stock image is believed of every other build.

Numbers are those of the engines' source at the named releases (docs/facts.md, Engines).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from function.domain.model import Engine, EngineName

Version: TypeAlias = tuple[int, int, int]
_VERSION = r"v?(?P<major>[0-9])\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,4}))?(?![0-9])"
_TAGS: Mapping[EngineName, re.Pattern[str]] = {
    name: re.compile(rf"(?:^|/)[^/:@]*{name.lower()}[^/:@]*:{_VERSION}", re.ASCII) for name in EngineName
}
_GIVEN = re.compile(_VERSION, re.ASCII)
_STOCK: Mapping[EngineName, str] = {EngineName.VLLM: "vllm/vllm-openai", EngineName.SGLANG: "lmsysorg/sglang"}


class Ability(Enum):
    """Something that some versions can do and others cannot."""

    NODES = "span nodes without Ray"
    RAY = "bring Ray"
    KSERVE_RANKS = "start under KServe's preset for data parallelism"
    DRAIN = "finish its requests when it is stopped"
    GGUF = "read GGUF files"
    GGUF_PARTS = "read a GGUF file in several parts"
    STREAM = "load safetensors by several threads at once"
    PREFETCH = "read safetensors ahead"
    TLS = "serve HTTPS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the first version that can to the first that cannot; `image` where only the stock image's contents count."""

    since: Version = (0, 0, 0)
    until: Version | None = None
    image: bool = False


_ALWAYS = Span()
SPANS: Mapping[EngineName, Mapping[Ability, Span]] = {
    EngineName.VLLM: {
        Ability.NODES: Span(since=(0, 11, 1)),
        Ability.RAY: Span(until=(0, 18, 0), image=True),
        # A start rank of 0 on the leader is ignored before, and asks for another balancer since.
        Ability.KSERVE_RANKS: Span(until=(0, 28, 0)),
        Ability.DRAIN: Span(since=(0, 18, 0)),
        Ability.GGUF: Span(until=(0, 24, 0), image=True),
        Ability.GGUF_PARTS: Span(since=(0, 20, 0), image=True),
        Ability.STREAM: _ALWAYS,
        Ability.PREFETCH: Span(since=(0, 18, 0)),
        Ability.TLS: _ALWAYS,
    },
    EngineName.SGLANG: {
        Ability.NODES: _ALWAYS,
        Ability.GGUF: _ALWAYS,
        Ability.GGUF_PARTS: _ALWAYS,
        Ability.STREAM: Span(since=(0, 5, 10)),
        Ability.TLS: Span(since=(0, 5, 10)),
    },
}


def version(engine: Engine) -> Version | None:
    """Return the version; None where neither a field nor a tag says it."""
    match = _GIVEN.fullmatch(engine.version) if engine.version else _TAGS[engine.name].search(engine.image)
    return (int(match["major"]), int(match["minor"]), int(match["patch"] or 0)) if match else None


def stock(engine: Engine) -> bool:
    """Tell whether the image is the engine's own, from whichever registry."""
    repository = re.sub(r"(:[^/@]*)?(@.*)?$", "", engine.image)
    return f"/{repository}".endswith(f"/{_STOCK[engine.name]}")


def can(engine: Engine, ability: Ability) -> bool:
    """Tell whether the engine of this image can do something; the newest version speaks for an unknown one."""
    span = SPANS[engine.name].get(ability)
    if span is None:
        return False
    if span.image and not stock(engine):
        return True
    known = version(engine)
    return span.until is None if known is None else span.since <= known and (span.until is None or known < span.until)


def named(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))
