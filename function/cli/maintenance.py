"""`drain`, `cordon` and `uncordon`: take an environment out of service with a taint, and back.

What would follow is decided by the planner before anything is written. The taint is applied on its own, so that other
taints of the environment stay.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import click

from function.cli import options, tables
from function.cli.gpus import list_usages
from function.cli.inputs import Inventory, load_inventory
from function.cli.live import Cluster, connect, pause
from function.cli.names import complete_names
from function.cli.options import DRY_RUN, TIMEOUT, CliError, Code, Form, Sources, examples, form, read_name
from function.cli.planning import Plan, plan_deployments
from function.cli.store import Ref
from function.domain.allocation import Cost, add_up
from function.kube.manifests import JSON, Manifest, condition, is_condition_current, listing, mapping, prune, text
from function.kube.messages import format_count
from function.kube.names import GROUP, VERSION
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE
from function.reasons import ConditionType, Status
from function.scheduling.verdicts import Assignment

_KEYS = {NO_SCHEDULE: f"{GROUP}/cordon", NO_EXECUTE: f"{GROUP}/drain"}
_MOVES = "moves"
_STAYS = "stays"
_STUCK = "cannot move"
_COLOURS = {_MOVES: tables.GOOD, _STAYS: tables.WAIT, _STUCK: tables.BAD}
_ENVIRONMENT = click.argument(
    "environment", type=read_name("InferenceEnvironment"), shell_complete=complete_names("InferenceEnvironment")
)
_REASON = click.option("--reason", metavar="TEXT", help="Why; shown in messages.")


_FORMS = (Form.TABLE, Form.JSON, Form.YAML)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a drain does to one placement."""

    verdict: str
    placement: str = ""  # the deployment as NAMESPACE/NAME, or the placement if it has no deployment
    to: str = ""  # ENVIRONMENT/POOL
    reason: str = ""
    before: Cost | None = None  # None: the pool has no price
    after: Cost | None = None  # of what moves, once it has moved


@click.command(epilog=examples("drain"))
@_ENVIRONMENT
@_REASON
@click.option("--force", is_flag=True, help="Drain also if some placements cannot move: they keep serving.")
@click.option("--wait", is_flag=True, help="Wait until everything has moved.")
@TIMEOUT
@DRY_RUN
@options.FILES_OR_CLUSTER
@form(*_FORMS)
def drain(  # noqa: PLR0913  # one for each option
    environment: str, *, reason: str | None, force: bool, wait: bool, timeout: int, dry_run: bool, sources: Sources,
    form: Form,
) -> None:  # fmt: skip
    """Move everything from an environment to others; each model serves until its replacement is Ready.

    Prints first what would move where and what that costs, and what cannot and why. In that case nothing is written
    without --force. With -f and --dry-run, it decides from files, as if everything in them were up.
    """
    if sources.files and not dry_run:
        raise CliError("drain writes to the control plane, and files stay as they are. Add --dry-run, or leave out -f")
    inventory, ref = _load(sources, environment)
    if sources.files:
        plan_deployments(inventory)
    taint = _build_taint(NO_EXECUTE, reason)
    moves = list(_list_moves(inventory, ref, taint))
    counts = Counter(move.verdict for move in moves)
    words = {_MOVES: "to move", _STAYS: "to stay", _STUCK: _STUCK}
    summary = ", ".join(f"{counts[v]} {word}" for v, word in words.items() if counts[v]) or "nothing runs there"
    is_refused = bool(counts[_STUCK] and not force)
    if form is not Form.TABLE:
        click.echo(tables.format_data(form, _build_data(ref, moves, drains=not is_refused and not dry_run)))
    elif moves:
        click.echo(_format_moves(moves) + "\n")
    if is_refused:
        message = f"{ref} is not drained: {format_count(counts[_STUCK], 'placement')} cannot move"
        raise CliError(f"{message}. Make room, or drain the others with --force", Code.REFUSED)
    # Data on standard output is alone there.
    tell = partial(click.echo, err=form is not Form.TABLE)
    if dry_run:
        tell(f"{ref} would be drained: {summary}")
        return
    cluster = connect(sources)
    _apply(cluster, ref, taint)
    tell(f"{ref} is being drained: {summary}")
    if wait:
        _wait(cluster, ref, timeout, tell)


def _format_moves(moves: Sequence[Move]) -> str:
    """Returns a table of the moves, and what they change in costs where pools have prices."""
    is_priced = any(move.before or move.after for move in moves)
    rows = []
    for move in moves:
        cost = _format_change(move) if is_priced else ""
        row = (tables.paint(move.verdict, _COLOURS[move.verdict]), move.placement, move.to)
        rows.append((*row, *((cost,) if is_priced else ()), move.reason))
    table = tables.format_table(["VERDICT", "PLACEMENT", "TO", *(["COST"] if is_priced else []), "WHY"], rows)
    before, after = _add_up_costs(moves)
    totals = " -> ".join(" and ".join(map(str, costs)) or "no price" for costs in (before, after))
    return f"{table}\n\ncost of what moves: {totals}" if before or after else table


def _format_change(move: Move) -> str:
    """Returns the cost before and after a move, of which either may be unknown."""
    if move.verdict != _MOVES:
        return str(move.before or "")
    return " -> ".join(str(cost or "no price") for cost in (move.before, move.after))


def _add_up_costs(moves: Iterable[Move]) -> tuple[tuple[Cost, ...], tuple[Cost, ...]]:
    """Returns the costs of all that moves, before and after, as far as pools have prices."""
    moving = [move for move in moves if move.verdict == _MOVES]
    return add_up(m.before for m in moving if m.before), add_up(m.after for m in moving if m.after)


def _build_data(ref: Ref, moves: Sequence[Move], *, drains: bool) -> dict[str, object]:
    before, after = _add_up_costs(moves)
    rows = [{field.name: getattr(move, field.name) for field in fields(Move)} for move in moves]
    return {"environment": ref.name, "drains": drains, "moves": rows, "costs": {"before": before, "after": after}}


@click.command(epilog=examples("cordon"))
@_ENVIRONMENT
@_REASON
@DRY_RUN
@options.CLUSTER
@form(*_FORMS)
def cordon(environment: str, *, reason: str | None, dry_run: bool, sources: Sources, form: Form) -> None:
    """Place nothing new on an environment, and let nothing on it grow; what runs there stays."""
    inventory, ref = _load(sources, environment)
    taint = _build_taint(NO_SCHEDULE, reason)
    # A drained environment is cordoned as well, and stays drained.
    already = _list_own_taints(inventory.store[ref])
    if not already and not dry_run:
        _apply(connect(sources), ref, taint)
    _report(ref, "cordoned", form, changes=not already, dry_run=dry_run)


@click.command(epilog=examples("uncordon"))
@_ENVIRONMENT
@DRY_RUN
@options.CLUSTER
@form(*_FORMS)
def uncordon(environment: str, *, dry_run: bool, sources: Sources, form: Form) -> None:
    """Remove the taints of drain and cordon. What has moved does not move back."""
    inventory, ref = _load(sources, environment)
    own = _list_own_taints(inventory.store[ref])
    if own and not dry_run:
        _apply(connect(sources), ref)
    _report(ref, "uncordoned", form, changes=bool(own), dry_run=dry_run)
    others = [text(taint, "key") for taint in listing(inventory.store[ref], "spec.taints") if taint not in own]
    if others:
        tables.warn(f"{ref} keeps other taints: {', '.join(others)}")


def _report(ref: Ref, state: str, form: Form, *, changes: bool, dry_run: bool) -> None:
    """Prints the state of an environment after a command, and whether the command changes it."""
    if form is Form.TABLE:
        click.echo(f"{ref} {'' if changes else 'already '}{state}{' (dry run)' if dry_run else ''}")
    else:
        data = {"environment": ref.name, "state": state, "changed": changes and not dry_run, "dryRun": dry_run}
        click.echo(tables.format_data(form, data))


def _load(sources: Sources, environment: str) -> tuple[Inventory, Ref]:
    inventory = load_inventory(sources)
    ref = Ref("InferenceEnvironment", "", environment)
    inventory.store.require(ref)
    return inventory, ref


def _build_taint(effect: str, reason: str | None) -> Manifest:
    return prune({"key": _KEYS[effect], "effect": effect, "reason": reason})


def _list_own_taints(environment: Manifest) -> list[Manifest]:
    return [taint for taint in listing(environment, "spec.taints") if text(taint, "key") in _KEYS.values()]


def _apply(cluster: Cluster, ref: Ref, *taints: Manifest) -> None:
    spec: Manifest = {"taints": [*taints]}
    cluster.apply({"apiVersion": VERSION, "kind": ref.kind, "metadata": {"name": ref.name}, "spec": spec})


def _list_moves(inventory: Inventory, ref: Ref, taint: Manifest) -> Iterator[Move]:
    """Yields for each placement on an environment what the taint does."""
    store = inventory.store
    costs = {
        (holding.placement.namespace, holding.placement.name): usage.pool.price.cost(holding.share.gpus)
        for usage in list_usages(store)
        if usage.environment.name == ref.name and usage.pool and usage.pool.price
        for holding in usage.holdings
    }
    owners = {
        placement: Ref("ModelDeployment", placement.namespace, text(store[placement], "spec.deploymentRef.name"))
        for placement in store.refs("ModelPlacement")
        if text(store[placement], "spec.inferenceEnvironmentRef.name") == ref.name
    }
    others: list[JSON] = [t for t in listing(store[ref], "spec.taints") if text(t, "key") not in _KEYS.values()]
    store.put({**store[ref], "spec": {**mapping(store[ref], "spec"), "taints": [*others, taint]}})
    deployments = sorted({owner for owner in owners.values() if owner in store})
    plans = plan_deployments(inventory, deployments)
    for placement, owner in owners.items():
        name = f"{placement.namespace}/{owner.name or placement.name}"
        before = costs.get((placement.namespace, placement.name))
        yield replace(_judge(plans.get(owner), ref.name), placement=name, before=before)


def _judge(plan: Plan | None, environment: str) -> Move:
    """Returns whether what a deployment has on an environment moves: verdict, target, reason and later cost."""
    if plan is None:
        return Move(verdict=_STAYS, reason="no deployment moves it")
    if plan.scheduling is None:
        return Move(verdict=_STUCK, reason=f"{plan.condition.reason}: {plan.condition.message}")
    assignments = plan.decision.assignments
    if any(assignment.environment == environment for assignment in assignments):
        return Move(verdict=_STAYS, reason="tolerates the taint")
    there = {text(manifest, "spec.inferenceEnvironmentRef.name") for manifest in plan.call.observed.values()}
    growing = {a.environment for a in assignments if a.placement and a.replicas > a.placement.replicas}
    targets = [assignment for assignment in assignments if assignment.environment not in there - growing]
    # Divided replicas stay until all that are requested run elsewhere.
    if (targets and not plan.decision.missing_replicas) or plan.is_placed:
        to = ", ".join(f"{target.environment}/{target.pool}" for target in targets)
        costs = add_up(filter(None, map(_cost_of_new_replicas, targets)))
        return Move(verdict=_MOVES, to=to, after=costs[0] if len(costs) == 1 else None)
    refusals = (f"{each.environment}: {each.message}" for each in plan.decision.refusals)
    elsewhere = [refusal for refusal in refusals if not refusal.startswith(f"{environment}: ")]
    return Move(verdict=_STUCK, reason="; ".join(elsewhere) or "there is no other environment")


def _cost_of_new_replicas(target: Assignment) -> Cost | None:
    has = target.placement.replicas if target.placement else 0
    return replace(target, replicas=target.replicas - has).cost


def _wait(cluster: Cluster, ref: Ref, timeout: int, tell: Callable[[str], None]) -> None:
    """Waits until the environment is drained and prints who is left whenever that changes."""
    last_message = ""
    deadline = time.monotonic() + timeout
    while True:
        manifest = cluster.get(ref) or {}
        drained = condition(manifest, ConditionType.DRAINED)
        message = text(drained, "message")
        is_known = text(drained, "reason") != "NotDraining" and is_condition_current(manifest, ConditionType.DRAINED)
        if is_known and message != last_message:
            tell(message)
            last_message = message
        if is_known and drained.get("status") == Status.TRUE:
            tell(f"{ref} drained")
            return
        pause(deadline, f"{ref} is not drained after {timeout} seconds: {message}")
