"""`plan -o svg`: clusters, pools, nodes and GPUs, what others take, what a placement takes, and where it fails and why.

GPUs are drawn where the scheduler's ledger takes them: the drawing is told of every move that the ledger makes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, islice
from textwrap import wrap

from function.cli.candidates import Row
from function.cli.planning import Plan
from function.composers.deployment import Considered
from function.domain.environment import Environment, Pool
from function.reasons import Status
from function.report.hardware import lost
from function.report.sentences import count
from function.scheduling.ledger import settle, take
from function.scheduling.pool_capacity import PoolCapacity

_WIDTH, _MARGIN = 880, 16
_GPU, _GAP = 9, 2
_NODES_DRAWN, _ENVIRONMENTS_DRAWN, _CHARACTERS, _LINES = 12, 12, 120, 12
_FREE, _OTHERS, _OURS = "#ffffff", "#8b98ad", "#1f9d55"
_INK, _DIM, _LINE, _NO = "#1b2430", "#5c6877", "#c6ced8", "#c0392b"
_PER_ROW = 4
# What each colour is where the reader's system is dark; nothing else of a picture changes.
_DARK = {
    "#ffffff": "#0d1117", "#f6f8fa": "#161b22", _INK: "#e6edf3", _DIM: "#9aa7b5", _LINE: "#3d4754", _NO: "#ff7b72",
    _OURS: "#2ea043", _OTHERS: "#6e7a8a",
}  # fmt: skip
_TILE, _TILES = 22, 36


@dataclass(slots=True)
class Drawn(PoolCapacity):
    """A pool's room that remembers whose GPUs were taken on which node."""

    owner: str = ""
    cells: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        PoolCapacity.__post_init__(self)
        able = self.nodes - self.lost
        self.cells = [[_LOST_NAME] * self.gpus_per_node if index >= able else [] for index in range(self.nodes)]

    def move(self, level: int, by: int, count: int) -> None:
        """Take GPUs, and note by whom."""
        PoolCapacity.move(self, level, by, count)
        able = (cell for cell in self.cells if self.gpus_per_node - len(cell) == level)
        for cell in list(islice(able, count if by else 0)):
            cell.extend([self.owner] * by)


@dataclass(slots=True)
class _Canvas:
    """Lines of SVG and how far down they have come."""

    lines: list[str] = field(default_factory=list)
    y: int = _MARGIN

    def text(self, x: int, said: str, colour: str = _INK, style: str = "") -> None:
        """Write lines as wide as the picture and go down."""
        for line in wrap(said, _CHARACTERS, max_lines=_LINES, placeholder=" …"):
            self.y += 18
            self.lines.append(f'<text x="{x}" y="{self.y}" fill="{colour}"{style}>{escape(line)}</text>')

    def nodes(self, x: int, room: Drawn) -> None:
        """Draw nodes with their GPUs side by side and go down."""
        columns = min(room.gpus_per_node, _PER_ROW)
        rows = -(-room.gpus_per_node // _PER_ROW)
        width, height = (columns * (_GPU + _GAP) + 6, rows * (_GPU + _GAP) + 6)
        self.y += 8
        for index, cell in enumerate(room.cells[:_NODES_DRAWN]):
            self._node(x + index * (width + 6), (width, height), [*cell, *[""] * (room.gpus_per_node - len(cell))])
        more = room.nodes - _NODES_DRAWN
        if more > 0:
            left = x + _NODES_DRAWN * (width + 6) + 4
            self.lines.append(f'<text x="{left}" y="{self.y + 14}" fill="{_DIM}">+{count(more, "node")}</text>')
        self.y += height

    def _node(self, x: int, size: tuple[int, int], owners: Sequence[str]) -> None:
        who = ", ".join(f"{owner or 'free'}: {len(list(group))}" for owner, group in groupby(owners))
        frame = f'<rect x="{x}" y="{self.y}" width="{size[0]}" height="{size[1]}" rx="3" fill="none" stroke="{_LINE}"/>'
        self.lines.append(f"<g><title>{escape(who)}</title>{frame}")
        for index, owner in enumerate(owners):
            left = x + 4 + index % _PER_ROW * (_GPU + _GAP)
            top = self.y + 4 + index // _PER_ROW * (_GPU + _GAP)
            fill = _FILLS.get(owner, _OTHERS)
            self.lines.append(
                f'<rect x="{left}" y="{top}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
            )
        self.lines.append("</g>")


_OURS_NAME, _LOST_NAME = "this deployment", "cannot be used"
_FILLS = {"": _FREE, _OURS_NAME: _OURS, _LOST_NAME: "url(#lost)"}
_HATCHED = (
    '<defs><pattern id="lost" width="4" height="4" patternUnits="userSpaceOnUse">'
    f'<rect width="4" height="4" fill="{_FREE}"/><path d="M0,4 L4,0" stroke="{_NO}"/></pattern></defs>'
)
_BOLD, _SMALL = ' font-weight="600"', ' font-size="12"'


def draw(plans: Iterable[Plan]) -> str:
    """Return the picture."""
    canvas = _Canvas()
    for plan in plans:
        _plan(canvas, plan)
    height = canvas.y + _MARGIN
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">',
            _style(),
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *([_HATCHED] if any("url(#lost)" in line for line in canvas.lines) else []),
            *canvas.lines,
            "</svg>",
        )
    )


def _style() -> str:
    rules = "".join(
        f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in _DARK.items() for what in ("fill", "stroke")
    )
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


def _overview(canvas: _Canvas, plan: Plan, names: Sequence[str]) -> None:
    """Draw a tile for each environment, nearest first: whether it serves, would, or refuses and why."""
    best = {name: next(row for row in plan.rows if row.environment == name) for name in names}
    served = sum(row.serves for row in best.values())
    fits = sum(not row.refusals and not row.serves for row in best.values())
    canvas.y += 8
    said = f"{count(len(names), 'environment')}: {served} chosen, {fits} would do, {len(names) - served - fits} refuse"
    canvas.text(_MARGIN, said, _INK, _BOLD)
    canvas.y += 8
    for index, (name, row) in enumerate(best.items()):
        x, y = _MARGIN + index % _TILES * (_TILE + 1), canvas.y + index // _TILES * (_TILE + 1)
        fill = _OURS if row.serves else _NO if row.refusals else _OTHERS
        why = escape(f"{name}: {_said(row)}")
        canvas.lines.append(
            f'<g><title>{why}</title><rect x="{x}" y="{y}" width="{_TILE}" height="{_TILE}" rx="3" fill="{fill}"/></g>'
        )
    canvas.y += -(-len(names) // _TILES) * (_TILE + 1) + 8


def _plan(canvas: _Canvas, plan: Plan) -> None:
    decision = plan.decision
    placed = decision.status is Status.TRUE
    canvas.text(_MARGIN, f"{plan.ref}: {decision.reason}", _OURS if placed else _NO, _BOLD)
    canvas.text(_MARGIN, decision.message.partition("\n")[0], _DIM, _SMALL)
    if plan.considered is None:
        return
    _legend(canvas)
    # Nearest first, as in the table.
    names = list(dict.fromkeys(row.environment for row in plan.rows))
    environments = {environment.name: environment for environment in plan.considered.environments}
    if len(names) > _ENVIRONMENTS_DRAWN:
        _overview(canvas, plan, names)
    for name in names[:_ENVIRONMENTS_DRAWN]:
        rows = [row for row in plan.rows if row.environment == name]
        _environment(canvas, plan.considered, environments[name], rows)
    if len(names) > _ENVIRONMENTS_DRAWN:
        canvas.text(_MARGIN, f"and {count(len(names) - _ENVIRONMENTS_DRAWN, 'environment')} more", _DIM)


def _legend(canvas: _Canvas) -> None:
    canvas.y += 12
    x = _MARGIN
    for fill, said in ((_OURS, _OURS_NAME), (_OTHERS, "others"), (_FREE, "free GPU")):
        canvas.lines.append(
            f'<rect x="{x}" y="{canvas.y}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
            f'<text x="{x + 15}" y="{canvas.y + 9}" fill="{_DIM}"{_SMALL}>{said}</text>'
        )
        x += 130
    canvas.y += 14


def _environment(canvas: _Canvas, considered: Considered, environment: Environment, rows: list[Row]) -> None:
    canvas.y += 10
    top, at = canvas.y, len(canvas.lines)
    left = _MARGIN + 12
    state = "" if environment.ready else " (not Ready)"
    canvas.text(left, environment.name + state, _INK, _BOLD)
    for row in (row for row in rows if not row.pool):
        canvas.text(left, _said(row), _colour(row), _SMALL)
    for pool in environment.pools:
        canvas.text(left, _about(pool), _DIM, _SMALL)
        canvas.nodes(left, _room(considered, environment, pool))
        for row in (row for row in rows if row.pool == pool.name and not row.faults):
            canvas.text(left, _said(row), _colour(row), _SMALL)
    for row in (row for row in rows if row.faults):
        canvas.text(left, f"pool {row.pool}: {row.verdict}, {row.message}", _NO, _SMALL)
    canvas.y += 10
    width, height = _WIDTH - 2 * _MARGIN, canvas.y - top
    frame = f'<rect x="{_MARGIN}" y="{top}" width="{width}" height="{height}" rx="6" fill="#f6f8fa" stroke="{_LINE}"/>'
    canvas.lines.insert(at, frame)


def _about(pool: Pool) -> str:
    parts = (pool.accelerator_type, pool.interconnect, pool.bandwidth, "" if pool.multi_node else "single node")
    said = f"pool {pool.name}: " + ", ".join(part for part in parts if part)
    return f"{said}; {lost(pool)}" if lost(pool) else said


def _said(row: Row) -> str:
    profile = f"{row.profile}: " if row.profile else ""
    if row.refusals:
        return f"{profile}{row.verdict}, {row.message}"
    return f"{profile}{row.verdict}, {row.replica}" + (f", {row.found}" if row.found else "")


def _colour(row: Row) -> str:
    return _OURS if row.serves else _NO if row.refusals else _DIM


def _room(considered: Considered, environment: Environment, pool: Pool) -> Drawn:
    lacking = pool.max_nodes - pool.usable_nodes
    room, mine = Drawn(pool.max_nodes, pool.gpus_per_node, lost=lacking), {p.uid for p in considered.view.own}
    others = {(p.namespace, p.name): p for p in considered.view.others if p.environment == environment.name}
    granted = (grant for grant in environment.admitted if grant.uid not in mine)
    for grant in settle(pool, others.values(), granted).grants:
        holder = others.get((grant.namespace, grant.name))
        room.owner = f"{grant.namespace}/{(holder and holder.deployment) or grant.name}"
        take(room, grant.share)
    room.owner = _OURS_NAME
    for shape, replicas in _ours(considered, environment, pool):
        room.take(shape[0], shape[1], replicas)
    return room


def _ours(considered: Considered, environment: Environment, pool: Pool) -> Iterator[tuple[tuple[int, int], int]]:
    for chosen in considered.decision.assignments:
        if (chosen.environment, chosen.pool) == (environment.name, pool.name):
            gpus = min(chosen.shape.gpus_per_node, pool.gpus_per_node)
            yield (chosen.shape.nodes, gpus), chosen.replicas
