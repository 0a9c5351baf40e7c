"""The options that commands share, in kubectl's words, and how a command fails."""

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import click

from function.kube.names import GROUP
from function.kube.selectors import Operator, Selector, SelectorRequirement


class Code(IntEnum):
    """Exit codes that a caller may rely on; 2 is also click's own for a wrong option."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    BUG = 70
    INTERRUPTED = 130


class CliError(click.ClickException):
    """A failure that the user can do something about; main.py prints it."""

    def __init__(self, message: str, code: Code = Code.USAGE) -> None:
        super().__init__(message)
        self.code = code


class InvalidInput(click.exceptions.Exit):
    """Ends a command whose files have faults, once they are printed."""

    def __init__(self, code: int, faults: Sequence[str]) -> None:
        super().__init__(code)
        self.faults = faults


def import_extra(module: str, extra: str = "cli") -> Any:
    """Imports a library of an extra, which commands load when they need it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        message = f"this needs {library}: pip install 'function-modelplane[{extra}]' ('.[{extra}]' in a clone)"
        raise CliError(message, Code.UNREACHABLE) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What to read: files, which are applied over the live objects, and which control plane."""

    files: tuple[str, ...] = ()
    live: bool = False
    strict: bool = False
    context: str | None = None
    kubeconfig: str | None = None
    namespace: str | None = None  # None: the context's own
    all_namespaces: bool = False

    def narrow(self, name: "Name | None") -> "Sources":
        """Returns what to read for one object: only its namespace, if its name has one."""
        if name is None or not name.namespace:
            return self
        if self.namespace not in (None, name.namespace):
            raise click.UsageError(f"{name} is in namespace {name.namespace}, and -n gives {self.namespace}")
        # Of files all objects are read, and keep their namespaces.
        return self if self.files else replace(self, namespace=name.namespace, all_namespaces=False)


class Form(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    SVG = "svg"
    DOT = "dot"
    PAGE = "page"

    @property
    def for_people(self) -> bool:
        return self in (Form.TABLE, Form.WIDE)


# As the XRDs have them.
SHORT_NAMES = {
    "ClusterModel": "cmdl", "Model": "mdl", "InferenceEnvironment": "ie", "ModelDeployment": "mdldep",
    "ModelPlacement": "mdlpl", "ModelCache": "mdlcache", "ModelService": "mdlsvc",
}  # fmt: skip


def find_kind(type_: str, kinds: Iterable[str] = tuple(SHORT_NAMES)) -> str:
    """Returns the kind that a type names for kubectl, such as mdldep or modeldeployments.modelplane.ai; else empty."""
    resource, _, group = type_.lower().partition(".")
    for kind in kinds:
        if resource in {kind.lower(), f"{kind.lower()}s", SHORT_NAMES[kind]} and group in {"", GROUP}:
            return kind
    return ""


class Name(NamedTuple):
    """An object as NAME, NAMESPACE/NAME, TYPE/NAME or TYPE/NAMESPACE/NAME names it."""

    kind: str  # empty: not given
    name: str
    namespace: str = ""  # empty: not given

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.name)))


# Types of kubectl that people write before the name of a model; as namespaces they would only confuse.
_OTHER_TYPES = frozenset({"deployment", "deployments", "deploy", "service", "services", "svc", "pod", "pods"})
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def split_name(value: str, *kinds: str) -> Name:
    """Reads a name of an object of some kinds, as kubectl writes it, or as commands print it."""
    *before, name = value.split("/")
    kind = find_kind(before[0], kinds) if before else ""
    namespaces = before[1:] if kind else before
    is_namespaced = (kind or kinds[-1]) not in ("InferenceEnvironment", "ClusterModel")
    usable = [n for n in namespaces if _NAMESPACE.fullmatch(n) and n not in _OTHER_TYPES and not find_kind(n)]
    if namespaces != usable[:is_namespaced] or not name:
        types = (f"{kind.lower()}/NAME" for kind in kinds)
        forms = " or ".join(("NAME", *(("NAMESPACE/NAME",) if is_namespaced else ()), *types))
        raise click.BadParameter(f"{value} names no {' or '.join(kinds)}. Give {forms}")
    return Name(kind, name, *namespaces)


def read_name(kind: str) -> Callable[[str], str]:
    """Returns the type of an argument that is a name, or TYPE/NAME, of an object without a namespace."""
    return lambda value: split_name(value, kind).name


def read_namespaced(*kinds: str) -> Callable[[str], Name]:
    """Returns the type of an argument that names an object of some kinds, which have namespaces."""
    return lambda value: split_name(value, *kinds)


_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*)?(?P<key>[^\s,!=()]+)"
    r"(?:\s*(?P<equality>==|=|!=)\s*(?P<value>[^\s,!=()]*)|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)
_OPERATORS = {
    "": Operator.EXISTS, "!": Operator.DOES_NOT_EXIST, "=": Operator.IN, "==": Operator.IN, "!=": Operator.NOT_IN,
    "in": Operator.IN, "notin": Operator.NOT_IN,
}  # fmt: skip


def parse_selector(value: str) -> Selector:
    """Reads a label selector as kubectl does: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""
    requirements = []
    end = 0
    while value[end:].strip():
        match = _REQUIREMENT.match(value, end)
        operators = [*filter(None, match.group("absent", "equality", "set"))] if match else []
        if match is None or len(operators) > 1:
            raise click.BadParameter(f"{value[end:]} is not KEY=VALUE, KEY!=VALUE, KEY in (VALUE,...), KEY or !KEY")
        operator = _OPERATORS["".join(operators)]
        end = match.end()
        values = sorted(v.strip() for v in (match["value"] or match["values"] or "").split(","))
        compared = tuple(values) if operator in (Operator.IN, Operator.NOT_IN) else ()
        requirements.append(SelectorRequirement(key=match["key"], operator=operator, values=compared))
    return Selector(tuple(requirements))


SELECTOR = click.option(
    "-l", "--selector", metavar="SELECTOR", type=parse_selector, help="Only what has these labels, as for kubectl."
)
EVERY_FORM = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME)
_Function: TypeAlias = Callable[..., object]
_Decorator: TypeAlias = Callable[[_Function], _Function]
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
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done and change nothing.")
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)


def parse_duration(value: str) -> int:
    """Returns the seconds of a duration as kubectl writes it: `90s`, `5m`, `1h30m`, or a number of seconds."""
    match = _DURATION.fullmatch(value)
    hours, minutes, seconds = (int(number or 0) for number in match.groups()) if match else (0, 0, 0)
    if total := 3600 * hours + 60 * minutes + seconds:
        return total
    raise click.BadParameter(f"{value} is no duration. Give one such as 90s, 5m or 1h30m")


TIMEOUT = click.option(
    "--timeout", type=parse_duration, metavar="DURATION", default="24h", show_default=True, help="Wait no longer."
)


def _complete_namespaces(*arguments: Any) -> Any:
    return importlib.import_module("function.cli.names").complete_namespaces(*arguments)


_SOURCES: Mapping[str, _Decorator] = {
    "files": FILES,
    "live": click.option("--live", is_flag=True, help="Read the control plane too; files lie over what is there."),
    "strict": click.option(
        "--strict", is_flag=True, help="Take statuses as they are: an environment without one is not Ready."
    ),
    "namespace": click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace; the context's own by default.",
        shell_complete=_complete_namespaces,
    ),
    "all_namespaces": click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."),
    "context": click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    "kubeconfig": click.option("--kubeconfig", metavar="FILE", type=click.Path(exists=True), help="Kubeconfig to use."),
}


def _pass_as_sources(*names: str) -> _Decorator:
    """Returns a decorator that adds options and passes them on as one value, `sources`."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapped(*args: object, **values: Any) -> object:
            given = {name: values.pop(name) for name in names}
            return function(*args, **values, sources=Sources(**given))

        decorated: _Function = wrapped
        for name in reversed(names):
            decorated = _SOURCES[name](decorated)
        return decorated

    return decorate


sources = _pass_as_sources(*_SOURCES)
target = _pass_as_sources("namespace", "all_namespaces", "context", "kubeconfig")
CLUSTER = _pass_as_sources("context", "kubeconfig")
FILES_OR_CLUSTER = _pass_as_sources("files", "context", "kubeconfig")


def is_quiet() -> bool:
    """Tells whether only results and errors are printed."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_QUIET, False)


_QUIET = f"{__name__}.quiet"
_QUIET_OPTION = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, value: context.meta.update({_QUIET: value}),
    help="Only results and errors: no warnings and no notes.",
)


def _set_colour(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  # click's signature
    if value:
        context.color = False


_NO_COLOUR = click.option("--no-color", is_flag=True, expose_value=False, callback=_set_colour, help="No colours.")


def add_output_options(function: _Function) -> _Function:
    """Adds the options of every command: what is left out of the output."""
    return _NO_COLOUR(_QUIET_OPTION(function))


def form(*forms: Form) -> _Decorator:
    """Returns the options for how to write the result, the first form being the default."""
    choice = click.Choice(forms, case_sensitive=False)
    output = click.option(
        "-o", "--output", "form", type=choice, default=str(forms[0]), show_default=True, help="How to write it."
    )
    return lambda function: output(add_output_options(function))


def read_starter(name: str) -> str:
    """Returns a file that commands print as it is, or parts of it."""
    return resources.files("function.cli").joinpath("starters", name).read_text()


def read_manifest_schema() -> str:
    """Returns the JSON schema of all manifests, which tools/manifest_schema.py generates from the XRDs."""
    return resources.files("function").joinpath("schemas", "manifests.json").read_text()


def examples(command: str) -> str:
    """Returns the end of a command's help: its examples, each on a line of its own."""
    lines = (line for line in read_starter("examples.txt").splitlines() if f"modelplane {command} " in f"{line} ")
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
