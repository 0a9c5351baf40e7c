"""`explain`: what a field means, from the XRDs that come with this program: no control plane is asked."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from function.cli import files
from function.cli.asked import Form
from function.cli.errors import CliError, Code
from function.cli.options import examples, form
from function.cli.tables import structured
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.parse.problems import nearest

# In a wheel they lie beside the code, in a clone at the top.
_ROOM = Path(__file__).parents[1]
_FOLDER = _ROOM / "apis" if (_ROOM / "apis").is_dir() else _ROOM.parent / "apis"
_BOUNDS = ("default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")
_WIDTH = 100


@click.command(
    epilog=examples(
        "modelplane explain inferenceenvironment.spec.nodePools.capabilities", "modelplane explain modeldeployment.spec"
    )
)
@click.argument("field")
@form(Form.TABLE, Form.JSON, Form.YAML)
def explain(field: str, *, form: Form) -> None:
    """Say what FIELD (KIND.spec.path) means: its type, default, bounds, rules, and the fields below it."""
    kind, *keys = field.split(".")
    definition = _definition(kind)
    names = mapping(definition, "spec.names")
    path = [key.partition("[")[0] for key in keys]  # as messages write it: spec.nodePools[0].name
    found, required = _at(mapping(listing(definition, "spec.versions")[0], "schema.openAPIV3Schema"), path, field)
    said = {"kind": text(names, "kind"), "field": ".".join(path), **_about(found, required=required)}
    click.echo(_told(said) if form is Form.TABLE else structured(form, said))


def _definition(kind: str) -> Manifest:
    definitions: dict[str, Manifest] = {}
    for file in sorted(_FOLDER.glob("*/definition.yaml")):
        (definition,) = (found.manifest for found in files.read([str(file)]))
        names = mapping(definition, "spec.names")
        short = get(names, "shortNames")
        for name in (names["kind"], names["plural"], *(short if isinstance(short, list) else ())):
            definitions[str(name).lower()] = definition
    if kind.lower() not in definitions:
        kinds = sorted({text(d, "spec.names.kind") for d in definitions.values()})
        close = nearest(kind.lower(), definitions)
        advice = f"Did you mean {close}?" if close else f"There are {', '.join(kinds)}"
        raise CliError(f"there is no kind {kind}. {advice}", Code.NOT_FOUND)
    return definitions[kind.lower()]


def _at(schema: Manifest, path: Sequence[str], asked: str) -> tuple[Manifest, bool]:
    """Return the schema at a path, through lists and maps, and whether the field is required."""
    required = False
    for key in path:
        within = _inner(schema)
        below = mapping(within, "properties")
        if key in below:
            listed = get(within, "required")
            required = isinstance(listed, list) and key in listed
            schema = mapping(below, key)
        else:
            close = nearest(key, below)
            advice = f"Did you mean {close}?" if close else f"There are {', '.join(sorted(below)) or 'none below it'}"
            raise CliError(f"{asked}: {key} is not a field. {advice}", Code.NOT_FOUND)
    return schema, required


def _inner(schema: Manifest) -> Manifest:
    """Return the schema of what a list or a map holds, else itself."""
    for key in ("items", "additionalProperties"):
        if mapping(schema, key):
            return _inner(mapping(schema, key))
    return schema


def _type(schema: Manifest) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity or number"
    held = mapping(schema, "items") or mapping(schema, "additionalProperties")
    if text(schema, "type") == "array":
        return f"list of {_type(held)}"
    return f"map of {_type(held)}" if held else text(schema, "type") or "any"


def _about(schema: Manifest, *, required: bool) -> Manifest:
    within = _inner(schema)
    bounds = {key: value for source in (within, schema) for key, value in source.items() if key in _BOUNDS}
    fields: list[JSON] = [
        {"name": name, "type": _type(below), "description": text(below, "description")}
        for name, below in ((name, mapping(within, f"properties.{name}")) for name in mapping(within, "properties"))
    ]
    rules: list[JSON] = [
        ": ".join(filter(None, (text(rule, "fieldPath").lstrip("."), text(rule, "message"))))
        for rule in listing(within, "x-kubernetes-validations")
    ]
    return {
        "type": _type(schema),
        "required": required,
        "description": text(schema, "description"),
        "bounds": bounds,
        "rules": rules,
        "fields": fields,
    }


def _told(said: Manifest) -> str:
    return "\n".join(_lines(said))


def _lines(said: Manifest) -> Iterator[str]:
    yield f"KIND:   {text(said, 'kind')}"
    need = ", required" if said["required"] else ""
    yield f"FIELD:  {text(said, 'field') or '(whole)'}  <{text(said, 'type')}{need}>"
    if text(said, "description"):
        yield "\n" + textwrap.fill(text(said, "description"), _WIDTH)
    yield from (f"  {key}: {_short(value)}" for key, value in mapping(said, "bounds").items())
    rules = said["rules"]
    yield from (f"  rule: {rule}" for rule in (rules if isinstance(rules, list) else ()))
    fields = listing(said, "fields")
    if fields:
        yield "\nFIELDS:"
    for field in fields:
        yield f"  {text(field, 'name')}  <{text(field, 'type')}>"
        yield textwrap.indent(textwrap.fill(text(field, "description"), _WIDTH - 6), "      ")


def _short(value: JSON) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
