"""`explain`: describes a kind or a field as `kubectl explain` does, without a control plane."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill, indent

import click

from function.api.problems import find_nearest
from function.cli.composing import INPUT
from function.cli.options import SHORT_NAMES, CliError, Code, Form, examples, find_kind, form, read_manifest_schema
from function.cli.tables import format_data
from function.kube.manifests import JSON, Manifest, list_texts, mapping, text
from function.kube.names import GROUP, VERSION

SETTINGS = INPUT["kind"]
_WIDTH = 80  # of kubectl's own descriptions
_BRACKETS = re.compile(r"\[[^]]*\]")  # of paths as documents and messages write them: spec.serving[0].engine
_SETTINGS_NAMES = ("settings", INPUT["kind"].lower())
_DIRECTLY_BELOW = 3  # steps of a path such as modeldeployment.spec.scaling
_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " entries"),
)  # with the unit


@click.command(epilog=examples("explain"))
@click.argument("path", metavar="KIND[.FIELD...]")
@click.option("--recursive", is_flag=True, help="All fields below, without their descriptions.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def explain(*, path: str, recursive: bool, form: Form) -> None:
    """Describe a kind or a field: type, default, allowed values, limits, rules, and the fields below.

    KIND may be short, such as mdldep. settings are those of the platform: the function's input in a Composition.
    With -o json or yaml, print the JSON schema of the field.
    """
    type_, *fields = [step for step in _BRACKETS.sub("", path).split(".") if step] or [path]
    if fields[:2] == GROUP.split("."):
        fields = fields[2:]
    kind = SETTINGS if type_.lower() in _SETTINGS_NAMES else _read_kind(type_)
    version = INPUT["apiVersion"] if kind == SETTINGS else VERSION
    schemas = _find_schemas(kind, fields)
    schema = schemas[-1]
    if form is not Form.TABLE:
        click.echo(format_data(form, schema))
        return
    lines = [
        f"GROUP:      {version.partition('/')[0]}",
        f"KIND:       {kind}",
        f"VERSION:    {version.partition('/')[2]}",
        "",
    ]
    if fields:
        lines += [f"FIELD: {_format_field(fields[-1], schemas[-2])}", *_list_values(schema), ""]
    lines += _list_paragraphs(schema)
    if below := [*_list_fields(schema, recursive=recursive)]:
        lines += ["FIELDS:", *below]
    click.echo("\n".join(lines).rstrip())


def _read_kind(type_: str) -> str:
    """Returns the kind that a word names; raises CliError if there is none."""
    if kind := find_kind(type_):
        return kind
    known = [*(kind.lower() for kind in SHORT_NAMES), "settings"]
    near = find_nearest(type_, (*known, *SHORT_NAMES.values()))
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
    raise CliError(f"{type_} is not a kind of {GROUP}; {hint}", Code.NOT_FOUND)


def _find_schemas(kind: str, fields: Sequence[str]) -> list[Manifest]:
    """Returns the schemas of a kind and of each field of a path; raises CliError for a field that does not exist."""
    schemas = [mapping(json.loads(read_manifest_schema()), f"definitions.{kind}")]
    for position, name in enumerate(fields):
        known = _get_fields(schemas[-1])
        if name not in known:
            parent = ".".join((kind.lower(), *fields[:position]))
            near = find_nearest(name, known)
            close = f"{parent}.{near}" if near else _find_elsewhere(kind, schemas[0], name)
            others = f"known are {', '.join(known)}" if known else f"{parent} has no fields"
            hint = f"did you mean {close}?" if close else others
            raise CliError(f"{parent}.{name} is not a field; {hint}", Code.NOT_FOUND)
        schemas.append(mapping(known, name))
    return schemas


def _find_elsewhere(kind: str, schema: Manifest, name: str) -> str:
    """Returns the path of the field of this name directly below spec or status, else of the only one; else empty."""
    paths = [path for path in _list_paths(schema, kind.lower()) if path[-1].lower() == name.lower()]
    for part in ("spec", "status"):
        below = [path for path in paths if path[1] == part]
        nearest = min(below, key=len, default=())
        if len(below) == 1 or len(nearest) == _DIRECTLY_BELOW:
            return ".".join(nearest)
    return ""


def _list_paths(schema: Manifest, *before: str) -> Iterator[tuple[str, ...]]:
    """Yields the path of each field below a schema, without what is in lists and maps."""
    fields = mapping(schema, "properties")
    for name in fields:
        yield (*before, name)
        yield from _list_paths(mapping(fields, name), *before, name)


def _get_entry(schema: Manifest) -> Manifest:
    """Returns the schema of the innermost entries of a list or map; of anything else the schema itself."""
    entry = mapping(schema, "items") or mapping(schema, "additionalProperties")
    return _get_entry(entry) if entry else schema


def _get_fields(schema: Manifest) -> Manifest:
    return mapping(_get_entry(schema), "properties")


def _format_type(schema: Manifest) -> str:
    """Returns the type of a field as kubectl writes it."""
    if items := mapping(schema, "items"):
        return f"[]{_format_type(items)}"
    if values := mapping(schema, "additionalProperties"):
        return f"map[string]{_format_type(values)}"
    if isinstance(schema.get("type"), list):  # a whole number or a text
        return "Quantity"
    return text(schema, "type").replace("object", "Object")


def _format_field(name: str, parent: Manifest) -> str:
    holder = _get_entry(parent)
    required = " -required-" if name in list_texts(holder, "required") else ""
    return f"{name} <{_format_type(mapping(_get_fields(parent), name))}>{required}"


def _list_values(schema: Manifest) -> Iterator[str]:
    """Yields the lines about the values that a field accepts; of a list or map also about its entries."""
    entry = _get_entry(schema)
    limits = [*_list_limits(schema)]
    if entry is not schema:
        limits += (f"each {limit}" for limit in _list_limits(entry))
    if words := _list_words(entry):
        yield f"ENUM: {', '.join(words)}"
    if "default" in schema:
        yield f"DEFAULT: {text(schema, 'default') or json.dumps(schema['default'])}"
    if limits:
        yield f"LIMITS: {'; '.join(limits)}"
    if pattern := text(entry, "pattern"):
        yield f"PATTERN: {pattern}"


def _list_limits(schema: Manifest) -> Iterator[str]:
    for least, most, unit in _RANGES:
        match schema.get(least), schema.get(most):
            case None, None:
                continue
            case None, high:
                yield f"at most {high}{unit}"
            case low, None:
                yield f"at least {low}{unit}"
            case low, high:
                yield f"{low} to {high}{unit}"
    if schema.get("uniqueItems"):
        yield "no entry twice"


def _list_paragraphs(schema: Manifest) -> Iterator[str]:
    """Yields the description and the rules of a field; of a list or map also those of its entries."""
    entry = _get_entry(schema)
    parts = (schema,) if entry is schema else (schema, entry)
    descriptions = [text(part, "description") for part in parts]
    rules = [rule for part in parts for rule in list_texts(part, "x-rules")]
    for title, paragraphs in (("DESCRIPTION", descriptions), ("RULES", rules)):
        if any(paragraphs):
            yield from (f"{title}:", *(_wrap(paragraph, 4) for paragraph in paragraphs if paragraph), "")


def _list_words(schema: Manifest) -> list[str]:
    choices = schema.get("enum")
    return list_choices(choices) if isinstance(choices, list) else []


def list_choices(choices: Iterable[JSON]) -> list[str]:
    """Returns the documented ones of allowed values: of words that differ only in case, the first."""
    documented: dict[str, str] = {}
    for choice in map(str, choices):
        documented.setdefault(choice.lower(), choice)
    return [*documented.values()]


def _list_fields(schema: Manifest, *, recursive: bool, depth: int = 1) -> Iterator[str]:
    """Yields the lines about each field below: with all fields below it, or with its description."""
    margin = "  " * depth
    fields = _get_fields(schema)
    for name in fields:
        field = mapping(fields, name)
        yield margin + _format_field(name, schema).replace(" ", "\t", 1)
        if words := _list_words(_get_entry(field)):
            yield f"{margin}enum: {', '.join(words)}"
        if recursive:
            yield from _list_fields(field, recursive=True, depth=depth + 1)
        else:
            yield from (_wrap(text(field, "description"), 2 * depth + 2), "")


def _wrap(paragraph: str, margin: int) -> str:
    width = _WIDTH - margin
    return indent(fill(paragraph, width, break_long_words=False, break_on_hyphens=False), " " * margin)
