"""Quantities: the complete grammar of Kubernetes, and nothing else.

They are compared with apimachinery (tests/oracle). The arithmetic of each suffix, the two deliberate differences and
rounding are tested here.
"""

import json
import re
import time
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube import quantity


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    value: str | int
    want: Decimal


VALID = [
    Case("integer", "JSON numbers are quantities", 80, Decimal(80)),
    Case("plain", "no suffix is the base unit", "80", Decimal(80)),
    Case("kibi", "Ki is 2^10", "1Ki", Decimal(1024)),
    Case("mebi", "Mi is 2^20", "1Mi", Decimal(1024**2)),
    Case("gibi", "Gi is 2^30", "80Gi", Decimal(80 * 1024**3)),
    Case("tebi", "Ti is 2^40", "1.5Ti", Decimal(3 * 1024**4 // 2)),
    Case("pebi", "Pi is 2^50", "1Pi", Decimal(1024**5)),
    Case("exbi", "Ei is 2^60", "1Ei", Decimal(1024**6)),
    Case("nano", "n is 10^-9", "1n", Decimal("0.000000001")),
    Case("micro", "u is 10^-6", "1u", Decimal("0.000001")),
    Case("milli", "m is 10^-3", "500m", Decimal("0.5")),
    Case("kilo", "k is 10^3, in lower case", "1k", Decimal(1000)),
    Case("mega", "M is 10^6", "1M", Decimal(10**6)),
    Case("giga", "G is 10^9", "80G", Decimal(80 * 10**9)),
    Case("tera", "T is 10^12", "1.5T", Decimal(15 * 10**11)),
    Case("peta", "P is 10^15", "1P", Decimal(10**15)),
    Case("exa", "E alone is 10^18, no exponent", "1E", Decimal(10**18)),
    Case("exponent", "E followed by digits is an exponent", "1E3", Decimal(1000)),
    Case("small-exponent", "e is an exponent too", "12e-1", Decimal("1.2")),
    Case("leading-point", "digits may start with the point", ".5Gi", Decimal(2**29)),
    Case("trailing-point", "digits may end with the point", "1.", Decimal(1)),
    Case("signed", "signs are part of the grammar", "-1Ki", Decimal(-1024)),
]
INVALID = ["", ".", "+", "-", "80 Gi", "80 gigs", "1Zi", "1K", "1ki", "80GiB", "NaN", "Infinity", "1_000",
           "1Gi\n", "0x10", "1e", "1e3Gi", "٣Gi", "True"]  # fmt: skip


@pytest.mark.parametrize("case", VALID, ids=lambda c: c.id)
def test_parses_quantities(case: Case) -> None:
    assert quantity.parse(case.value) == case.want, case.reason


@pytest.mark.parametrize("value", INVALID)
def test_refuses_other_text(value: str) -> None:
    with pytest.raises(ValueError, match="must be a quantity like 80Gi"):
        quantity.parse(value)


def test_rounds_up_to_base_units() -> None:
    assert quantity.round_up("1n") == 1
    assert quantity.round_up("1.5") == 2
    assert quantity.round_up("80Gi") == 80 * 2**30


@pytest.mark.parametrize("value", ["1Ei", "8Ei", "1e999", "9" * 32000], ids=lambda v: v[:5])
def test_observed_quantities_are_bounded(value: str) -> None:
    assert quantity.parse_or_none(value) == quantity.MAX == 2**60, (
        "what reports more has no end, and floats hold no more"
    )


def test_observed_quantities_are_rounded_up() -> None:
    assert quantity.parse_or_none("1.5") == 2


@pytest.mark.parametrize(
    "value", ["1" * 32000 + "x", "1." + "1" * 32000 + "x", "." + "1" * 32000 + "x"], ids=lambda v: v[:3]
)
def test_takes_linear_time_for_long_text(value: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ValueError, match="must be a quantity"):
        quantity.parse(value)
    assert time.perf_counter() - started < 0.2, "annotations and remote objects hold any text"


def test_gib_rounds_up_to_whole_gi() -> None:
    assert quantity.gib(720 * 2**30) == "720Gi"
    assert quantity.gib(720 * 2**30 + 1) == "721Gi"
    # 1.5T = 1.5e12 / 2^30 = 1396.98
    assert quantity.gib(quantity.round_up("1.5T")) == "1397Gi"


def test_mib_is_as_exact_as_one_mi() -> None:
    assert quantity.mib(61 * 2**30) == "61Gi"
    # an H100 reports 81559 MiB; 80 x 1024 = 81920
    assert quantity.mib(80 * 2**30 - 81559 * 2**20) == "361Mi"
    assert quantity.mib(2**20 + 1) == "2Mi"
    # 1.5T = 1.5e12 / 2^20 = 1430511.5
    assert quantity.mib(quantity.round_up("1.5T")) == "1430512Mi"


ORACLE = json.loads(Path(__file__).parent.parent.joinpath("oracle", "quantities.json").read_text("utf-8"))
NANO = Decimal("0.000000001")


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: repr(row["text"]))
def test_agrees_with_apimachinery(row: dict[str, str | None]) -> None:
    """All values except the deliberate differences."""
    text, exact = row["text"] or "", row["exact"]
    if exact is None or not re.search("[0-9]", re.sub("[eE].*", "", text)):
        with pytest.raises(ValueError, match="must be a quantity"):
            quantity.parse(text)
        return
    ours = quantity.parse(text)
    assert abs(ours).quantize(NANO, ROUND_CEILING) == abs(Decimal(exact))
    if ours >= 0:  # upstream's Value() does not round negative fractions in one direction
        assert str(quantity.round_up(text)) == row["whole"]


@given(st.text())
def test_any_other_text_is_a_value_error(text: str) -> None:
    try:
        assert quantity.parse(text).is_finite()
    except ValueError as error:
        assert "must be a quantity" in str(error)  # noqa: PT017  # either outcome is right
