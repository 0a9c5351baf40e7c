"""`drain`, `cordon` and `uncordon`: take an environment out of service with a taint, and back.

What would follow is decided by the planner before anything is written. The taint is applied on its own, so that other
taints of the environment stay.
"""

import time
from collections import Counter
from collections.abc import Iterator

import click

from function.cli import options, tables
from function.cli.inputs import Inventory, load_inventory
from function.cli.live import Cluster, connect, pause
from function.cli.options import DRY_RUN, TIMEOUT, CliError, Code, Sources, examples, read_name
from function.cli.planning import Plan, plan_deployments
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, condition, is_condition_current, listing, mapping, prune, text
from function.kube.messages import format_count
from function.kube.names import GROUP, VERSION
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE
from function.reasons import ConditionType, Status

_KEYS = {NO_SCHEDULE: f"{GROUP}/cordon", NO_EXECUTE: f"{GROUP}/drain"}
_MOVES = "moves"
_STAYS = "stays"
_STUCK = "cannot move"
_COLOURS = {_MOVES: tables.GOOD, _STAYS: tables.WAIT, _STUCK: tables.BAD}
_ENVIRONMENT = click.argument("environment", type=read_name("InferenceEnvironment"))
_REASON = click.option("--reason", metavar="TEXT", help="Why; shown in messages.")


@click.command(epilog=examples("drain"))
@_ENVIRONMENT
@_REASON
@click.option("--force", is_flag=True, help="Drain also if some placements cannot move: they keep serving.")
@click.option("--wait", is_flag=True, help="Wait until everything has moved.")
@TIMEOUT
@DRY_RUN
@options.CLUSTER
@options.add_output_options
def drain(  # noqa: PLR0913  # one for each option
    environment: str, *, reason: str | None, force: bool, wait: bool, timeout: int, dry_run: bool, sources: Sources
) -> None:
    """Move everything from an environment to others; each model serves until its replacement is Ready.

    Prints first what would move where, and what cannot and why. In that case nothing is written without --force.
    """
    inventory, ref = _load(sources, environment)
    taint = _build_taint(NO_EXECUTE, reason)
    rows = list(_list_moves(inventory, ref, taint))
    if rows:
        cells = ([tables.paint(row[0], _COLOURS[row[0]]), *row[1:]] for row in rows)
        click.echo(tables.format_table(["VERDICT", "PLACEMENT", "TO", "WHY"], cells) + "\n")
    counts = Counter(row[0] for row in rows)
    words = {_MOVES: "to move", _STAYS: "to stay", _STUCK: _STUCK}
    summary = ", ".join(f"{counts[v]} {word}" for v, word in words.items() if counts[v]) or "nothing runs there"
    if counts[_STUCK] and not force:
        message = f"{ref} is not drained: {format_count(counts[_STUCK], 'placement')} cannot move"
        raise CliError(f"{message}. Make room, or drain the others with --force", Code.REFUSED)
    if dry_run:
        click.echo(f"{ref} would be drained: {summary}")
        return
    cluster = connect(sources)
    _apply(cluster, ref, taint)
    click.echo(f"{ref} is being drained: {summary}")
    if wait:
        _wait(cluster, ref, timeout)


@click.command(epilog=examples("cordon"))
@_ENVIRONMENT
@_REASON
@DRY_RUN
@options.CLUSTER
@options.add_output_options
def cordon(environment: str, *, reason: str | None, dry_run: bool, sources: Sources) -> None:
    """Place nothing new on an environment, and let nothing on it grow; what runs there stays."""
    inventory, ref = _load(sources, environment)
    taint = _build_taint(NO_SCHEDULE, reason)
    # A drained environment is cordoned as well, and stays drained.
    already = _list_own_taints(inventory.store[ref])
    if not already and not dry_run:
        _apply(connect(sources), ref, taint)
    click.echo(f"{ref} {'already ' if already else ''}cordoned{' (dry run)' if dry_run else ''}")


@click.command(epilog=examples("uncordon"))
@_ENVIRONMENT
@DRY_RUN
@options.CLUSTER
@options.add_output_options
def uncordon(environment: str, *, dry_run: bool, sources: Sources) -> None:
    """Remove the taints of drain and cordon. What has moved does not move back."""
    inventory, ref = _load(sources, environment)
    own = _list_own_taints(inventory.store[ref])
    if own and not dry_run:
        _apply(connect(sources), ref)
    click.echo(f"{ref} {'' if own else 'already '}uncordoned{' (dry run)' if dry_run else ''}")
    others = [text(taint, "key") for taint in listing(inventory.store[ref], "spec.taints") if taint not in own]
    if others:
        tables.warn(f"{ref} keeps other taints: {', '.join(others)}")


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


def _list_moves(inventory: Inventory, ref: Ref, taint: Manifest) -> Iterator[tuple[str, str, str, str]]:
    """Yields for each placement on an environment what the taint does: verdict, name, target and reason."""
    store = inventory.store
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
        verdict, target, reason = _judge(plans.get(owner), ref.name)
        yield verdict, f"{placement.namespace}/{owner.name or placement.name}", target, reason


def _judge(plan: Plan | None, environment: str) -> tuple[str, str, str]:
    """Returns whether what a deployment has on an environment moves: verdict, targets and reason."""
    if plan is None:
        return _STAYS, "", "no deployment moves it"
    if plan.scheduling is None:
        return _STUCK, "", f"{plan.condition.reason}: {plan.condition.message}"
    assignments = plan.decision.assignments
    if any(assignment.environment == environment for assignment in assignments):
        return _STAYS, "", "tolerates the taint"
    there = {text(manifest, "spec.inferenceEnvironmentRef.name") for manifest in plan.call.observed.values()}
    targets = [f"{a.environment}/{a.pool}" for a in assignments if a.environment not in there]
    if targets or plan.is_placed:
        return _MOVES, ", ".join(targets), ""
    refusals = (f"{each.environment}: {each.message}" for each in plan.decision.refusals)
    others = [refusal for refusal in refusals if not refusal.startswith(f"{environment}: ")]
    return _STUCK, "", "; ".join(others) or "there is no other environment"


def _wait(cluster: Cluster, ref: Ref, timeout: int) -> None:
    """Waits until the environment is drained and prints who is left whenever that changes."""
    last_message = ""
    deadline = time.monotonic() + timeout
    while True:
        manifest = cluster.get(ref) or {}
        drained = condition(manifest, ConditionType.DRAINED)
        message = text(drained, "message")
        is_known = text(drained, "reason") != "NotDraining" and is_condition_current(manifest, ConditionType.DRAINED)
        if is_known and message != last_message:
            click.echo(message)
            last_message = message
        if is_known and drained.get("status") == Status.TRUE:
            click.echo(f"{ref} drained")
            return
        pause(deadline, f"{ref} is not drained after {timeout} seconds: {message}")
