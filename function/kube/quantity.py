"""Kubernetes quantities, as in k8s.io/apimachinery/pkg/api/resource.

Two deliberate differences: `.` and a bare sign, which upstream reads as zero, are refused, and values below
nano are kept exactly instead of being rounded up.
"""

import math
import re
from decimal import Decimal

from function.kube.manifests import JSON

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3}|)",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
MIB = 2**20
GIB = 2**30
# Upper bound of all quantities here: no GPU, node, claim or model is larger, and a float holds it exactly.
MAX = 2**60
MAX_TEXT = "1Ei"


def parse(value: str | int) -> Decimal:
    """Returns the quantity in its base unit (bytes, cores).

    Raises:
        ValueError: The value is not a quantity.
    """
    match = _GRAMMAR.fullmatch(str(value))
    if match is None:
        raise ValueError("must be a quantity like 80Gi, 1.5T or 500m")
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix.endswith("i"):
        return number * (1 << 10 * ("KMGTPE".index(suffix[0]) + 1))
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:]))


def round_up(value: str | int) -> int:
    """Returns the quantity rounded up to whole base units; raises ValueError as `parse` does."""
    return math.ceil(parse(value))


def parse_or_none(value: JSON) -> int | None:
    """Returns an observed quantity, rounded up and at most `MAX` (some storage reports no limit); None: no quantity."""
    try:
        return math.ceil(min(parse(str(value)), Decimal(MAX))) if isinstance(value, str | int) else None
    except ValueError:
        return None


def exact(amount: int) -> str:
    """Formats bytes in the largest unit that divides them."""
    units = ((GIB, "Gi"), (10**9, "G"), (MIB, "Mi"))
    return next((f"{amount // size}{unit}" for size, unit in units if amount % size == 0), str(amount))


def gib(amount: int) -> str:
    """Formats bytes as Gi, rounded up: the unit of all sizes in status."""
    return f"{-(-amount // GIB)}Gi"


def mib(amount: int) -> str:
    """Formats bytes as whole Gi, otherwise as Mi, rounded up: the unit of differences, which may be small."""
    mebibytes = -(-amount // MIB)
    return f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"
