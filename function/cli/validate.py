"""`validate`: what the API server would refuse, what it would drop in silence, and what refers to nothing.

The rules are those of the function's own parser, which checks again all that the XRDs and their CEL rules say. A
reference is followed where an object of its kind is among the files, or with --live on the control plane; where
neither is so, nothing can be said about it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from function.cli.asked import Form, Sources, Target
from function.cli.cautions import cautions
from function.cli.composition import CONFIG
from function.cli.dangling import faults
from function.cli.errors import Code
from function.cli.files import Found, read
from function.cli.gathered import KINDS, gather
from function.cli.invalid_objects import READ
from function.cli.nodes import contradictions
from function.cli.options import FILES, examples, form, target
from function.cli.store import Ref, Store, is_known, is_ours, namespaced
from function.cli.tables import BAD, GOOD, WAIT, paint, structured
from function.composers import COMPOSERS
from function.domain.problem import Problem
from function.kube.manifests import Manifest, listing, mapping, text
from function.kube.names import GROUP, VERSION
from function.parse.fields import SPECS, unknown_fields
from function.parse.problems import join, unknown
from function.parse.settings import ENVIRONMENT_KEY, read_settings
from function.report.sentences import count

_INPUT = "modelplane.fn.crossplane.io/"
# A DNS subdomain, as the API server wants every name to be.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one object in one file; `caution`: it is allowed, and most likely not meant."""

    file: str
    ref: Ref
    problem: Problem
    caution: bool = False


@click.command(
    epilog=examples(
        "modelplane validate examples/",
        "modelplane validate deployment.yaml --live",
        "cat model.yaml | modelplane validate - -o json",
    )
)
@click.argument("paths", metavar="FILE...", nargs=-1, type=click.Path())
@FILES
@click.option(
    "--live", is_flag=True, help="Follow references to the control plane as well, and compare pools with nodes."
)
@target
@click.option("--strict", is_flag=True, help="Exit 1 for a warning, too.")
@form(Form.TABLE, Form.JSON, Form.YAML)
@click.pass_context
def validate(  # noqa: PLR0913  # click's options
    context: click.Context,
    /,
    paths: tuple[str, ...],
    *,
    files: tuple[str, ...],
    live: bool,
    target: Target,
    strict: bool,
    form: Form,
) -> None:
    """Check files: fields, rules across fields, references. Exits 1 where there is a fault.

    What is allowed and most likely not meant is a warning: memory without its unit, weights that the GPUs may not hold.

    Objects of other groups are passed over. FILE is a file, a folder or - for standard input.
    """
    if not paths and not files:
        raise click.UsageError("Missing FILE")
    found = [item for item in read((*paths, *files)) if is_known(item.manifest)]
    store = gather(Sources(live=True, target=target), (*KINDS, "Object")).store if live else Store()
    told = check(found, store, target.namespace or "default")
    if form is Form.TABLE:
        _tell(found, told)
    else:
        click.echo(structured(form, [_structured(fault) for fault in told]))
    if any(strict or not fault.caution for fault in told):
        context.exit(Code.REFUSED)


def check(found: list[Found], store: Store, namespace: str) -> list[Fault]:
    """Return every fault, file by file; the objects are laid over those of the store."""
    ours = [Found(m, item.file) for item in found for m in namespaced([item.manifest], namespace)]
    seen: dict[Ref, str] = {}
    wrong: list[Fault] = []
    for item in ours:
        ref = Ref.of(item.manifest)
        if ref in seen:
            twice = Problem("metadata.name", f"{ref} is given twice, in {seen[ref]} too")
            wrong.append(_fault(item, twice))
        seen[ref] = item.file
        store.put(item.manifest)
    for item in ours:
        problems = sorted({*_problems(item.manifest), *faults(store, item.manifest)})
        wrong += (_fault(item, problem) for problem in problems)
        doubts = sorted({*cautions(store, item.manifest), *contradictions(store, item.manifest)})
        wrong += (_fault(item, problem, caution=True) for problem in doubts)
    return sorted(wrong, key=lambda fault: (fault.caution, fault.file, fault.ref, fault.problem))


def _fault(item: Found, problem: Problem, *, caution: bool = False) -> Fault:
    return Fault(file=item.file, ref=Ref.of(item.manifest), problem=problem, caution=caution)


def _problems(manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "metadata.name")
    if len(name) > _LONGEST or _NAME.fullmatch(name) is None:
        allowed = f"must be lower-case letters, digits, - and ., {_LONGEST} at most"
        yield Problem("metadata.name", f"{json.dumps(name)} is not allowed; {allowed}")
    if text(manifest, "kind") == CONFIG:
        context: Manifest = {ENVIRONMENT_KEY: mapping(manifest, "data")}
        yield from (Problem(f"data.{p.path}", p.message) for p in read_settings({}, context).problems)
    if text(manifest, "kind") == "Composition":
        yield from _composition(manifest)
    elif is_ours(manifest):
        yield from unknown_fields(SPECS[text(manifest, "kind")], manifest.get("spec"), "spec")
        yield from READ[text(manifest, "kind")](manifest).problems
    elif text(manifest, "apiVersion").startswith(f"{GROUP}/"):
        if text(manifest, "apiVersion") != VERSION:
            yield unknown("apiVersion", manifest.get("apiVersion"), (VERSION,))
        if text(manifest, "kind") not in COMPOSERS:
            yield unknown("kind", manifest.get("kind"), tuple(COMPOSERS))


def _composition(manifest: Manifest) -> Iterator[Problem]:
    """Return what is wrong with the function's input in a Composition."""
    for index, step in enumerate(listing(manifest, "spec.pipeline")):
        input_ = mapping(step, "input")
        if not text(input_, "apiVersion").startswith(_INPUT):
            continue
        path = join(join("spec.pipeline", index), "input")
        fields: Manifest = {k: v for k, v in input_.items() if k not in ("apiVersion", "kind", "metadata")}
        yield from (Problem(p.path.replace("input", path, 1), p.message) for p in read_settings(fields, {}).problems)


def _tell(found: list[Found], told: list[Fault]) -> None:
    for fault in told:
        path = paint(fault.problem.path, WAIT if fault.caution else BAD)
        level = "warning: " if fault.caution else ""
        click.echo(f"{level}{fault.file}: {fault.ref}: {path}: {fault.problem.message}")
    wrong, doubts = ([f for f in told if f.caution is caution] for caution in (False, True))
    objects = count(len(found), "object")
    summary = f"{count(len(wrong), 'fault')} in {objects}" if wrong else f"{objects} {paint('valid', GOOD)}"
    click.echo(("\n" if told else "") + summary + (f", {count(len(doubts), 'warning')}" if doubts else ""))


def _structured(fault: Fault) -> Manifest:
    return {
        "file": fault.file,
        "kind": fault.ref.kind,
        "namespace": fault.ref.namespace,
        "name": fault.ref.name,
        "path": fault.problem.path,
        "message": fault.problem.message,
        "level": "warning" if fault.caution else "error",
    }
