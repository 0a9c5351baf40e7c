"""Draws pools with their GPUs as SVG, in the colours of light and dark: for `plan` and for `capacity`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, islice, zip_longest
from textwrap import wrap

from function.cli.gpus import Usage, format_largest, format_users, group_by_accelerator
from function.cli.planning import Plan, Row
from function.composers.model_deployment import Considered
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.kube.messages import format_count
from function.scheduling.capacity import empty_pool, take_share
from function.scheduling.ledger import Ledger
from function.status.inference_environment import note_unusable_nodes

_WIDTH, _MARGIN = 880, 16
_GPU, _GAP = 9, 2
_NODES_DRAWN, _CHARACTERS, _LINES = 12, 120, 12
FREE, TAKEN, OURS = "#ffffff", "#8b98ad", "#1f9d55"
INK, DIM, _LINE, NO = "#1b2430", "#5c6877", "#c6ced8", "#c0392b"
_PER_ROW = 4
# What each colour is where the reader's system is dark; nothing else of a picture changes.
_DARK = {
    "#ffffff": "#0d1117", "#f6f8fa": "#161b22", INK: "#e6edf3", DIM: "#9aa7b5", _LINE: "#3d4754", NO: "#ff7b72",
    OURS: "#2ea043", TAKEN: "#6e7a8a",
}  # fmt: skip

_OURS_NAME, _LOST_NAME = "this deployment", "cannot be used"
_LOST = "url(#lost)"
_FILLS = {"": FREE, _OURS_NAME: OURS, _LOST_NAME: _LOST}
_HATCHED = (
    '<defs><pattern id="lost" width="4" height="4" patternUnits="userSpaceOnUse">'
    f'<rect width="4" height="4" fill="{FREE}"/><path d="M0,4 L4,0" stroke="{NO}"/></pattern></defs>'
)
_BOLD, _SMALL = ' font-weight="600"', ' font-size="12"'


class DrawnPool:
    """A pool with the owner of each GPU that is taken; all GPUs of nodes that cannot be used are marked."""

    def __init__(self, pool: Pool, grants: Iterable[Grant], placements: Iterable[Placement]) -> None:
        self.pool, self.room = pool, empty_pool(pool)
        # Of each node the owners of its GPUs; free ones are left out.
        self.nodes = [
            [_LOST_NAME] * pool.gpus_per_node if node >= pool.usable_nodes else [] for node in range(pool.max_nodes)
        ]
        deployments = {(p.namespace, p.name): p.deployment for p in placements}
        for grant in grants:
            owner = deployments.get((grant.namespace, grant.name)) or grant.name
            self.take(grant.share, f"{grant.namespace}/{owner}")

    def take(self, share: Share, owner: str) -> None:
        """Takes a share as the scheduler's ledger does, and draws the nodes by how their free GPUs changed."""
        before = Counter(self.room.free)
        take_share(self.room, share)
        after = Counter(self.room.free)
        moves = zip_longest(sorted((before - after).elements()), sorted((after - before).elements()), fillvalue=0)
        for level, left in moves:
            node = next(node for node in self.nodes if self.pool.gpus_per_node - len(node) == level)
            node.extend([owner] * (level - left))


@dataclass(slots=True)
class Canvas:
    """Lines of SVG and how far down they have come."""

    lines: list[str] = field(default_factory=list)
    y: int = _MARGIN

    def text(self, x: int, message: str, colour: str = INK, style: str = "") -> None:
        """Writes lines as wide as the picture and moves down."""
        for line in wrap(message, _CHARACTERS, max_lines=_LINES, placeholder=" …"):
            self.y += 18
            self.lines.append(f'<text x="{x}" y="{self.y}" fill="{colour}"{style}>{escape(line)}</text>')

    def legend(self, *entries: tuple[str, str]) -> None:
        """Explains colours side by side and moves down."""
        self.y += 12
        x = _MARGIN
        for fill, label in entries:
            self.lines.append(
                f'<rect x="{x}" y="{self.y}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
                f'<text x="{x + 15}" y="{self.y + 9}" fill="{DIM}"{_SMALL}>{label}</text>'
            )
            x += 130
        self.y += 14

    @contextmanager
    def framed(self, environment: Environment) -> Iterator[int]:
        """Draws an environment's name and a frame around what the block draws; yields its distance from the left."""
        self.y += 10
        top, before = self.y, len(self.lines)
        self.text(_MARGIN + 12, environment.name + ("" if environment.ready else " (not Ready)"), INK, _BOLD)
        yield _MARGIN + 12
        self.y += 10
        width, height = _WIDTH - 2 * _MARGIN, self.y - top
        frame = (
            f'<rect x="{_MARGIN}" y="{top}" width="{width}" height="{height}" rx="6" fill="#f6f8fa" stroke="{_LINE}"/>'
        )
        self.lines.insert(before, frame)

    def nodes(self, x: int, drawn: DrawnPool) -> None:
        """Describes a pool, draws its nodes with their GPUs side by side and moves down."""
        pool = drawn.pool
        parts = (pool.accelerator_type, pool.interconnect, pool.bandwidth, "" if pool.multi_node else "single node")
        unusable = note_unusable_nodes(pool)
        description = f"pool {pool.name}: {', '.join(filter(None, parts))}{f'; {unusable}' if unusable else ''}"
        self.text(x, description, DIM, _SMALL)
        columns, rows = min(pool.gpus_per_node, _PER_ROW), -(-pool.gpus_per_node // _PER_ROW)
        width, height = (columns * (_GPU + _GAP) + 6, rows * (_GPU + _GAP) + 6)
        self.y += 8
        for index, cell in enumerate(drawn.nodes[:_NODES_DRAWN]):
            owners = [*cell, *[""] * (pool.gpus_per_node - len(cell))]
            self._draw_node(x + index * (width + 6), (width, height), owners)
        more = pool.max_nodes - _NODES_DRAWN
        if more > 0:
            left = x + _NODES_DRAWN * (width + 6) + 4
            self.lines.append(f'<text x="{left}" y="{self.y + 14}" fill="{DIM}">+{format_count(more, "node")}</text>')
        self.y += height

    def _draw_node(self, x: int, size: tuple[int, int], owners: Sequence[str]) -> None:
        title = ", ".join(f"{owner or 'free'}: {len(list(group))}" for owner, group in groupby(owners))
        frame = f'<rect x="{x}" y="{self.y}" width="{size[0]}" height="{size[1]}" rx="3" fill="none" stroke="{_LINE}"/>'
        self.lines.append(f"<g><title>{escape(title)}</title>{frame}")
        for index, owner in enumerate(owners):
            left = x + 4 + index % _PER_ROW * (_GPU + _GAP)
            top = self.y + 4 + index // _PER_ROW * (_GPU + _GAP)
            fill = _FILLS.get(owner, TAKEN)
            self.lines.append(
                f'<rect x="{left}" y="{top}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
            )
        self.lines.append("</g>")


def _explain_unusable(pools: Iterable[Pool]) -> tuple[tuple[str, str], ...]:
    """Returns the legend's entry for nodes that cannot be used, if any pool has such."""
    return ((_LOST, _LOST_NAME),) if any(pool.usable_nodes < pool.max_nodes for pool in pools) else ()


def _write_document(canvas: Canvas) -> str:
    height = canvas.y + _MARGIN
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    dark = "".join(
        f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in _DARK.items() for what in ("fill", "stroke")
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">',
            f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *([_HATCHED] if any(_LOST in line for line in canvas.lines) else []),
            *canvas.lines,
            "</svg>",
        )
    )


_ENVIRONMENTS_DRAWN = 12
_TILE, _TILES = 22, 36


def draw_plans(plans: Iterable[Plan]) -> str:
    """Draws each deployment's environments with what it takes of their pools."""
    canvas = Canvas()
    for plan in plans:
        canvas.text(_MARGIN, f"{plan.ref}: {plan.decision.reason}", OURS if plan.is_placed else NO, _BOLD)
        canvas.text(_MARGIN, plan.decision.message.partition("\n")[0], DIM, _SMALL)
        if plan.considered:
            _draw_environments(canvas, plan, plan.considered)
    return _write_document(canvas)


def _draw_environments(canvas: Canvas, plan: Plan, considered: Considered) -> None:
    # Nearest first, as in the table.
    rows: dict[str, list[Row]] = {}
    for row in plan.rows:
        rows.setdefault(row.environment, []).append(row)
    environments = {environment.name: environment for environment in considered.scope.environments}
    drawn = [environments[name] for name in islice(rows, _ENVIRONMENTS_DRAWN)]
    pools = (pool for environment in drawn for pool in environment.pools)
    canvas.legend((OURS, _OURS_NAME), (TAKEN, "others"), (FREE, "free GPU"), *_explain_unusable(pools))
    if len(rows) > len(drawn):
        _draw_overview(canvas, [group[0] for group in rows.values()])
    for environment in drawn:
        _draw_environment(canvas, considered, environment, rows[environment.name])
    if len(rows) > len(drawn):
        canvas.text(_MARGIN, f"and {format_count(len(rows) - len(drawn), 'environment')} more", DIM)


def _draw_overview(canvas: Canvas, nearest: Sequence[Row]) -> None:
    """Draws a tile for each environment by its nearest row: whether it serves, would serve, or refuses and why."""
    fills = [OURS if row.serves else NO if row.refusals else TAKEN for row in nearest]
    canvas.y += 8
    canvas.text(_MARGIN, f"{format_count(len(nearest), 'environment')}, nearest first", INK, _BOLD)
    words = ((OURS, "chosen"), (TAKEN, "would do"), (NO, "refuse"))
    canvas.legend(*((fill, f"{fills.count(fill)} {word}") for fill, word in words))
    canvas.y += 8
    for index, (row, fill) in enumerate(zip(nearest, fills, strict=True)):
        x, y = _MARGIN + index % _TILES * (_TILE + 1), canvas.y + index // _TILES * (_TILE + 1)
        why = escape(f"{row.environment}: {_describe_row(row)}")
        canvas.lines.append(
            f'<g><title>{why}</title><rect x="{x}" y="{y}" width="{_TILE}" height="{_TILE}" rx="3" fill="{fill}"/></g>'
        )
    canvas.y += -(-len(nearest) // _TILES) * (_TILE + 1) + 8


def _draw_environment(canvas: Canvas, considered: Considered, environment: Environment, rows: list[Row]) -> None:
    """Draws the pools with the grants of others and the shares of the decision."""
    ledger = Ledger(considered.scope.others, considered.scope.own)
    others = [p for p in considered.scope.others if p.environment == environment.name]
    assigned = (a for a in considered.decision.assignments if a.environment == environment.name)
    shares = [considered.request.to_placement(assignment).requested for assignment in assigned]
    with canvas.framed(environment) as left:
        for row in (row for row in rows if not row.pool):
            canvas.text(left, _describe_row(row), _choose_colour(row), _SMALL)
        for pool in environment.pools:
            drawn = DrawnPool(pool, ledger.allocate_without_own(environment, pool).grants, others)
            for share in (share for share in shares if share and share.pool == pool.name):
                drawn.take(share, _OURS_NAME)
            canvas.nodes(left, drawn)
            for row in (row for row in rows if row.pool == pool.name and not row.faults):
                canvas.text(left, _describe_row(row), _choose_colour(row), _SMALL)
        for row in (row for row in rows if row.faults):
            canvas.text(left, f"pool {row.pool}: {row.verdict}, {row.message}", NO, _SMALL)


def _describe_row(row: Row) -> str:
    profile = f"{row.profile}: " if row.profile else ""
    if row.refusals:
        return f"{profile}{row.verdict}, {row.message}"
    return f"{profile}{row.verdict}, {row.replica}" + (f", {row.available}" if row.available else "")


def _choose_colour(row: Row) -> str:
    return OURS if row.serves else NO if row.refusals else DIM


_USAGES_DRAWN = 40


def draw_capacity(usages: Sequence[Usage]) -> str:
    """Draws the pools of each environment with their users."""
    canvas = Canvas()
    groups = [(environment, list(group)) for environment, group in groupby(usages, lambda usage: usage.environment)]
    canvas.text(_MARGIN, f"{format_count(len(groups), 'environment')} with {_count_gpus(usages)}", INK, _BOLD)
    for kind, group in group_by_accelerator(usages):
        where = format_count(len({usage.environment.name for usage in group}), "environment")
        canvas.text(_MARGIN, f"{kind}: {_count_gpus(group)}, in {where}", DIM, _SMALL)
    canvas.legend(
        (TAKEN, "in use"), (FREE, "free GPU"), *_explain_unusable(usage.pool for usage in usages if usage.pool)
    )
    for environment, pools in islice(groups, _USAGES_DRAWN):
        with canvas.framed(environment) as left:
            for usage in pools:
                if usage.pool is None:
                    message = f"pool {usage.invalid.name} is invalid" if usage.invalid else "no pool"
                    canvas.text(left, message, NO, _SMALL)
                    continue
                canvas.nodes(left, DrawnPool(usage.pool, usage.grants, usage.users))
                free = f"{usage.free} of {usage.gpus} GPUs free, largest replica {format_largest(usage)}"
                canvas.text(left, f"{free}; {format_users(usage.users) or 'not used'}", DIM, _SMALL)
    if len(groups) > _USAGES_DRAWN:
        canvas.text(_MARGIN, f"and {format_count(len(groups) - _USAGES_DRAWN, 'environment')} more", DIM)
    return _write_document(canvas)


def _count_gpus(usages: Sequence[Usage]) -> str:
    total, used, free = sum(u.gpus for u in usages), sum(u.used for u in usages), sum(u.free for u in usages)
    lost = total - used - free
    return f"{format_count(total, 'GPU')}: {used} in use, {free} free" + (f", {lost} cannot be used" if lost else "")
