"""The options that commands share, in kubectl's words, what they mean, and how a command fails."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TypeAlias

import click


class Code(IntEnum):
    """What a caller may rely on; 2 is also click's own for a wrong option."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    BUG = 70
    INTERRUPTED = 130


class CliError(click.ClickException):
    """A failure that the user can do something about; whatever meets one raises it, up to main.py."""

    def __init__(self, message: str, code: Code = Code.USAGE) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which control plane, and which namespace of it. `namespace` None: the context's own.

    `seconds`: how long it may take to answer.
    """

    context: str | None = None
    kubeconfig: str | None = None
    namespace: str | None = None
    everywhere: bool = False
    seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What to read. Files are applied over the live state, values of `sets` over both."""

    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    live: bool = False
    strict: bool = False
    target: Target = Target()

    @property
    def connects(self) -> bool:
        """Whether the control plane is asked: always where no file is given."""
        return self.live or not self.files

    @property
    def again(self) -> str:
        """The options that name the same files once more."""
        return "".join(f" -f {file}" for file in self.files)


class Form(StrEnum):
    """How a result is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    SVG = "svg"
    DOT = "dot"

    @property
    def for_people(self) -> bool:
        """Whether a person reads it, who wants to know what comes next."""
        return self in (Form.TABLE, Form.WIDE)


EVERY_FORM = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME)


Function: TypeAlias = Callable[..., object]
Option: TypeAlias = Callable[[Function], Function]


def _group_options(name: str, make: Function, keys: tuple[str, ...], options: tuple[Option, ...]) -> Option:
    """Return a decorator that adds options and passes them on as one value."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args: object, **given: object) -> object:
            taken = {key: given.pop(key) for key in keys}
            return function(*args, **given, **{name: make(**taken)})

        decorated: Function = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


_TARGET_KEYS = ("context", "kubeconfig", "namespace", "everywhere")
_TARGET = (
    click.option("-n", "--namespace", metavar="NAME", help="Namespace; the context's own by default."),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="Kubeconfig to use."),
)
FILES = click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="File, folder or - for standard input; may be repeated.",
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Look again every two seconds.")
_LIVE = click.option("--live", is_flag=True, help="Read the control plane too; files lie over what is there.")
_STRICT = click.option(
    "--strict", is_flag=True, help="Take statuses as they are: an environment without one is not Ready."
)
_SET = click.option(
    "--set",
    "sets",
    metavar="ENVIRONMENT/POOL.FIELD=VALUE",
    multiple=True,
    help="Another value, such as us-east/h100.maxNodeCount=8.",
)


def _make_sources(**given: object) -> object:
    make_target, make_sources = (Target, Sources)  # type: tuple[Function, Function]
    target = make_target(**{key: given.pop(key) for key in _TARGET_KEYS})
    return make_sources(**given, target=target)


def examples(*lines: str) -> str:
    """Return the end of a command's help, which keeps its lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


target = _group_options("target", Target, _TARGET_KEYS, _TARGET)
sources = _group_options(
    "sources", _make_sources, ("files", "live", "strict", *_TARGET_KEYS), (FILES, _LIVE, _STRICT, *_TARGET)
)
sources_with_set = _group_options(
    "sources",
    _make_sources,
    ("files", "live", "sets", "strict", *_TARGET_KEYS),
    (FILES, _LIVE, _SET, _STRICT, *_TARGET),
)


def form(*forms: Form) -> Option:
    """Return the options for how to write the result, the first being the default; colours are off where unwanted."""

    def colour(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  # click's signature
        if value:
            context.color = False

    def decorate(function: Function) -> Function:
        choice = click.Choice([str(f) for f in forms])
        no_colour = click.option("--no-color", is_flag=True, expose_value=False, callback=colour, help="No colours.")

        @functools.wraps(function)
        def wrapped(*args: object, output: str, **given: object) -> object:
            return function(*args, **given, form=Form(output))

        return click.option(
            "-o", "--output", type=choice, default=str(forms[0]), show_default=True, help="How to write it."
        )(no_colour(wrapped))

    return decorate
