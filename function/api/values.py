"""Values with rules beyond their schema: quantities, known words, images, label selectors, and text for containers.

KServe sends the merged spec of a service through a Go template, where `{{` begins an expression. It passes the address
of the weights to a container as an argument, where the kubelet replaces `$(NAME)` by a variable, which may be a
credential. Label selectors are refused if apimachinery refuses them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

from function import schemas
from function.api.problems import IMAGE_FORM, URL_FORM, Problems, invalid_value, not_a_quantity, not_text, unknown_value
from function.domain.model import Problem
from function.kube import quantity
from function.kube.manifests import JSON, Manifest
from function.kube.names import is_image
from function.kube.selectors import Operator, Selector, SelectorRequirement
from function.kube.urls import Origin, parse_origin

B = TypeVar("B", bound=BaseModel | None)

_NO_HINTS: Mapping[str, str] = {}
_MAX_QUANTITY_LENGTH = 32  # characters, as in the XRDs
_TEMPLATE, _EXPANSION = "{{", "$("
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/"
_KEY = re.compile(rf"({_PREFIX})?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_KEY_FORM = "the key of a label, [prefix/]name"
_VALUE_FORM = "the value of a label, at most 63 letters, digits, dots, dashes and underscores"

_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", re.ASCII)


def parse_amount(value: int | str | None, problems: Problems) -> int | None:
    """Returns a quantity greater than 0, rounded up to whole base units; None if it is absent or invalid."""
    parsed = _parse_quantity(value, problems, is_zero_allowed=False)
    return None if parsed is None else quantity.round_up(str(value))


def parse_quantity(value: int | str | None, problems: Problems, default: str = "") -> str:
    """Returns a quantity as the author wrote it; the default if it is absent or invalid."""
    return default if _parse_quantity(value, problems, is_zero_allowed=True) is None else str(value)


def _parse_quantity(value: int | str | None, problems: Problems, *, is_zero_allowed: bool) -> Decimal | None:
    if value is None:
        return None
    try:
        parsed = quantity.parse(value) if len(str(value)) <= _MAX_QUANTITY_LENGTH else None
    except ValueError:
        parsed = None
    if parsed is None:
        problems.update([not_a_quantity(problems.path, value)])
    elif parsed > quantity.MAX:
        problems.add_invalid(value, f"at most {quantity.MAX_TEXT}")
    elif parsed < 0 or (parsed == 0 and not is_zero_allowed):
        problems.add_invalid(value, "0 or more" if is_zero_allowed else "more than 0")
    else:
        return parsed
    return None


def parse_image(value: str | None, problems: Problems) -> str:
    """Returns the reference of an image; adds a problem if the kubelet cannot parse it, unless it has one."""
    if value and not is_image(value) and not problems.list():
        problems.add_invalid(value, IMAGE_FORM)
    return value or ""


def parse_url(value: str | None, problems: Problems) -> Origin | None:
    """Returns the origin of a URL without a path; None if it is absent or invalid."""
    origin = parse_origin(value) if value else None
    if value and origin is None:
        problems.add_invalid(value, URL_FORM)
    return origin


def parse_duration(value: str | None) -> Decimal | None:
    """Returns the seconds of a Go duration, whose form the schema has checked; None without a value."""
    if value is None:
        return None
    return sum((Decimal(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value)), Decimal(0))


def parse_word(value: str | None, known: tuple[str, ...], problems: Problems, also: tuple[str, ...] = ()) -> str | None:
    """Returns a known word in its documented spelling, ignoring case. Words in `also` are accepted but not listed."""
    if value is None:
        return None
    word = _spellings((*known, *also)).get(value.lower())
    if word is None:
        problems.update([unknown_value(problems.path, value, known, also)])
    return word


@cache
def _spellings(words: tuple[str, ...]) -> Mapping[str, str]:
    return {word.lower(): word for word in words}


def parse_selector(selector: schemas.EnvironmentSelector | schemas.Selector | None, problems: Problems) -> Selector:
    """Returns a label selector; without requirements it selects everything."""
    if selector is None:
        return Selector()
    requirements: set[SelectorRequirement] = set()
    for key, value in (selector.match_labels or {}).items():
        if problem := find_invalid_label(key, value, f"{problems.path}.matchLabels.{key}"):
            problems.update([problem])
        else:
            requirements.add(SelectorRequirement(key=key, operator=Operator.IN, values=(value,)))
    for index, expression in enumerate(selector.match_expressions or ()):
        at = problems["matchExpressions"][index]
        if not at.refused:
            _check_expression(expression, at)
        if not at.list():
            values = tuple(sorted(set(expression.values or ())))
            requirement = SelectorRequirement(key=expression.key, operator=Operator(expression.operator), values=values)
            requirements.add(requirement)
    return Selector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))


def find_invalid_label(key: str, value: object, path: str) -> Problem | None:
    """Returns why no object can have a label; None if the label is valid."""
    if not _KEY.fullmatch(key):
        return invalid_value(path, key, _KEY_FORM)
    if not isinstance(value, str):
        return not_text(path, value)
    return None if _VALUE.fullmatch(value) else invalid_value(path, value, _VALUE_FORM)


def _check_expression(expression: schemas.MatchExpression, problems: Problems) -> None:
    operator = expression.operator
    values = expression.values or []
    if not _KEY.fullmatch(expression.key):
        problems["key"].add_invalid(expression.key, _KEY_FORM)
    for index, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            problems["values"][index].add_invalid(value, _VALUE_FORM)
    if operator in {Operator.IN, Operator.NOT_IN} and not values:
        problems["values"].add_invalid(expression.values, f"at least one value for operator {operator}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and values:
        problems["values"].add_invalid(values, f"left out for operator {operator}")


def check_alternatives(block: BaseModel, names: tuple[str, ...], problems: Problems, *, required: bool = False) -> None:
    """Adds a problem if several of the named fields are set, or if none is set although one is required."""
    fields = dump(block)
    present = [name for name in names if fields.get(name) is not None]
    for name in present[1:]:
        problems[name].add_invalid(fields[name], f"left out together with {present[0]}")
    if required and not present and not problems.refused and not any(problems[name].list() for name in names):
        problems[names[0]].add_required(f"or {', '.join(names[1:])}")


def check_unique(entries: Iterable[tuple[Problems, str]], key: str = "name") -> None:
    """Adds a problem for each entry of a list that has the same value of a key as an earlier entry."""
    first_paths: dict[str, str] = {}
    for problems, value in entries:
        first_path = first_paths.setdefault(value, problems.path)
        if value and first_path != problems.path:
            problems[key].add_invalid(value, f"unique, and {first_path} has the same {key}")


def choose_block(
    source: str, blocks: Mapping[str, tuple[str, B]], problems: Problems, hints: Mapping[str, str] = _NO_HINTS
) -> tuple[Problems, B | None]:
    """Returns the block of a source, and its problems; the blocks of other sources must be left out.

    `blocks` are by source, each with the name of its field. `hints` say by source what a missing block would describe.
    """
    source = next((name for name in blocks if name.lower() == source.lower()), "")
    given = [name for name, (_, block) in blocks.items() if block is not None]
    if source and len(given) == 1 and given[0] != source:
        problems["source"].add(f"is {source}, and only {blocks[given[0]][0]} is set; set source: {given[0]}")
        return problems[blocks[source][0]], None
    for name, (field, block) in blocks.items():
        if name == source and block is None:
            problems[field].add_required(f"as source is {source}{hints.get(source, '')}")
        elif source and name != source and block is not None:
            others = " and ".join(blocks[other][0] for other in given if other != name)
            remedy = f"To use {field} instead, set source: {name} and leave out {others}"
            problems[field].add_invalid(dump(block), f"left out, as source is {source}. {remedy}")
    chosen_field, chosen_block = blocks.get(source, ("", None))
    return problems[chosen_field], chosen_block


def check_env(env: Sequence[schemas.Env] | None, problems: Problems) -> None:
    """Adds a problem for each environment variable with two values."""
    for index, variable in enumerate(env or ()):
        check_alternatives(variable, ("value", "valueFrom"), problems[index])


def refuse_templates(block: BaseModel | str | None, problems: Problems, args: str = "") -> None:
    """Adds a problem for each text of a block that KServe would read as a template, including keys of maps.

    `args`: the path of arguments in the block, into which the kubelet can put such a text later.
    """
    # Two braces never follow each other in JSON, except within a text: most blocks need no search.
    if isinstance(block, BaseModel) and _TEMPLATE not in block.model_dump_json(exclude_unset=True, warnings=False):
        return
    for at, text in _find_texts(dump(block) if isinstance(block, BaseModel) else block, problems):
        if _TEMPLATE in text:
            allowed = "without {{, which KServe reads as a template"
            if args and at.path.startswith(args):
                allowed += (
                    "; put the value into a ConfigMap, the ConfigMap into engine.env, and $(NAME) into the argument"
                )
            at.add_invalid(text, allowed)


def _find_texts(value: JSON, problems: Problems) -> Iterator[tuple[Problems, str]]:
    """Yields every text within a value with its place, and the keys of maps with the place of the map."""
    if isinstance(value, str):
        yield problems, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield problems, key
            yield from _find_texts(item, problems[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_texts(item, problems[index])


def refuse_expansions(text: str | None, problems: Problems) -> None:
    """Adds a problem for an address in which the kubelet would replace a variable."""
    if text and _EXPANSION in text:
        problems.add_invalid(text, "without $(, which names a variable of the container that reads it")


def dump(block: BaseModel | None) -> Manifest:
    """Returns the fields of a block that are set, as in the manifest."""
    return block.model_dump(by_alias=True, exclude_unset=True, warnings=False) if block else {}


def dump_all(blocks: Sequence[BaseModel] | None) -> tuple[Manifest, ...]:
    return tuple(dump(block) for block in blocks or ())


def sort_entries(entries: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((entries or {}).items()))
