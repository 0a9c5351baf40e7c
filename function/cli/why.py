"""`why`: every refusal behind a deployment's condition, nearest miss first, and what to change.

The condition is cut at 1 KiB and five environments; here is all of it, from the same refusals. Where enough is placed
but not ready, the placements' own conditions say what is waited for.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from function.cli.asked import Form, Sources
from function.cli.complete import names
from function.cli.gathered import KINDS, gather
from function.cli.grouped import GROUPS, Group, groups
from function.cli.invalid_objects import warn
from function.cli.options import examples, form, sources
from function.cli.planning import Plan, make
from function.cli.remarks import preferred
from function.cli.store import Ref, Store
from function.cli.tables import BAD, DIM, GOOD, WAIT, hint, paint, structured, wrapped
from function.exchange import Condition
from function.kube.manifests import Manifest, listing, text
from function.reasons import Outlook, Status
from function.report.bounded import SHOWN
from function.report.conditions import OWNED
from function.report.explain import open_misses
from function.report.sentences import remedy, sentence
from function.scheduling.verdicts import Miss


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one environment or placement does not serve, as it is written. `outlook`: whether waiting can help."""

    subject: str
    reason: str
    outlook: str = ""
    faults: tuple[str, ...]
    remedies: tuple[str, ...] = ()


@click.command(
    epilog=examples("modelplane why kimi-k2 -n assistants", "modelplane why kimi-k2 -f examples/kimi-k2-two-nodes")
)
@click.argument("deployment", required=False, shell_complete=names("ModelDeployment"))
@sources
@click.option("--all", "every", is_flag=True, help="Every environment; more than five are grouped otherwise.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def why(deployment: str | None, *, sources: Sources, every: bool, form: Form) -> None:
    """Say why a deployment is not placed or not ready, and what to change."""
    world = gather(sources)
    warn(world.store, KINDS)
    ref = world.deployment(deployment)
    (made,) = make(world, [ref])
    conditions = made.outcome.conditions
    misses = open_misses(made.considered.decision) if made.considered else []
    whole = every or form is not Form.TABLE or len(misses) <= SHOWN
    reasons = [*_fault(made), *map(_reason, misses if whole else ()), *_unready(world.store, ref)]
    if form is Form.TABLE:
        _tell(ref, conditions, reasons)
        for remark in preferred(made.rows):
            click.echo(f"  note: {remark}")
        if not whole:
            _tell_groups(groups(misses), len(reasons))
        hint(_next(ref, sources, placed=not reasons and not misses))
    else:
        click.echo(structured(form, _structured(ref, conditions, reasons)))


def _fault(made: Plan) -> Iterator[Reason]:
    fault = made.considered.decision.fault if made.considered else None
    if fault is not None:
        yield Reason(subject=str(made.ref), reason=fault.reason, faults=(sentence(fault),))


def _reason(miss: Miss) -> Reason:
    profile = miss.refusals[0].profile
    return Reason(
        subject=miss.environment + (f", profile {profile}" if profile else ""),
        reason=miss.reason,
        faults=tuple(map(sentence, miss.refusals)),
        remedies=tuple(text_ for text_ in map(remedy, miss.refusals) if text_),
        outlook="not now" if miss.outlook is Outlook.NOT_NOW else "never as things are",
    )


def _unready(store: Store, ref: Ref) -> Iterator[Reason]:
    for placement in store.owned(ref).values():
        faults = [c for c in listing(placement, "status.conditions") if _holds_back(c)]
        if faults:
            yield Reason(
                subject=f"{text(placement, 'metadata.name')} on {text(placement, 'spec.inferenceEnvironmentRef.name')}",
                reason=text(faults[0], "reason"),
                faults=tuple(f"{text(c, 'type')} is {text(c, 'status')}: {text(c, 'message')}" for c in faults),
                outlook=text(placement, "status.phase"),
            )


def _holds_back(condition: Manifest) -> bool:
    return condition.get("type") in OWNED["ModelPlacement"] and condition.get("status") != Status.TRUE


def _tell(ref: Ref, conditions: tuple[Condition, ...], reasons: list[Reason]) -> None:
    click.echo(str(ref))
    for condition in conditions:
        colour = {Status.TRUE: GOOD, Status.FALSE: BAD, Status.UNKNOWN: WAIT}[condition.status]
        first = condition.message.partition("\n")[0]
        click.echo(wrapped(f"  {condition.type} {paint(condition.status, colour)} {condition.reason}: {first}", 4))
    for number, reason in enumerate(reasons, 1):
        title = f"{number}. {reason.subject}: {paint(reason.reason, BAD)} {paint(f'({reason.outlook})', DIM)}"
        click.echo(f"\n{wrapped(title, 3)}")
        for fault in reason.faults:
            click.echo(wrapped(f"   - {fault}", 5))
        for remedy_ in reason.remedies:
            click.echo(wrapped(f"   {paint('do', GOOD)}: {remedy_}", 5))


def _tell_groups(found: list[Group], before: int) -> None:
    for number, group in enumerate(found[:GROUPS], before + 1):
        click.echo(wrapped(f"\n{number}. {group.title}", 3))
        for line in group.lines:
            click.echo(wrapped(f"   {line}", 5))
    more = f" and {len(found) - GROUPS} more groups" if len(found) > GROUPS else ""
    click.echo(f"\nEvery environment{more}: --all")


def _structured(ref: Ref, conditions: tuple[Condition, ...], reasons: list[Reason]) -> Manifest:
    return {
        "namespace": ref.namespace,
        "name": ref.name,
        "conditions": list(map(asdict, conditions)),
        "reasons": list(map(asdict, reasons)),
    }


def _next(ref: Ref, sources: Sources, *, placed: bool) -> str:
    if not placed:
        return f"capacity{sources.again}"
    return f"render{sources.again} --all-clusters" if sources.files else f"tree {ref.name} -n {ref.namespace}"
