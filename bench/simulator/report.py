"""A table of what stories cost, and how cost grows with the fleet."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.simulator.measured import Meter

_KINDS = ("ModelDeployment", "InferenceEnvironment", "ModelPlacement")
HEAD = (
    f"{'story':<22}{'D':>5}{'E':>5}{'calls':>8}{'dep':>7}{'env':>7}{'plc':>7}{'cpu s':>8}{'MB in':>9}{'MB out':>8}"
    f"{'max KB':>8}{'sim s':>7}{'tokens':>7}{'rounds':>7}{'writes':>7}{'made':>6}  notes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one change cost. `seconds` are simulated, those of `meter` are the processor's."""

    story: str
    deployments: int
    environments: int
    meter: Meter
    seconds: float
    notes: Sequence[str] = field(default=())

    @property
    def figures(self) -> Mapping[str, float]:
        """The figures whose growth is fitted."""
        meter = self.meter
        return {
            "calls": meter.calls.total(),
            "processor": sum(meter.seconds.values()),
            "bytes in": meter.received.total(),
        }

    def __str__(self) -> str:
        meter = self.meter
        kinds = "".join(f"{meter.calls[kind]:>7}" for kind in _KINDS)
        failed = [f"{count} x {cause}" for cause, count in sorted(meter.failed.items())]
        return (
            f"{self.story:<22}{self.deployments:>5}{self.environments:>5}{meter.calls.total():>8}{kinds}"
            f"{sum(meter.seconds.values()):>8.2f}{meter.received.total() / 1e6:>9.2f}{meter.sent.total() / 1e6:>8.2f}"
            f"{meter.largest / 1e3:>8.1f}{self.seconds:>7.0f}{max(meter.tokens.values(), default=0):>7}"
            f"{max(meter.rounds, default=0):>7}{meter.writes.total():>7}{meter.made['ModelPlacement']:>6}"
            f"  {'; '.join([*self.notes, *failed])}"
        )


def exponents(rows: Sequence[Row]) -> Iterator[str]:
    """Yield for each figure how it grows: with D to the one power and with E to the other, by least squares of logs."""
    if len({row.deployments for row in rows}) < 2 or len({row.environments for row in rows}) < 2:
        return
    yield f"{'exponent in':<22}{'D':>8}{'E':>8}"
    for figure in rows[0].figures:
        points = [
            (math.log(row.deployments), math.log(row.environments), math.log(max(row.figures[figure], 1e-9)))
            for row in rows
        ]
        with_deployments, with_environments = fit(points)
        yield f"{figure:<22}{with_deployments:>8.2f}{with_environments:>8.2f}"


def fit(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return a and b of the plane z = a x + b y + c nearest to the points; they must not lie on one line."""
    count = len(points)
    mean_x, mean_y, mean_z = (sum(column) / count for column in zip(*points, strict=True))
    centred = [(x - mean_x, y - mean_y, z - mean_z) for x, y, z in points]
    xx, xy, yy = (sum(p[i] * p[j] for p in centred) for i, j in ((0, 0), (0, 1), (1, 1)))
    xz, yz = (sum(p[i] * p[2] for p in centred) for i in (0, 1))
    determinant = xx * yy - xy * xy
    return (xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant
