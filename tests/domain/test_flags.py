"""Flags are parsed as the engines do."""

import pytest

from function.domain.engines import get_last_value, parse_flags


@pytest.mark.parametrize(
    ("reason", "args", "want"),
    [
        ("nothing is given", (), []),
        ("a value after an equals sign", ("--a=b=c",), [("--a", ("b=c",))]),
        ("values up to the next flag", ("--a", "b", "c", "--d"), [("--a", ("b", "c")), ("--d", ())]),
        ("after an equals sign nothing else is a value", ("--a=b", "c"), [("--a", ("b",))]),
        ("underscores equal dashes in the name alone", ("--a_b=c_d",), [("--a-b", ("c_d",))]),
        ("a letter with its number", ("-n2", "-tp", "8"), [("-n", ("2",)), ("-tp", ("8",))]),
        ("a negative number is a value", ("--a", "-1", "-b"), [("--a", ("-1",)), ("-b", ())]),
        ("what stands before every flag belongs to none", ("a", "--b"), [("--b", ())]),
    ],
)
def test_parses_flags(reason: str, args: tuple[str, ...], want: list[tuple[str, tuple[str, ...]]]) -> None:
    assert [(flag.name, flag.values) for flag in parse_flags(args)] == want, reason


def test_truncates_long_values_of_flags() -> None:
    (flag,) = parse_flags((f"--a={'b' * 4096}",))
    assert flag.text == f"--a={'b' * 60}…"


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ((), None),
        (("--backend=ray",), "ray"),
        (("--backend", "ray"), "ray"),
        (("--backend=mp", "--backend", "ray"), "ray"),
        (("--backend",), ""),
        (("--backends=ray",), None),
    ],
)
def test_last_value_of_a_flag_counts(args: tuple[str, ...], want: str | None) -> None:
    assert get_last_value(args, "--backend") == want
