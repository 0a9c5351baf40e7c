"""Reads files, a live control plane, or both, into one store of objects, and checks them first as `validate` does.

Files are applied over the live objects. An environment from a file without a status counts as Ready, since its author
asks where deployments would be placed once everything is up; --strict takes every status as it is.
"""

import contextlib
import copy
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from function.api.problems import find_nearest
from function.cli.composing import CONFIG, reads_environment_configs
from function.cli.live import Cluster, connect
from function.cli.options import CliError, Code, Name, Sources
from function.cli.references import NODE_POOLS
from function.cli.store import Ref, Store, adopt_placements, is_ours, normalize_json, refuse_unknown
from function.cli.tables import warn
from function.cli.validation import Fault, Item, check_items, find_entry, find_problems, list_known, print_faults
from function.composers import COMPOSERS
from function.domain.model import Problem
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.messages import join_with_more
from function.kube.names import GROUP
from function.kube.selectors import Selector

KINDS = tuple(COMPOSERS)
_SUFFIXES = (".yaml", ".yml", ".json")
_ADVICE = "Put --- between objects, or leave one out"
_KEY = re.compile(r" *(?:- +)*([A-Za-z][\w.-]{0,62}) *:(?:\s|$)", re.ASCII)
_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc, valid-type]  # libyaml's where it was built in, which is ten times as fast
    """Reads a time as text, as JSON has it, and refuses a key that a map has twice, and types that JSON lacks."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002  # yaml's signature
        """Returns a map. YAML forbids duplicate keys, and PyYAML would silently take the last one."""
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in lines:
                message = f"{key.value} is given already in line {lines[key.value] + 1}"
                raise yaml.MarkedYAMLError(problem=f"{message}. {_ADVICE}", problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line
        constructed: dict[object, object] = super().construct_mapping(node, deep)
        return constructed

    def refuse(self, node: yaml.Node) -> None:
        kind = node.tag.rpartition(":")[2]
        raise yaml.MarkedYAMLError(problem=f"!!{kind} is not a type of Kubernetes", problem_mark=node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_str)
for _kind in ("binary", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.refuse)


def read_files(paths: Sequence[str]) -> list[Item | Fault]:
    """Reads the manifests of files, folders and standard input (`-`), in their order, and why others cannot be read."""
    items = [item for path in paths for item in _read_path(path)]
    if paths and not items:
        raise CliError(f"there is no object in {', '.join(paths)}. Name another file")
    return items


def _read_path(path: str) -> Iterator[Item | Fault]:
    files = [path]
    if path != "-" and Path(path).is_dir():
        files = sorted(str(f) for f in Path(path).rglob("*") if f.suffix in _SUFFIXES and f.is_file())
        if not files:
            yield _refuse(path, 0, f"the folder holds no {', '.join(_SUFFIXES)}. Name another")
    for file in files:
        name = "standard input" if file == "-" else file
        try:
            content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            yield from _parse_manifests(name, content.decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            yield _refuse(name, 0, f"cannot be read: {reason}. Name a file, a folder or -")


def _parse_manifests(file: str, content: str) -> Iterator[Item | Fault]:
    """Returns the manifests of a file, up to the first fault in its YAML."""
    loader = _Loader(content)
    line = 1
    try:
        while loader.check_node():
            node = loader.get_node()
            line = node.start_mark.line + 1
            document = normalize_json(loader.construct_document(node))
            if document is not None:
                yield from _list_manifests(file, node, document)
    except yaml.YAMLError as error:
        yield _refuse(file, *_explain_syntax(error, content.splitlines(), line))
    except ValueError as error:  # `!!int foo`, or a number with thousands of digits
        yield _refuse(file, line, f"it has a value that is not what its type says ({error}). Correct the YAML")
    except RecursionError:
        yield _refuse(file, line, "it is nested too deeply, or contains itself. Correct the YAML")


def _explain_syntax(error: yaml.YAMLError, lines: Sequence[str], begin: int) -> tuple[int, str]:
    """Returns the line and the usual reason why a file is not YAML; `begin` is the line if the error names none."""
    problem = str(getattr(error, "problem", None) or "it is not YAML")
    mark: yaml.Mark | None = getattr(error, "problem_mark", None)
    block: yaml.Mark | None = getattr(error, "context_mark", None)
    at = mark.line + 1 if mark else begin
    # The parser notices a template in its own line, or at the beginning of the next one.
    template = next((number for number in (at, at - 1) if 0 < number <= len(lines) and "{{" in lines[number - 1]), None)
    if template is not None:
        return template, "{{ is part of a template. Render it first, for example with helm template"
    if _ADVICE in problem or mark is None:
        return at, problem if _ADVICE in problem else f"{problem}. Correct the YAML"
    line = lines[at - 1] if at <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return at, "it is indented with a tab. Indent with spaces"
    return at, _explain_indentation(
        problem, mark, block, lines[:at]
    ) or f"{problem} (column {mark.column + 1}). Correct the YAML"


def _explain_indentation(problem: str, mark: yaml.Mark, block: yaml.Mark | None, lines: Sequence[str]) -> str:
    """Returns what is wrong with the indentation or the quotes of the last line; empty if it is something else.

    `block` is where the block begins that the parser was reading.
    """
    match problem:
        case "mapping values are not allowed in this context":
            reason = "either the line above has a value already, or a text contains a colon"
            colon = f"the colon in column {mark.column + 1} ends a key, and there can be none"
            return f"{colon}: {reason}. Indent both lines alike, or put the text in quotes"
        case "did not find expected key" | "did not find expected '-' indicator" if block:
            *above, line = lines or ("",)
            if line[: mark.column].strip():
                quotes = f"a text in quotes ends before column {mark.column + 1}, and more follows"
                return f"{quotes}. Check the quotes in this line and above it"
            if mark.column != block.column:
                before = next((text for text in reversed(above) if text.strip()), "")
                columns = sorted({block.column + 1, len(before) - len(before.lstrip(" -")) + 1})
                # A line without a key may be a part of a text, which may be a secret.
                key = _KEY.match(line)
                word = key[1] if key else "this line"
                others = f"those around it begin in column {' or '.join(map(str, columns))}"
                return f"{word} begins in column {mark.column + 1}, and {others}. Indent it like one of them"
    return ""


def _list_manifests(file: str, node: yaml.Node, document: JSON) -> Iterator[Item | Fault]:
    missing = next((field for field in ("kind", "apiVersion") if not text(document, field)), None)
    if not isinstance(document, dict) or missing:
        message = f"this is not a Kubernetes manifest (it has no {missing}). Correct or remove it"
        yield _refuse(file, node.start_mark.line + 1, message)
    elif text(document, "kind").endswith("List") and isinstance(entries := get(document, "items"), list):
        _, nodes = find_entry(node, "items")
        for entry, item in zip(nodes.value if nodes else (), entries, strict=True):
            yield from _list_manifests(file, entry, item)
    else:
        yield Item(document, file, node)


def _refuse(file: str, line: int, message: str) -> Fault:
    return Fault(file=file, line=line, problem=Problem("", message))


@dataclass(slots=True)
class Inventory:
    """All objects that were read, and their origin."""

    store: Store
    namespace: str  # the one in scope; empty: all are
    from_files: frozenset[Ref] = frozenset()  # the composites in the files of -f
    namespaces: frozenset[str] = frozenset()  # of all objects that are known
    chosen: bool = False  # the namespace was given; the context's own does not exclude what files hold
    before: "Inventory | None" = None  # without the values of --set; None where there are none
    edited: frozenset[Ref] = frozenset()  # environments whose spec may differ from the one they published a ledger for

    def list_deployments(self, names: Sequence[Name] = (), selector: Selector | None = None) -> list[Ref]:
        """Returns the deployments that are named or selected, else those in files, else all that are in scope."""
        if names and selector:
            raise CliError("give names or --selector, not both")
        if names:
            return [self._find_deployment(name) for name in names]
        in_scope = [ref for ref in self.store.refs("ModelDeployment") if self.in_scope(ref)]
        selected = [ref for ref in in_scope if self.store.is_selected(ref, selector)]
        if not selected:
            which = f" with {selector}" if selector else ""
            where = f" in namespace {self.namespace} (-A looks everywhere)" if self.namespace else ""
            advice = "" if selector else self.describe_empty_namespace()
            raise CliError(f"there is no ModelDeployment{which}{where}. {advice or 'Give one with -f'}", Code.NOT_FOUND)
        return selected if selector else [ref for ref in selected if ref in self.from_files] or selected

    def find_deployment(self, name: Name | None, selector: Selector | None = None) -> Ref:
        refs = self.list_deployments([name] if name else (), selector)
        if len(refs) > 1:
            named = ", ".join(f"{ref.namespace}/{ref.name}" for ref in refs)
            raise CliError(f"which ModelDeployment? There are {named}. Name one, or show all with -A")
        return refs[0]

    def list_named(self, name: Name, *kinds: str) -> list[Ref]:
        """Returns the objects of some kinds with a name, in its namespace, or else in scope."""
        return [ref for ref in self._list_near(name, *kinds) if ref.name == name.name]

    def _list_near(self, name: Name, *kinds: str) -> list[Ref]:
        """Returns the objects of some kinds in the namespace of a name, or else in scope."""
        refs = self.store.refs(*kinds)
        return [ref for ref in refs if (ref.namespace == name.namespace if name.namespace else self.in_scope(ref))]

    def _find_deployment(self, name: Name) -> Ref:
        matching = self.list_named(name, "ModelDeployment")
        if not matching:
            namespace = name.namespace or self.namespace
            missing = f"there is no ModelDeployment {name.name}{f' in namespace {namespace}' if namespace else ''}"
            known = [ref.name for ref in self._list_near(name, "ModelDeployment")]
            raise refuse_unknown(missing, name.name, known, "Look for it with -n NAMESPACE or -A")
        if len(matching) > 1:
            namespaces = ", ".join(ref.namespace for ref in matching)
            raise CliError(f"ModelDeployment {name} is in the namespaces {namespaces}. Choose one with -n")
        return matching[0]

    def describe_empty_namespace(self) -> str:
        """Returns which namespace may be meant, if the one that was given has no object; else empty."""
        others = sorted(self.namespaces)
        if not self.chosen or self.namespace in ("", *others) or not others:
            return ""
        close = find_nearest(self.namespace, others)
        known = f"Did you mean -n {close}?" if close else f"There are objects in {join_with_more(others)}"
        return f"Namespace {self.namespace} has no object of {GROUP}. {known}"

    def warn_of_empty_namespace(self) -> None:
        if advice := self.describe_empty_namespace():
            warn(advice[0].lower() + advice[1:])

    def in_scope(self, ref: Ref) -> bool:
        """Tells whether an object is in the namespace that is in scope, or in none."""
        return (
            not ref.namespace or self.namespace in ("", ref.namespace) or (ref in self.from_files and not self.chosen)
        )


def load_inventory(
    sources: Sources, kinds: Sequence[str] = KINDS, *, one_namespace: bool = False, sets: Sequence[str] = ()
) -> Inventory:
    """Reads the sources and sets values of pools; with `one_namespace` only the namespace in scope, and no settings."""
    store = Store()
    # Without a control plane there is no context that has a namespace.
    namespace = sources.namespace or ""
    namespaces: set[str] = set()
    if sources.live or not sources.files:
        cluster = connect(sources)
        namespace = cluster.namespace
        narrow = namespace if one_namespace and not sources.all_namespaces else ""
        if sources.files:
            kinds = tuple(dict.fromkeys((*kinds, *KINDS)))  # what files may refer to
        live = cluster.objects(kinds, narrow)
        namespaces = {Ref.of(manifest).namespace for manifest in live}
        if narrow and not namespaces:
            namespaces = _find_namespaces(cluster, kinds)
        for manifest in (*live, *([] if one_namespace else _load_settings(cluster))):
            store.put(manifest)
    items = read_files(sources.files)
    print_faults(check_items(items, Store(store.values()), namespace))
    manifests = [item.manifest for item in list_known(items, namespace)]
    for manifest in manifests:
        store.lay_over(manifest)
    from_files = frozenset(Ref.of(manifest) for manifest in manifests if is_ours(manifest))
    environments = frozenset(ref for ref in from_files if ref.kind == "InferenceEnvironment")
    for ref in environments if not sources.strict else ():
        if not store[ref].get("status"):
            ready: JSON = [{"type": "Ready", "status": "True", "reason": "Assumed"}]
            store.put({**store[ref], "status": {"conditions": ready}})
    adopt_placements(store, from_files)
    scope = "" if sources.all_namespaces else namespace
    namespaces |= {ref.namespace for ref in store}
    inventory = Inventory(
        store,
        scope,
        from_files,
        namespaces=frozenset(namespaces - {""}),
        chosen=bool(sources.namespace),
        edited=environments,
    )
    if sets:
        inventory.before = replace(inventory, store=Store(store.values()))
    for value in sets:
        inventory.edited |= {_set_value(store, value)}
    return inventory


def _find_namespaces(cluster: Cluster, kinds: Sequence[str]) -> set[str]:
    """Returns the namespaces of the objects of some kinds; none where the caller may not read them."""
    with contextlib.suppress(CliError):
        return {Ref.of(manifest).namespace for manifest in cluster.objects(kinds)}
    return set()


def _load_settings(cluster: Cluster) -> list[Manifest]:
    """Returns what sets the function's input; warns where the caller may not read it."""
    try:
        compositions = cluster.objects(["Composition"])
        steps = (step for composition in compositions for step in listing(composition, "spec.pipeline"))
        return [*compositions, *(cluster.objects([CONFIG]) if any(map(reads_environment_configs, steps)) else [])]
    except CliError as error:
        if error.code != Code.NOT_FOUND:
            warn(f"{error.message}; the built-in settings are assumed")
        return []


_SET = re.compile(r"([^/=]+)/([^./=]+)\.([A-Za-z0-9.]+)=(.*)")


def _set_value(store: Store, value: str) -> Ref:
    """Sets a value of a pool, given as ENVIRONMENT/POOL.FIELD=VALUE with a YAML value; returns the environment."""
    match = _SET.fullmatch(value)
    if match is None:
        raise CliError(f"--set {value} is not ENVIRONMENT/POOL.FIELD=VALUE, such as us-east/h100.nodeCount=8")
    environment, pool, field, content = match.groups()
    ref = Ref("InferenceEnvironment", "", environment)
    before = store.require(ref, context=f"--set {value}: ")
    after = copy.deepcopy(before)
    blocks = (listing(after, path) for path in NODE_POOLS)
    pools = {text(item, "name"): item for block in blocks for item in block}
    if pool not in pools:
        raise refuse_unknown(f"--set {value}: there is no pool {pool} of {ref}", pool, [*pools])
    *path, last = field.split(".")
    block = pools[pool]
    for key in path:
        block[key] = mapping(block, key)
        block = mapping(block, key)
    try:
        block[last] = normalize_json(yaml.load(content, _Loader))  # noqa: S506  # a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise CliError(f"--set {value}: {content} is not YAML") from error
    earlier = {*find_problems(before)}
    if problems := sorted({*find_problems(after)} - earlier):
        # Numbers as text: the shell has taken the quotes of a price.
        block[last] = normalize_json(yaml.load(content, yaml.BaseLoader))  # noqa: S506  # every scalar is text
        if {*find_problems(after)} - earlier:
            raise CliError(f"--set {value}: {problems[0]}")
    store.put(after)
    return ref
