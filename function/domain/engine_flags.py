"""Slips in the arguments of an engine that no rule refuses, because a custom image may know more than the engine does.

`make engines` compares every list with the parsers of all known versions: no flag that an engine has is called a slip.
"""

import difflib
from collections.abc import Iterator

from function.domain.engines import ENGINES, EngineSpec, parse_flags
from function.domain.model import Engine

# The cutoff of `difflib`: at 0.9, one letter in ten differs.
_CLOSE = 0.9
DTYPE = "--dtype"
DTYPES = ("auto", "bfloat16", "float", "float16", "float32", "half")


def list_flag_notes(engine: Engine) -> Iterator[str]:
    """Yields what is probably wrong with each argument, and what was probably meant."""
    spec = ENGINES[engine.name]
    known = list_common_flags(spec)
    for flag in parse_flags(engine.args):
        if flag.name == spec.memory_share_flag:
            if not _is_share(flag.value):
                yield f"{flag.text}; must be a share of the GPU's memory, more than 0 and at most 1"
        elif flag.name == DTYPE:
            if flag.value not in DTYPES:
                yield f"{flag.text}; must be one of {', '.join(DTYPES)}"
        elif meant := find_meant_flag(flag.name, known):
            yield f"{flag.name} is not a flag of {engine.name} that is known here; did you mean {meant}?"


def list_common_flags(spec: EngineSpec) -> frozenset[str]:
    sizes = (flag for flags in spec.size_flags.values() for flag in flags)
    single = (spec.memory_share_flag, spec.context_flag, spec.tokenizer_flag, DTYPE)
    return frozenset(
        {*sizes, *spec.switch_flags, *spec.repository_flags, *spec.author_flags, *spec.common_flags, *single}
    )


def find_meant_flag(name: str, known: frozenset[str]) -> str:
    """Returns the known flag that a name is nearly; empty if it is known, the beginning of one, or like none.

    Every parser takes the beginning of a flag, `--no-` before a switch, and a key after a dot.
    """
    stem = name.partition(".")[0].replace("--no-", "--", 1)
    if not stem.startswith("--") or any(flag.startswith(stem) for flag in known):
        return ""
    return next(iter(difflib.get_close_matches(stem, sorted(known), n=1, cutoff=_CLOSE)), "")


def _is_share(value: str) -> bool:
    try:
        return 0 < float(value) <= 1
    except ValueError:
        return False
