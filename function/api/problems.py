"""Validates values with the models generated from the XRDs, and describes the problems in words.

`validate` returns a typed model also for a value with problems: a refused or missing field has its default, or the
empty value of its type if it is required. So the rules across fields still check everything else, and the list of
problems is complete. If the schema refuses a field, the rules for this field are not reported as well.

The API server drops unknown fields silently, and does not see what a platform sets in EnvironmentConfigs and the
function's input: `find_unknown_fields` reports them.
"""

import difflib
import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from function import schemas
from function.api.synonyms import ADVICE, is_token, list_synonyms
from function.domain.model import INTERCONNECTS, LADDER, Problem
from function.kube.manifests import JSON, Manifest
from function.kube.messages import mask_tokens

M = TypeVar("M", bound=BaseModel)
T_co = TypeVar("T_co", covariant=True)

SPECS: Mapping[str, type[BaseModel]] = {
    "ClusterModel": schemas.ModelSpec,
    "Model": schemas.ModelSpec,
    "InferenceEnvironment": schemas.EnvironmentSpec,
    "ModelDeployment": schemas.DeploymentSpec,
    "ModelPlacement": schemas.PlacementSpec,
    "ModelCache": schemas.CacheSpec,
    "ModelService": schemas.ServiceSpec,
}
IMAGE_FORM = (
    "a reference such as registry.example.com/team/engine:v1, with a path in lower case, at most one tag and a "
    "complete digest"
)
SCHEMES = ("s3", "gs", "https", "http", "hdfs", "webhdfs")
URL_FORM = "a URL such as https://models.example.com:8443, without a path"
ADDRESS_FORM = f"an address of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
TIMEZONE_FORM = "the name of a time zone, such as Etc/UTC or Europe/Vienna"
DURATION_FORM = "a duration like 30s, 10m or 1h30m"
_CROSSPLANE = "spec.crossplane"  # set by Crossplane beside the fields of the XRDs
_MAX_VALUE_LENGTH = 60
_DEEPEST = 6  # levels of fields at which a misplaced field is looked for
QUOTED = "in quotes"
_LEADING_NUMBER = re.compile(r"[0-9]+(?:[.][0-9]+)?")
_SIZE = re.compile(r"\s*([0-9]{1,9})(?:[.,]([0-9]{1,3}))?\s*([kmgtp])(?:i?b|i)?\s*", re.IGNORECASE | re.ASCII)
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9]{0,39})(:(?!/)|\s{1,9})(\S{1,60})", re.ASCII)
_ALLOWED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a block of fields",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
    "string_too_short": "not empty",
    "string_too_long": "at most {max_length} characters long",
}
# The patterns of the XRDs in words; tests/api/test_problems.py compares them with the schemas.
_LABEL_FORM = "of lower-case letters, digits and -, and must begin and end with a letter or digit"
_NAME_FORM = "of lower-case letters, digits, - and ., and must begin and end with a letter or digit"
PATTERN_FORMS: Mapping[str, str] = {
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$": _LABEL_FORM,
    r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$": _NAME_FORM,
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$": (
        "of lower-case letters, digits, - and ., and each part between dots must begin and end with a letter or digit"
    ),
    r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$": f"empty, or {_NAME_FORM}",
    r"^([a-z0-9][a-z0-9-]*)?$": "empty, or of lower-case letters, digits and -, and must begin with a letter or digit",
    r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$": (
        "of letters, digits, ., _ and -, and must begin and end with a letter or digit"
    ),
    r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$": (
        "of letters, digits, ., _, / and -, and must begin and end with a letter or digit"
    ),
    r"^[a-z0-9]([a-zA-Z0-9:./-]*[a-z0-9])?$": "a name, or projects/PROJECT/reservations/NAME",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "a time of day such as 03:00",
    r"^[-._a-zA-Z0-9]+$": "a key of a Secret, of letters, digits, -, . and _",
    r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$": (
        "of letters, digits, ., _, :, /, @, + and -, and must begin with a letter or digit"
    ),
    r"^[A-Za-z0-9._+@=/-]+$": "a path in the repository, of letters, digits, ., _, +, @, =, / and -",
    r"^([^/\s]+(/[^/\s]+)*)?$": "a path such as models/qwen, without spaces and without a slash at its ends",
    r"^v?[0-9]\.[0-9]{1,4}(\.[0-9]{1,4})?$": "a version such as 0.11.0",
    r"^/": "an absolute path, which begins with /",
    r"^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+$": "the name of an extended resource, such as nvidia.com/gpu",
    r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$": TIMEZONE_FORM,
    r"^[a-z]+(,[a-z]+)*$": "words of lower-case letters, separated by commas, such as bearer",
    r"^[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*$": "owner/name, such as Qwen/Qwen3-8B",
    r"^[A-Za-z0-9_][A-Za-z0-9._-]*$": (
        "a branch, tag or commit without a slash; of a pull request, name its last commit"
    ),
    r"^[^\s:/]+(:[^\s/]+)?(/[^\s/]+)*$": IMAGE_FORM,
    r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$": DURATION_FORM,
    r"^[0-9]+(\.[0-9]+)?$": 'a decimal number such as "2.50"',
    "^[A-Z]{3}$": "three capital letters of ISO 4217, such as USD",
    r"^[a-z][a-z0-9+.-]*://\S+$": ADDRESS_FORM,
    r"^https?://[^/\s?#@]+$": URL_FORM,
    r"^https?://[^/\s?#@]+(/[^\s?#@]*)?$": "http:// or https:// with a host, and a path if there is one",
    r"^\S+ \S+ \S+ \S+ \S+$": "a cron expression of five fields, such as 0 8 * * 1-5",
}


# What to choose among words, where a user may look for another one.
_HINTS: Mapping[tuple[str, ...], str] = {
    ("Existing", "GKE"): "a cluster of any provider is Existing, with its kubeconfig in a Secret",
    tuple(INTERCONNECTS): (
        "this is the link between the GPUs of one node. The network between nodes is interNodeBandwidth, such as "
        "ib-400g"
    ),
    LADDER: "eth is Ethernet with TCP, roce is RoCE v2, efa is EFA of AWS, ib is InfiniBand, each with its Gbit/s",
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T_co]):
    """The result of a parser. `value` is None if the problems leave nothing; problems may exist beside a value."""

    value: T_co
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class Problems:
    """The problems of a field and of all fields below it: those that the schema finds, and those that rules add."""

    path: str
    schema_problems: dict[str, Problem] = field(default_factory=dict)  # by path, shared with all fields of the object
    rule_problems: set[Problem] = field(default_factory=set)  # likewise

    def __getitem__(self, key: str | int) -> "Problems":
        """Returns the problems of an entry of a list, or of a field or path below."""
        below = Problems.__new__(Problems)  # without a call of __init__: every field of every object comes here
        below.path = f"{self.path}[{key}]" if isinstance(key, int) else f"{self.path}.{key}"
        below.schema_problems, below.rule_problems = self.schema_problems, self.rule_problems
        return below

    @property
    def refused(self) -> bool:
        """Tells whether the schema refuses the value of the field itself."""
        return self.path in self.schema_problems

    def add(self, message: str) -> None:
        """Adds a problem of the field, unless the schema refuses it already."""
        self.update([Problem(self.path, message)])

    def add_invalid(self, value: object, allowed: str) -> None:
        self.update([invalid_value(self.path, value, allowed)])

    def add_required(self, why: str) -> None:
        self.add(f"is required, {why}")

    def update(self, problems: Iterable[Problem]) -> None:
        """Adds problems of any fields, unless the schema refuses these already."""
        self.rule_problems.update(problem for problem in problems if problem.path not in self.schema_problems)

    def list(self) -> tuple[Problem, ...]:
        """Returns the problems, sorted."""
        if not self.schema_problems and not self.rule_problems:
            return ()
        below = (f"{self.path}.", f"{self.path}[")
        everything = (*self.schema_problems.values(), *self.rule_problems)
        return tuple(sorted(p for p in everything if p.path == self.path or p.path.startswith(below)))


def validate(schema: type[M], value: JSON, path: str) -> tuple[M, Problems]:
    try:
        return schema.model_validate(value), Problems(path)
    except ValidationError as error:
        refused = (_describe(e, schema, value, path) for e in error.errors(include_url=False))
        problems = Problems(path, {problem.path: problem for problem in refused})
        return _construct(schema, value, problems), problems


def build_schemas() -> None:
    """Builds the models that are otherwise built at their first use, so that no call waits for it (35 ms)."""
    for schema in SPECS.values():
        schema.model_rebuild()


def find_unknown_fields(schema: type[BaseModel], value: JSON, path: str) -> Iterator[Problem]:
    """Yields every field at a path and below that a type does not have, with the field that may be meant."""
    top: Mapping[str, Any] = {}
    for at, block, known in _find_blocks(schema, value, path):
        top = top or known  # fields of the object itself: a field may be indented too far
        for key in block:
            below = join_path(at, key)
            if key not in known and below != _CROSSPLANE:
                close = join_path(path, key) if key in top else _find_meant(schema, path, at, known, key)
                hint = f"did you mean {close}{ADVICE if is_token(key) else '?'}" if close else ""
                hint = hint or _find_elsewhere(schema, key) or f"known are {', '.join(sorted(known))}"
                yield Problem(below, f"is not a field; {hint}")


def _find_meant(schema: type[BaseModel], path: str, at: str, known: Iterable[str], key: str) -> str:
    """Returns the field of an object that is meant by an unknown name in one of its blocks; empty if none is."""
    exact = _find_deeper(schema, key, path)
    if exact.startswith(f"{at}."):
        return exact
    synonyms = list_synonyms(key)
    beside = (name for name in synonyms if name in known)
    deeper = filter(None, (_find_deeper(schema, name, path) for name in synonyms))
    return next(beside, "") or next(deeper, "") or find_nearest(key, known) or exact


def _find_elsewhere(schema: type[BaseModel], key: str) -> str:
    """Returns which field of another kind is meant by a name; empty if none is."""
    if schema not in SPECS.values():
        return ""
    for name in (*list_synonyms(key), key):
        for other in dict.fromkeys(SPECS.values()):
            kinds = [kind for kind, spec in SPECS.items() if spec is other and kind != "ModelPlacement"]
            if kinds and other is not schema and (found := _find_deeper(other, name, "spec")):
                return f"{' and '.join(kinds)} {'have' if len(kinds) > 1 else 'has'} {found}"
    return ""


def _find_deeper(schema: Any, name: str, path: str) -> str:
    """Returns the path of the only field of this name below a type; if all are in lists, of the one nearest to the top.

    Empty if there is none or are several.
    """
    found = [at for at in _list_paths(schema, path, _DEEPEST) if at.endswith(f".{name}")]
    outside = [at for at in found if "[]" not in at]
    least = min((at.count(".") for at in found), default=0)
    nearest = outside or [at for at in found if at.count(".") == least]
    return nearest[0] if len(nearest) == 1 else ""


@lru_cache(maxsize=256)
def _list_paths(schema: Any, path: str, depth: int) -> tuple[str, ...]:
    """Returns the path of every field below a type, without what is in maps; the entries of a list are `[]`."""
    if get_origin(schema) in (Union, types.UnionType):
        return tuple(at for branch in get_args(schema) for at in _list_paths(branch, path, depth))
    if get_origin(schema) is list:
        return _list_paths(get_args(schema)[0], f"{path}[]", depth)
    if not _is_model(schema) or not depth:
        return ()
    paths = []
    for name, info in schema.model_fields.items():
        at = join_path(path, info.alias or name)
        paths += [at, *_list_paths(info.annotation, at, depth - 1)]
    return tuple(paths)


def find_duplicates(schema: type[BaseModel], value: JSON, path: str) -> Iterator[Problem]:
    """Yields every entry of a list of type set or map that repeats an earlier one, at a path and below."""
    for at, block, known in _find_blocks(schema, value, path):
        for key, info in known.items():
            item = block.get(key)
            extra = info.json_schema_extra or {}
            if "unique" in extra and isinstance(item, list):
                yield from _find_equal_entries(item, extra["unique"], join_path(at, key))


def _find_blocks(schema: Any, value: JSON, path: str) -> Iterator[tuple[str, Manifest, Mapping[str, Any]]]:
    """Yields the path of every block of fields at a path and below, its value, and the fields that its type has."""
    origin, args = get_origin(schema), get_args(schema)
    if origin in (Union, types.UnionType):
        for branch in args:
            yield from _find_blocks(branch, value, path)
    elif origin in (list, dict) and isinstance(value, origin):
        for key, entry in enumerate(value) if isinstance(value, list) else value.items():
            yield from _find_blocks(args[-1], entry, join_path(path, key))
    elif _is_model(schema) and isinstance(value, dict):
        known = {info.alias or name: info for name, info in schema.model_fields.items()}
        yield path, value, known
        for key, info in known.items():
            yield from _find_blocks(info.annotation, value.get(key), join_path(path, key))


def _find_equal_entries(entries: list[JSON], keys: Sequence[str], path: str) -> Iterator[Problem]:
    """Yields every entry with the same values of the keys as an earlier entry; without keys, every equal entry."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        values = [entry.get(key) if isinstance(entry, dict) else None for key in keys] or [entry]
        first = seen.setdefault(json.dumps(values, sort_keys=True), index)
        if first != index and None not in values:
            at = join_path(path, index) + (f".{keys[0]}" if len(keys) == 1 else "")
            same = f"has the same {' and '.join(keys)}" if keys else "is the same"
            value = values[0] if len(values) == 1 else dict(zip(keys, values, strict=True))
            yield invalid_value(at, value, f"unique, and {join_path(path, first)} {same}")


def invalid_value(path: str, value: object, allowed: str) -> Problem:
    return Problem(path, f"{format_value(value)} is not allowed; must be {allowed}")


def not_text(path: str, value: object) -> Problem:
    return invalid_value(path, value, f"text{_show_form('string_type', value)}")


def not_a_quantity(path: str, value: object) -> Problem:
    """Returns the problem of a value that is not a quantity, with what is meant by 80GB, 80 Gi, 80gi or 80,5Gi."""
    size = _SIZE.fullmatch(value) if isinstance(value, str) else None
    hint = ""
    if size:
        whole, part, unit = size.groups()
        hint = f" (did you mean {whole}{f'.{part}' if part else ''}{unit.upper()}i?)"
    return Problem(path, f"{format_value(value)} is not a quantity; must be like 80Gi, 1.5T or 500m{hint}")


def unknown_value(path: str, value: object, known: Sequence[str], also: Sequence[str] = ()) -> Problem:
    """Returns the problem of an unknown value, with the nearest known value, or else with what the values are for.

    Values in `also` are not listed.
    """
    words = [word for word in (*known, *also) if not word.isdecimal()]  # no number is meant for another
    close = find_nearest(value if isinstance(value, str) else format_value(value), words)
    purpose = _HINTS.get(tuple(known))
    hint = f" (did you mean {close}?)" if close else f"; {purpose}" if purpose else ""
    return Problem(path, f"{format_value(value)} is not known; must be one of {', '.join(known)}{hint}")


def find_nearest(value: str, known: Iterable[str]) -> str:
    """Returns the known value that resembles a value or is abbreviated by it, ignoring case; empty if there is none.

    Of several that go on with a dash after the value, the first that is known is meant: the usual preset of a provider.
    """
    by_lower = {word.lower(): word for word in known}
    value = re.sub("^float", "fp", value.lower())
    if value and (longer := next((word for word in by_lower if word.startswith(f"{value}-")), "")):
        return by_lower[longer]
    close = difflib.get_close_matches(value, by_lower)
    abbreviated = [word for word in close if all(letter in rest for rest in [iter(word)] for letter in value)]
    return next((by_lower[word] for word in (*abbreviated, *close)), "")


def format_value(value: object) -> str:
    """Returns a value as JSON, truncated; tokens are masked first, as half a token would not be recognised."""
    text = mask_tokens(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"


def join_path(path: str, key: str | int) -> str:
    return f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"


def _describe(error: ErrorDetails, schema: type[BaseModel], value: JSON, path: str) -> Problem:
    for key in error["loc"]:
        if value is error["input"]:
            # The location goes on with a missing field, or with a branch of a union; only quantities are unions.
            is_missing = error["type"] == "missing"
            return Problem(join_path(path, key), "is required") if is_missing else not_a_quantity(path, value)
        path = join_path(path, key)
        value = value[key]  # type: ignore[index]  # pydantic found the error there
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        # Of words that differ only in case, the first is the documented one.
        expected = re.findall("'([^']*)'", context["expected"]) or re.findall("[0-9]+", context["expected"])
        words = {word.lower(): word for word in reversed(expected)}
        known = tuple(reversed(words.values()))
        return unknown_value(path, error["input"], known)
    form = PATTERN_FORMS.get(str(context.get("pattern") or _find_pattern(schema, error["loc"])), "")
    if error["type"] == "string_pattern_mismatch" and form:
        return invalid_value(path, error["input"], form)
    if error["type"] not in _ALLOWED:
        return Problem(path, f"{format_value(error['input'])} has the wrong type")
    allowed = _ALLOWED[error["type"]].format(**context) + _show_form(error["type"], error["input"])
    if form and error["type"] in {"string_too_short", "string_too_long"}:
        allowed = f"{form}, {allowed}"
    main_field = _find_main_field(getattr(schemas, str(context.get("class_name")), BaseModel))
    if isinstance(error["input"], str) and main_field:
        value = error["input"]
        is_token = mask_tokens(value) != value
        allowed += f", such as {format_value({main_field: 'my-secret' if is_token else value})}"
        if is_token:
            allowed += (
                ". This looks like a token: store it in a Secret of the control plane, and give the Secret's name"
            )
    return invalid_value(path, error["input"], allowed)


def _show_form(type_: str, value: object) -> str:
    """Returns how a value of another type is written as an error asks for; empty if that is not known."""
    match type_, value:
        case "string_type", bool():
            return f", {QUOTED}: YAML reads yes, no, on and off as true or false"
        case "string_type", int() | float():
            return f", {QUOTED}"
        case "list_type", dict():
            return ", whose entries begin with -"
        case "list_type", str() | int() | float():
            return f", such as {format_value([value])}"
        case "model_type", str() if entry := _ENTRY.fullmatch(value):
            key, separator, rest = entry.groups()
            missing = "a blank after the colon" if separator == ":" else "a colon and a blank"
            return f", with {missing}, such as {mask_tokens(f'{key}: {rest}')}"
        case "float_type" | "int_type", str() if _LEADING_NUMBER.match(value):
            return f" without quotes and unit, such as {_LEADING_NUMBER.findall(value)[0]}"
    return ""


def _find_main_field(schema: type[BaseModel]) -> str:
    """Returns the field for which a text may stand where a block is expected: `name`, else the only required one."""
    fields = {info.alias or name: info for name, info in schema.model_fields.items()}
    required = [key for key, info in fields.items() if info.is_required()]
    return "name" if "name" in fields else required[0] if len(required) == 1 else ""


def _find_pattern(schema: Any, location: Iterable[int | str]) -> str:
    """Returns the pattern of the text at a location of a schema; empty if it has none."""
    pattern = ""
    for key in location:
        schema = next((branch for branch in get_args(schema) if branch is not type(None)), schema)
        if isinstance(key, int):
            continue  # the type of the entries of a list has been taken from it
        fields = schema.model_fields if _is_model(schema) else {}
        info = next((info for name, info in fields.items() if key == (info.alias or name)), None)
        schema = info.annotation if info else None
        patterns = (getattr(rule, "pattern", None) for rule in (info.metadata if info else ()))
        pattern = next((str(found) for found in patterns if found), "")
    return pattern


def _construct(schema: type[M], value: JSON, problems: Problems) -> M:
    """Returns a model without the fields that its schema refuses."""
    fields = value if isinstance(value, dict) else {}
    accepted: dict[str, Any] = {}
    for name, info in schema.model_fields.items():
        key = info.alias or name
        item = fields.get(key)
        below = problems[key]
        if item is not None and not below.refused:
            accepted[name] = _convert(info.annotation, item, below)
        elif info.is_required() or info.default == {}:
            accepted[name] = _convert(info.annotation, None, below)
    return schema.model_construct(**accepted)


def _convert(annotation: Any, item: JSON, problems: Problems) -> Any:
    """Returns a value that the schema accepts, with its models constructed; for None, the empty value of the type."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _convert(args[0], item, problems)
    if origin in (Union, types.UnionType):
        return _convert(args[0], item, problems) if type(None) in args else item
    if _is_model(annotation):
        return _construct(annotation, item, problems)
    if origin is list:
        entries = [(problems[i], entry) for i, entry in enumerate(item if isinstance(item, list) else ())]
        return [_convert(args[0], None if at.refused else entry, at) for at, entry in entries]
    if origin is dict:
        items = [(problems[k], k, v) for k, v in (item.items() if isinstance(item, dict) else ())]
        return {key: _convert(args[1], v, at) for at, key, v in items if not at.refused}
    if item is not None or annotation is Any:
        return item
    return "" if origin is Literal else annotation()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
