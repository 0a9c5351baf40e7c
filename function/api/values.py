"""Values with rules beyond their schema: quantities, known words, images, and text that reaches a container.

KServe sends the merged spec of a service through a Go template, where `{{` begins an expression, and passes the address
of the weights to a container as an argument, where the kubelet replaces `$(NAME)` by a variable, also by a credential.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

from function.api.problems import IMAGE_FORM, URL_FORM, Problems, join_path, not_a_quantity, unknown_value
from function.kube import quantity
from function.kube.manifests import JSON, Manifest
from function.kube.names import is_image
from function.kube.urls import Origin, parse_origin
from function.schemas import Env

B = TypeVar("B", bound=BaseModel | None)

_MAX_QUANTITY_LENGTH = 32  # characters, as in the XRDs
_TEMPLATE, _EXPANSION = "{{", "$("


def parse_amount(value: int | str | None, path: str, problems: Problems) -> int | None:
    """Returns a quantity greater than 0, rounded up to whole base units; None if it is absent or invalid."""
    parsed = _parse_quantity(value, path, problems, is_zero_allowed=False)
    return None if parsed is None else quantity.round_up(str(value))


def parse_quantity(value: int | str | None, path: str, problems: Problems, default: str = "") -> str:
    """Returns a quantity as the author wrote it; the default if it is absent or invalid."""
    return default if _parse_quantity(value, path, problems, is_zero_allowed=True) is None else str(value)


def parse_image(value: str | None, path: str, problems: Problems) -> str:
    """Returns the reference of an image; one that the kubelet cannot parse is a problem, unless it has one already."""
    if value and not is_image(value) and not problems.find_within(path):
        problems.add_invalid(path, value, IMAGE_FORM)
    return value or ""


def parse_url(value: str | None, path: str, problems: Problems) -> Origin | None:
    """Returns the origin of a URL without a path; None if it is absent or invalid."""
    origin = parse_origin(value) if value else None
    if value and origin is None:
        problems.add_invalid(path, value, URL_FORM)
    return origin


def parse_word(
    value: str | None, known: tuple[str, ...], path: str, problems: Problems, also: tuple[str, ...] = ()
) -> str | None:
    """Returns a known word in its documented spelling, ignoring case. Words in `also` are accepted but not listed."""
    if value is None:
        return None
    word = _spellings((*known, *also)).get(value.lower())
    if word is None:
        problems.update([unknown_value(path, value, known, also)])
    return word


@cache
def _spellings(words: tuple[str, ...]) -> Mapping[str, str]:
    return {word.lower(): word for word in words}


def check_alternatives(
    block: BaseModel, names: tuple[str, ...], path: str, problems: Problems, *, required: bool = False
) -> None:
    """Adds a problem if several of the named fields are set, or none although one is required."""
    fields = dump(block)
    present = [name for name in names if fields.get(name) is not None]
    for name in present[1:]:
        problems.add_invalid(f"{path}.{name}", fields[name], f"left out together with {present[0]}")
    is_refused = problems.refuses(path) or any(problems.find_within(f"{path}.{name}") for name in names)
    if required and not present and not is_refused:
        problems.add_required(f"{path}.{names[0]}", f"or {', '.join(names[1:])}")


def check_unique_names(entries: Iterable[tuple[str, str]], problems: Problems) -> None:
    """Adds a problem for each entry, given by its path and name, that has the name of an earlier one."""
    paths_by_name: dict[str, str] = {}
    for path, name in entries:
        first_path = paths_by_name.setdefault(name, path)
        if name and first_path != path:
            problems.add_invalid(f"{path}.name", name, f"unique, and {first_path} has the same name")


def choose_block(source: str, blocks: Mapping[str, tuple[str, B]], problems: Problems) -> tuple[str, B | None]:
    """Returns the path and the block of a source; the blocks of other sources must be left out."""
    source = next((name for name in blocks if name.lower() == source.lower()), "")
    for name, (path, block) in blocks.items():
        if name == source and block is None:
            problems.add_required(path, f"as source is {source}")
        elif source and name != source and block is not None:
            problems.add_invalid(path, dump(block), f"left out, as source is {source}")
    return blocks.get(source, ("", None))


def check_env(env: Sequence[Env] | None, path: str, problems: Problems) -> None:
    """Adds a problem for each environment variable with two values."""
    for index, variable in enumerate(env or ()):
        check_alternatives(variable, ("value", "valueFrom"), f"{path}[{index}]", problems)


def refuse_templates(block: BaseModel | str | None, path: str, problems: Problems) -> None:
    """Adds a problem for each text of a block that KServe would read as a template, including keys of maps."""
    # Two braces never follow each other in JSON, except within a text: most blocks need no search.
    if isinstance(block, BaseModel) and _TEMPLATE not in block.model_dump_json(exclude_unset=True, warnings=False):
        return
    for at, text in _find_texts(dump(block) if isinstance(block, BaseModel) else block, path):
        if _TEMPLATE in text:
            problems.add_invalid(at, text, "without {{, which KServe reads as a template")


def refuse_expansions(text: str | None, path: str, problems: Problems) -> None:
    """Adds a problem for an address in which the kubelet would replace a variable."""
    if text and _EXPANSION in text:
        problems.add_invalid(path, text, "without $(, which names a variable of the container that reads it")


def dump(block: BaseModel | None) -> Manifest:
    """Returns the fields of a block that are set, as in the manifest."""
    return block.model_dump(by_alias=True, exclude_unset=True, warnings=False) if block else {}


def dump_all(blocks: Sequence[BaseModel] | None) -> tuple[Manifest, ...]:
    """Returns the blocks of a list as in the manifest."""
    return tuple(dump(block) for block in blocks or ())


def sort_entries(entries: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Returns the entries of a map, sorted."""
    return tuple(sorted((entries or {}).items()))


def _parse_quantity(value: int | str | None, path: str, problems: Problems, *, is_zero_allowed: bool) -> Decimal | None:
    if value is None:
        return None
    try:
        parsed = quantity.parse(value) if len(str(value)) <= _MAX_QUANTITY_LENGTH else None
    except ValueError:
        parsed = None
    if parsed is None:
        problems.update([not_a_quantity(path, value)])
    elif parsed > quantity.MAX:
        problems.add_invalid(path, value, f"at most {quantity.MAX_TEXT}")
    elif parsed < 0 or (parsed == 0 and not is_zero_allowed):
        problems.add_invalid(path, value, "0 or more" if is_zero_allowed else "more than 0")
    else:
        return parsed
    return None


def _find_texts(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Yields every text within a value with its path, and the keys of maps with the path of the map."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _find_texts(item, join_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_texts(item, join_path(path, index))
