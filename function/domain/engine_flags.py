"""Slips in the arguments of an engine that no rule refuses, because a custom image may know more than the engine does.

`make engines` compares every list with the parsers of all known versions: no flag that an engine has is called a slip.
"""

import difflib
import re
from collections.abc import Iterator

from function.domain.engines import ENGINES, EngineSpec, Flag, get_version, is_stock, parse_flags
from function.domain.known_flags import KNOWN_FLAGS
from function.domain.model import Engine

# The cutoff of `difflib`: at 0.9, one letter in ten differs.
_CLOSE = 0.9
_WHOLE = re.compile(r"[+-]?[0-9][0-9_]*", re.ASCII)
_ROUNDED = re.compile(r"[+-]?[0-9][0-9_]*|[0-9]+(\.[0-9]+)?[kKmMgGtT]|auto", re.ASCII)
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
        elif form := find_missing_number(spec, flag):
            yield f"{flag.text}; must be {form}"
        elif meant := find_meant_flag(flag.name, known):
            yield f"{flag.name} is not a flag of {engine.name} that is known here; did you mean {meant}?"
        elif is_unknown_flag(engine, flag.name):
            oldest, newest = KNOWN_FLAGS[engine.name].oldest, KNOWN_FLAGS[engine.name].newest
            refuses = f"{engine.name} does not start with a flag that it does not know"
            yield f"{flag.name} is not a flag of {engine.name} {oldest} to {newest}; {refuses}"


def find_missing_number(spec: EngineSpec, flag: Flag) -> str:
    """Returns the form that the value of a flag must have; empty if it has it, or if the value need be no number."""
    if flag.name in spec.whole_number_flags and not _WHOLE.fullmatch(flag.value):
        return "a whole number"
    if flag.name in spec.rounded_number_flags and not _ROUNDED.fullmatch(flag.value):
        return "a whole number, or a rounded one such as 32k"
    return ""


def is_unknown_flag(engine: Engine, name: str) -> bool:
    """Tells whether a stock image has no such flag; False if its version is not among those that were asked."""
    known = KNOWN_FLAGS[engine.name]
    version = get_version(engine)
    stem = re.split(r"[.\s]", name, maxsplit=1)[0]
    if not is_stock(engine) or version is None or not known.oldest <= version <= known.newest:
        return False
    stems = (stem, stem.replace("--no-", "--", 1))
    return stem.startswith("--") and not any(flag.startswith(stems) for flag in known.flags)


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
