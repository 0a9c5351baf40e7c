"""`plan -o svg`: pools with their GPUs, what others take, what a placement takes, and where it fails and why."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from function.cli.candidates import Row
from function.cli.planning import Plan
from function.cli.svg import (
    BOLD,
    DIM,
    FREE,
    INK,
    MARGIN,
    NO,
    OURS,
    OURS_NAME,
    SMALL,
    TAKEN,
    Canvas,
    Drawn,
    about,
    document,
    unusable,
)
from function.composers.deployment import Considered, placed
from function.domain.environment import Environment, Pool
from function.domain.shares import Share
from function.reasons import Status
from function.report.sentences import count
from function.scheduling.holdings import take, whole
from function.scheduling.ledger import Ledger

_ENVIRONMENTS_DRAWN = 12
_TILE, _TILES = 22, 36


def draw(plans: Iterable[Plan]) -> str:
    """Return the picture."""
    canvas = Canvas()
    for plan in plans:
        _plan(canvas, plan)
    return document(canvas)


def _overview(canvas: Canvas, plan: Plan, names: Sequence[str]) -> None:
    """Draw a tile for each environment, nearest first: whether it serves, would, or refuses and why."""
    best = {name: next(row for row in plan.rows if row.environment == name) for name in names}
    served = sum(row.serves for row in best.values())
    fits = sum(not row.refusals and not row.serves for row in best.values())
    canvas.y += 8
    canvas.text(MARGIN, f"{count(len(names), 'environment')}, nearest first", INK, BOLD)
    refusing = len(names) - served - fits
    canvas.legend((OURS, f"{served} chosen"), (TAKEN, f"{fits} would do"), (NO, f"{refusing} refuse"))
    canvas.y += 8
    for index, (name, row) in enumerate(best.items()):
        x, y = MARGIN + index % _TILES * (_TILE + 1), canvas.y + index // _TILES * (_TILE + 1)
        fill = OURS if row.serves else NO if row.refusals else TAKEN
        why = escape(f"{name}: {_said(row)}")
        canvas.lines.append(
            f'<g><title>{why}</title><rect x="{x}" y="{y}" width="{_TILE}" height="{_TILE}" rx="3" fill="{fill}"/></g>'
        )
    canvas.y += -(-len(names) // _TILES) * (_TILE + 1) + 8


def _plan(canvas: Canvas, plan: Plan) -> None:
    decision = plan.decision
    placed = decision.status is Status.TRUE
    canvas.text(MARGIN, f"{plan.ref}: {decision.reason}", OURS if placed else NO, BOLD)
    canvas.text(MARGIN, decision.message.partition("\n")[0], DIM, SMALL)
    if plan.considered is None:
        return
    # Nearest first, as in the table.
    names = list(dict.fromkeys(row.environment for row in plan.rows))
    environments = {environment.name: environment for environment in plan.considered.environments}
    drawn = (pool for name in names[:_ENVIRONMENTS_DRAWN] for pool in environments[name].pools)
    canvas.legend((OURS, OURS_NAME), (TAKEN, "others"), (FREE, "free GPU"), *unusable(drawn))
    if len(names) > _ENVIRONMENTS_DRAWN:
        _overview(canvas, plan, names)
    for name in names[:_ENVIRONMENTS_DRAWN]:
        rows = [row for row in plan.rows if row.environment == name]
        _environment(canvas, plan.considered, environments[name], rows)
    if len(names) > _ENVIRONMENTS_DRAWN:
        canvas.text(MARGIN, f"and {count(len(names) - _ENVIRONMENTS_DRAWN, 'environment')} more", DIM)


def _environment(canvas: Canvas, considered: Considered, environment: Environment, rows: list[Row]) -> None:
    with canvas.framed() as left:
        state = "" if environment.ready else " (not Ready)"
        canvas.text(left, environment.name + state, INK, BOLD)
        for row in (row for row in rows if not row.pool):
            canvas.text(left, _said(row), _colour(row), SMALL)
        for pool in environment.pools:
            canvas.text(left, about(pool), DIM, SMALL)
            canvas.nodes(left, _room(considered, environment, pool))
            for row in (row for row in rows if row.pool == pool.name and not row.faults):
                canvas.text(left, _said(row), _colour(row), SMALL)
        for row in (row for row in rows if row.faults):
            canvas.text(left, f"pool {row.pool}: {row.verdict}, {row.message}", NO, SMALL)


def _said(row: Row) -> str:
    profile = f"{row.profile}: " if row.profile else ""
    if row.refusals:
        return f"{profile}{row.verdict}, {row.message}"
    return f"{profile}{row.verdict}, {row.replica}" + (f", {row.found}" if row.found else "")


def _colour(row: Row) -> str:
    return OURS if row.serves else NO if row.refusals else DIM


def _room(considered: Considered, environment: Environment, pool: Pool) -> Drawn:
    lacking = pool.max_nodes - pool.usable_nodes
    room = Drawn(pool.max_nodes, pool.gpus_per_node, lost=lacking, whole=whole(pool))
    others = {(p.namespace, p.name): p for p in considered.view.others if p.environment == environment.name}
    ledger = Ledger(considered.view.others, considered.view.own)
    for grant in ledger.left(environment, pool).grants:
        holder = others.get((grant.namespace, grant.name))
        room.owner = f"{grant.namespace}/{(holder and holder.deployment) or grant.name}"
        take(room, grant.share)
    room.owner = OURS_NAME
    for share in _ours(considered, environment, pool):
        take(room, share)
    return room


def _ours(considered: Considered, environment: Environment, pool: Pool) -> Iterator[Share]:
    for chosen in considered.decision.assignments:
        share = placed(considered.request, chosen).asks
        if share and (chosen.environment, share.pool) == (environment.name, pool.name):
            yield share
