"""What pictures are made of: text that wraps, frames, and nodes with their GPUs, in the colours of light and dark.

GPUs are drawn where the scheduler's ledger takes them: the drawing is told of every move that the ledger makes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, islice
from textwrap import wrap

from function.domain.environment import Pool
from function.report.hardware import lost
from function.report.sentences import count
from function.scheduling.pool_capacity import PoolCapacity

_WIDTH, MARGIN = 880, 16
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


OURS_NAME, _LOST_NAME = "this deployment", "cannot be used"
_LOST = "url(#lost)"
_FILLS = {"": FREE, OURS_NAME: OURS, _LOST_NAME: _LOST}
_HATCHED = (
    '<defs><pattern id="lost" width="4" height="4" patternUnits="userSpaceOnUse">'
    f'<rect width="4" height="4" fill="{FREE}"/><path d="M0,4 L4,0" stroke="{NO}"/></pattern></defs>'
)
BOLD, SMALL = ' font-weight="600"', ' font-size="12"'


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
class Canvas:
    """Lines of SVG and how far down they have come."""

    lines: list[str] = field(default_factory=list)
    y: int = MARGIN

    def text(self, x: int, said: str, colour: str = INK, style: str = "") -> None:
        """Write lines as wide as the picture and go down."""
        for line in wrap(said, _CHARACTERS, max_lines=_LINES, placeholder=" …"):
            self.y += 18
            self.lines.append(f'<text x="{x}" y="{self.y}" fill="{colour}"{style}>{escape(line)}</text>')

    def legend(self, *entries: tuple[str, str]) -> None:
        """Say what some colours are, side by side, and go down."""
        self.y += 12
        x = MARGIN
        for fill, said in entries:
            self.lines.append(
                f'<rect x="{x}" y="{self.y}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
                f'<text x="{x + 15}" y="{self.y + 9}" fill="{DIM}"{SMALL}>{said}</text>'
            )
            x += 130
        self.y += 14

    @contextmanager
    def framed(self) -> Iterator[int]:
        """Draw a frame around what is drawn meanwhile, which starts so far from the left."""
        self.y += 10
        top, before = self.y, len(self.lines)
        yield MARGIN + 12
        self.y += 10
        width, height = _WIDTH - 2 * MARGIN, self.y - top
        frame = (
            f'<rect x="{MARGIN}" y="{top}" width="{width}" height="{height}" rx="6" fill="#f6f8fa" stroke="{_LINE}"/>'
        )
        self.lines.insert(before, frame)

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
            self.lines.append(f'<text x="{left}" y="{self.y + 14}" fill="{DIM}">+{count(more, "node")}</text>')
        self.y += height

    def _node(self, x: int, size: tuple[int, int], owners: Sequence[str]) -> None:
        who = ", ".join(f"{owner or 'free'}: {len(list(group))}" for owner, group in groupby(owners))
        frame = f'<rect x="{x}" y="{self.y}" width="{size[0]}" height="{size[1]}" rx="3" fill="none" stroke="{_LINE}"/>'
        self.lines.append(f"<g><title>{escape(who)}</title>{frame}")
        for index, owner in enumerate(owners):
            left = x + 4 + index % _PER_ROW * (_GPU + _GAP)
            top = self.y + 4 + index // _PER_ROW * (_GPU + _GAP)
            fill = _FILLS.get(owner, TAKEN)
            self.lines.append(
                f'<rect x="{left}" y="{top}" width="{_GPU}" height="{_GPU}" fill="{fill}" stroke="{_LINE}"/>'
            )
        self.lines.append("</g>")


def unusable(pools: Iterable[Pool]) -> tuple[tuple[str, str], ...]:
    """Return the legend's entry for nodes that cannot be used, if any pool has such."""
    return ((_LOST, _LOST_NAME),) if any(pool.usable_nodes < pool.max_nodes for pool in pools) else ()


def about(pool: Pool) -> str:
    """Return what a pool is."""
    parts = (pool.accelerator_type, pool.interconnect, pool.bandwidth, "" if pool.multi_node else "single node")
    said = f"pool {pool.name}: " + ", ".join(part for part in parts if part)
    return f"{said}; {lost(pool)}" if lost(pool) else said


def document(canvas: Canvas) -> str:
    """Return a picture of what was drawn."""
    height = canvas.y + MARGIN
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">',
            _style(),
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *([_HATCHED] if any(_LOST in line for line in canvas.lines) else []),
            *canvas.lines,
            "</svg>",
        )
    )


def _style() -> str:
    rules = "".join(
        f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in _DARK.items() for what in ("fill", "stroke")
    )
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
