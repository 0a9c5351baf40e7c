"""Draws all deployments, and each environment once, in one SVG with light and dark colours."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import cycle, groupby, zip_longest
from textwrap import wrap

from function.capacity.pools import empty_pool, take_share
from function.cli.gpus import Usage, add_up_users, format_users
from function.cli.planning import Plan
from function.domain.environment import Pool
from function.kube.messages import format_count
from function.status.inference_environment import note_unusable_nodes

_WIDTH = 880  # pixels, as all lengths are
_MARGIN = 16
_GPU = 9
_GAP = 2
_CHARACTERS = 120  # of a line of text
_LINES = 6  # of a message
_NODES_DRAWN = 12
_POOLS_DRAWN = 40
_PLANS_DRAWN = 20
_ROWS_DRAWN = 4
FREE = "#ffffff"
TAKEN = "#8b98ad"
OURS = "#1f9d55"
INK = "#1b2430"
DIM = "#5c6877"
_LINE = "#c6ced8"
NO = "#c0392b"
_PER_ROW = 4
# The dark variant of each colour; the rest of the picture is the same.
_DARK = {
    "#ffffff": "#0d1117", "#f6f8fa": "#161b22", INK: "#e6edf3", DIM: "#9aa7b5", _LINE: "#3d4754", NO: "#ff7b72",
    OURS: "#2ea043", TAKEN: "#6e7a8a", "#2f6fde": "#4f8cf0", "#d98a1c": "#e3a33e", "#8a4fc9": "#a974e8",
    "#0f96a3": "#2bb5c2", "#d1509a": "#e377b6", "#8a6a3f": "#a98a5c",
}  # fmt: skip
_PLAN_COLOURS = (OURS, *[*_DARK][8:])

_LOST_NAME = "cannot be used"
_LOST = "url(#lost)"
_HATCHED = (
    '<defs><pattern id="lost" width="4" height="4" patternUnits="userSpaceOnUse">'
    f'<rect width="4" height="4" fill="{FREE}"/><path d="M0,4 L4,0" stroke="{NO}"/></pattern></defs>'
)
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_BOLD = ' font-weight="600"'
_SMALL = ' font-size="12"'


def _list_owners(pool: Pool, usage: Usage) -> list[list[str]]:
    """Returns the owner of each GPU by node of a pool, as the ledger packs them; free GPUs are empty."""
    nodes = [[_LOST_NAME] * pool.gpus_per_node if n >= pool.usable_nodes else [] for n in range(pool.max_nodes)]
    room = empty_pool(pool)
    for holding in usage.holdings:
        before = Counter(room.free)
        take_share(room, holding.share)
        after = Counter(room.free)
        moves = zip_longest(sorted((before - after).elements()), sorted((after - before).elements()), fillvalue=0)
        for level, left in moves:
            node = next(node for node in nodes if pool.gpus_per_node - len(node) == level)
            node.extend([holding.user] * (level - left))
    return [[*node, *[""] * (pool.gpus_per_node - len(node))] for node in nodes]


def _draw_rectangle(x: int, y: int, size: tuple[int, int], fill: str, radius: int = 0) -> str:
    frame = f'width="{size[0]}" height="{size[1]}" rx="{radius}" fill="{fill}" stroke="{_LINE}"'
    return f'<rect x="{x}" y="{y}" {frame}/>'


@dataclass(slots=True)
class Canvas:
    """Lines of SVG and how far down they have come."""

    fills: Mapping[str, str]  # by owner
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # for readers who do not see the picture
    y: int = _MARGIN

    def text(self, x: int, message: str, colour: str = INK, style: str = "") -> None:
        """Writes lines as wide as the picture and moves down."""
        self.texts.append(message)
        for line in wrap(message, _CHARACTERS, max_lines=_LINES, placeholder=" …", break_on_hyphens=False):
            self.y += 18
            self.lines.append(f'<text x="{x}" y="{self.y}" fill="{colour}"{style}>{escape(line)}</text>')

    def note_more(self, number: int, what: str) -> None:
        if number > 0:
            self.text(_MARGIN, f"and {format_count(number, what)} more", DIM)

    def pool(self, x: int, pool: Pool, usage: Usage) -> None:
        """Describes a pool, draws its nodes with their GPUs side by side and moves down."""
        parts = (pool.accelerator_type, pool.interconnect, pool.bandwidth, "" if pool.multi_node else "single node")
        unusable = note_unusable_nodes(pool)
        description = f"pool {pool.name}: {', '.join(filter(None, parts))}{f'; {unusable}' if unusable else ''}"
        self.text(x, description, DIM, _SMALL)
        columns = min(pool.gpus_per_node, _PER_ROW)
        rows = -(-pool.gpus_per_node // _PER_ROW)
        width = columns * (_GPU + _GAP) + 6
        height = rows * (_GPU + _GAP) + 6
        self.y += 8
        for index, owners in enumerate(_list_owners(pool, usage)[:_NODES_DRAWN]):
            self._draw_node(x + index * (width + 6), (width, height), owners)
        more = pool.max_nodes - _NODES_DRAWN
        if more > 0:
            left = x + _NODES_DRAWN * (width + 6) + 4
            self.lines.append(f'<text x="{left}" y="{self.y + 14}" fill="{DIM}">+{format_count(more, "node")}</text>')
        self.y += height
        why_none = f"; {'; '.join(usage.obstacles)}" if usage.obstacles else ""
        free = f"{usage.free} of {usage.gpus} GPUs free, largest replica {usage.largest}{why_none}"
        self.text(x, f"{free}; {format_users(add_up_users(usage.holdings)) or 'not used'}", DIM, _SMALL)

    def _draw_node(self, x: int, size: tuple[int, int], owners: Sequence[str]) -> None:
        title = ", ".join(f"{owner or 'free'}: {len(list(group))}" for owner, group in groupby(owners))
        self.lines.append(f"<g><title>{escape(title)}</title>{_draw_rectangle(x, self.y, size, 'none', 3)}")
        for index, owner in enumerate(owners):
            left = x + 4 + index % _PER_ROW * (_GPU + _GAP)
            top = self.y + 4 + index // _PER_ROW * (_GPU + _GAP)
            self.lines.append(_draw_rectangle(left, top, (_GPU, _GPU), self.fills.get(owner, TAKEN)))
        self.lines.append("</g>")


def _write_document(canvas: Canvas) -> str:
    """Writes the picture, whose first text is its title and whose texts are its description."""
    title, *texts = canvas.texts
    description = "\n".join(texts)
    height = canvas.y + _MARGIN
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    dark = "".join(
        f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in _DARK.items() for what in ("fill", "stroke")
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {_FONT}>',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *([_HATCHED] if any(_LOST in line for line in canvas.lines) else []),
            *canvas.lines,
            "</svg>",
        )
    )


def draw_world(usages: Sequence[Usage], plans: Iterable[Plan] = ()) -> str:
    """Draws deployments with their decisions in one list, refused ones first, then every pool with who has its GPUs.

    Environments that serve come first.
    """
    plans = sorted(plans, key=lambda plan: plan.is_placed)
    holders = (f"{plan.ref.namespace}/{plan.ref.name}" for plan in plans if plan.placements)
    colours = dict(zip(holders, cycle(_PLAN_COLOURS), strict=False))
    canvas = Canvas({"": FREE, _LOST_NAME: _LOST} | colours)
    for plan in plans[:_PLANS_DRAWN]:
        colour = colours.get(f"{plan.ref.namespace}/{plan.ref.name}")
        canvas.lines += [_draw_rectangle(_MARGIN, canvas.y + 9, (_GPU, _GPU), colour)] if colour else []
        canvas.text(_MARGIN + 15, f"{plan.ref}: {plan.condition.reason}", INK if plan.is_placed else NO, _BOLD)
        canvas.text(_MARGIN + 15, plan.condition.message.partition("\n")[0], DIM, _SMALL)
    canvas.note_more(len(plans) - _PLANS_DRAWN, "deployment")
    rows = sorted((row for plan in plans for row in plan.rows), key=lambda row: not row.serves)
    order = {name: index for index, name in enumerate(dict.fromkeys(row.environment for row in rows))}
    drawn = sorted(usages, key=lambda usage: order.get(usage.environment.name, len(order)))
    _draw_totals(canvas, usages, "others" if plans else "in use")
    for environment, group in groupby(drawn[:_POOLS_DRAWN], lambda usage: usage.environment):
        canvas.y += 10
        top = canvas.y
        left = _MARGIN + 12
        first_line = len(canvas.lines)
        canvas.text(left, environment.name + ("" if environment.ready else " (not Ready)"), INK, _BOLD)
        candidates = [row for row in rows if row.environment == environment.name] if len(plans) == 1 else []
        for row in candidates[:_ROWS_DRAWN]:
            profile = f"{row.profile}: " if row.profile else ""
            outcome = row.message or f"{row.replica}, {row.available}"
            colour = OURS if row.serves else NO if row.refusals else DIM
            canvas.text(left, f"{profile}{row.verdict}, {outcome}", colour, _SMALL)
        for usage in group:
            if usage.pool:
                canvas.pool(left, usage.pool, usage)
            else:
                faults = "; ".join(map(str, usage.invalid.problems)) if usage.invalid else ""
                message = f"pool {usage.invalid.name}: invalid, {faults}" if usage.invalid else "no pool"
                canvas.text(left, message, NO, _SMALL)
        canvas.y += 10
        frame = _draw_rectangle(_MARGIN, top, (_WIDTH - 2 * _MARGIN, canvas.y - top), "#f6f8fa", 6)
        canvas.lines.insert(first_line, frame)  # the background
    canvas.note_more(len(usages) - _POOLS_DRAWN, "pool")
    return _write_document(canvas)


def _draw_totals(canvas: Canvas, usages: Sequence[Usage], taken: str) -> None:
    """Adds up all pools and those of each accelerator, and explains the colours."""
    canvas.y += 8
    environments = format_count(len({usage.environment.name for usage in usages}), "environment")
    total = sum(usage.gpus for usage in usages)
    used = sum(usage.used for usage in usages)
    free = sum(usage.free for usage in usages)
    lost = total - used - free
    gpus = f"{format_count(total, 'GPU')}: {used} in use, {free} free" + (f", {lost} cannot be used" if lost else "")
    canvas.text(_MARGIN, f"{environments} with {gpus}", INK, _BOLD)
    is_lost = any(usage.pool and usage.pool.usable_nodes < usage.pool.max_nodes for usage in usages)
    canvas.y += 12
    entries = ((TAKEN, taken), (FREE, "free GPU"), *(((_LOST, _LOST_NAME),) if is_lost else ()))
    for column, (fill, label) in enumerate(entries):
        left = _MARGIN + 130 * column
        square = _draw_rectangle(left, canvas.y, (_GPU, _GPU), fill)
        text = f'<text x="{left + 15}" y="{canvas.y + 9}" fill="{DIM}"{_SMALL}>{label}</text>'
        canvas.lines.append(square + text)
    canvas.y += 14
