"""`tree`: a deployment, its placements, their remote objects and what those say of their pods, in one picture.

Nothing is asked of a remote cluster: all is what provider-kubernetes last mirrored, and where it could not look, that
is said instead. Of files it is what would come of them: that is called planned, and says nothing of its state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import click

from function.api.model_placement import parse_placement
from function.cli.inputs import KINDS, Inventory, load_inventory
from function.cli.options import WATCH, Form, Sources, examples, form, sources
from function.cli.planning import compose_deployment, plan_deployments
from function.cli.store import Ref, Store
from function.cli.tables import BAD, GOOD, WAIT, format_age, format_data, format_table, paint, print_hint, print_watched
from function.kube.manifests import Manifest, condition, listing, mapping, text
from function.reasons import ConditionType, Status
from function.remote.health import assess
from function.remote.observed_object import State, read
from function.status.sentences import size

_KINDS = ("ModelDeployment", "ModelPlacement", "Object")
_DECIDED = (ConditionType.MODEL_RESOLVED, ConditionType.SCHEDULED)
_COLOURS = {Status.TRUE: GOOD, Status.FALSE: BAD, Status.UNKNOWN: WAIT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One object or condition. `ready` empty: it has no such notion. `ref` None: a condition."""

    title: str
    ref: Ref | None = None
    since: str = ""
    ready: str = ""
    state: str = ""
    message: str = ""
    children: tuple["Node", ...] = ()


@click.command(
    epilog=examples(
        "modelplane tree kimi-k2 -n assistants",
        "modelplane tree kimi-k2 -n assistants --watch",
        "modelplane tree kimi-k2 -n assistants -o dot | dot -Tsvg > tree.svg",
    )
)
@click.argument("deployment", required=False)
@sources
@WATCH
@form(Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.DOT)
def tree(deployment: str | None, *, sources: Sources, watch: bool, form: Form) -> None:
    """Show a deployment with its placements and their remote objects, with age, state and message."""

    def look() -> str:
        if sources.files:
            return _format_tree(_plan_tree(load_inventory(sources, (*KINDS, "Object")), deployment), form)
        world = load_inventory(sources, _KINDS, one_namespace=True)
        return _format_tree(build_tree(world.store, world.find_deployment(deployment)), form)

    print_watched(look, watch=watch)
    if form.for_people:
        again = f" -n {sources.target.namespace}" if sources.target.namespace else ""
        print_hint(f"why{f' {deployment}' if deployment else ''}{again}{sources.again}")


def _plan_tree(world: Inventory, name: str | None) -> Node:
    """Return what would be: of what exists its state, of everything else that it is planned."""
    there, ref = Store(world.store.values()), world.find_deployment(name)
    plan_deployments(world, ())
    outcome = compose_deployment(world.store, ref)[ref]
    for each in list(world.store):  # what a status was made up for while things were tried
        world.store.put({**world.store[each], "status": there.get(each, {}).get("status")})
    root = _mark_planned(build_tree(world.store, ref), world.store)
    if there[ref].get("status"):
        return root
    scheduled = next(c for c in reversed(outcome.conditions) if c.type in _DECIDED and c.status is not Status.UNKNOWN)
    ready = "" if scheduled.status is Status.TRUE else str(scheduled.status)
    return replace(root, ready=ready, state=scheduled.reason, message=_take_first_line(scheduled.message))


def _mark_planned(node: Node, store: Store) -> Node:
    """Return a node with everything below marked as planned that has no status."""
    children = tuple(_mark_planned(child, store) for child in node.children)
    if node.ref is None or store[node.ref].get("status"):
        return replace(node, children=children)
    return replace(
        node, ready="", since="", state="Planned", message=_describe_shape(store[node.ref]), children=children
    )


def _describe_shape(manifest: Manifest) -> str:
    """Return the shape of a placement."""
    placement = parse_placement(manifest).value if text(manifest, "kind") == "ModelPlacement" else None
    if placement is None or placement.shape is None:
        return ""
    return f"profile {placement.profile}, pool {placement.pool}, {size(placement.replicas, placement.shape)}"


def build_tree(store: Store, ref: Ref) -> Node:
    """Return the tree of a deployment."""
    children = tuple(_build_placement(store, placement) for placement in store.owned(ref).values())
    return replace(_build_composite(store.get(ref) or {}), children=children)


def _build_placement(store: Store, placement: Manifest) -> Node:
    objects = [m for m in store.owned(Ref.of(placement)).values() if m["kind"] == "Object"]
    node = _build_composite(placement)
    where = text(placement, "spec.inferenceEnvironmentRef.name")
    children = tuple(_build_object(item) for item in objects)
    return replace(node, title=f"{node.title} on {where}", state=text(placement, "status.phase"), children=children)


def _build_composite(manifest: Manifest) -> Node:
    ready = condition(manifest, "Ready")
    open_ = [c for c in listing(manifest, "status.conditions") if c.get("status") != Status.TRUE and c != ready]
    blocking = open_[0] if open_ else ready
    return Node(
        title=f"{text(manifest, 'kind')}/{text(manifest, 'metadata.name')}",
        ref=Ref.of(manifest),
        since=text(manifest, "metadata.creationTimestamp"),
        ready=text(ready, "status") or Status.UNKNOWN,
        state=text(blocking, "reason"),
        message=_take_first_line(text(blocking, "message")),
    )


def _build_object(manifest: Manifest) -> Node:
    wanted, remote = mapping(manifest, "spec.forProvider.manifest"), read(manifest)
    if remote.present:
        health = assess(remote.manifest)
        status = Status.TRUE if health.up else Status.FALSE
        state, message = health.level.value, health.message
    else:
        status = Status.UNKNOWN if remote.state_unknown or remote.state is State.UNSEEN else Status.FALSE
        state, message = (
            remote.state.name.replace("_", " "),
            remote.message or remote.state.value.message or "not reconciled yet",
        )
    return Node(
        title=f"{text(wanted, 'kind')}/{text(wanted, 'metadata.name')}",
        ref=Ref.of(manifest),
        since=text(remote.manifest, "metadata.creationTimestamp"),
        ready=status,
        state=state.capitalize(),
        message=_take_first_line(message),
        children=tuple(_list_conditions(remote.manifest)),
    )


def _list_conditions(remote: Manifest) -> Iterator[Node]:
    for found in listing(remote, "status.conditions"):
        yield Node(
            title=text(found, "type"),
            since=text(found, "lastTransitionTime"),
            ready=text(found, "status"),
            state=text(found, "reason"),
            message=_take_first_line(text(found, "message")),
        )


def _take_first_line(message: str) -> str:
    return message.partition("\n")[0]


def _format_tree(root: Node, form: Form) -> str:
    if form is Form.DOT:
        return _format_dot(root)
    if not form.for_people:
        return format_data(form, _build_data(root))
    rows = [
        (
            branch + node.title,
            _paint_ready(node.ready),
            format_age(node.since),
            node.state,
            node.message,
        )
        for branch, node in _list_lines(root, "", wide=form is Form.WIDE)
    ]
    return format_table(("NAME", "READY", "AGE", "STATE", "MESSAGE"), rows)


def _paint_ready(ready: str) -> str:
    return paint(ready, _COLOURS.get(Status(ready), WAIT)) if ready else ""


def _list_lines(node: Node, stem: str, *, wide: bool) -> Iterator[tuple[str, Node]]:
    """Return every node with the branch before it; what is True and has nothing below says little, save when wide."""
    if not stem:
        yield "", node
    below = [n for n in node.children if wide or n.children or "/" in n.title or n.ready != Status.TRUE]
    for index, child in enumerate(below):
        last = index == len(below) - 1
        yield stem + ("└─ " if last else "├─ "), child
        yield from _list_lines(child, stem + ("   " if last else "│  "), wide=wide)


def _build_data(node: Node) -> Manifest:
    return {
        "name": node.title,
        "ready": node.ready,
        "since": node.since,
        "state": node.state,
        "message": node.message,
        "children": [_build_data(child) for child in node.children],
    }


def _format_dot(root: Node) -> str:
    lines = ["digraph modelplane {", "  rankdir=LR; node [shape=box, style=rounded, fontname=Helvetica];"]
    names = iter(range(10**6))

    def draw(node: Node) -> str:
        name = f"n{next(names)}"
        label = f"{node.title}\\n{node.state}".replace('"', "'")
        colour = {Status.TRUE: "darkgreen", Status.FALSE: "firebrick"}.get(Status(node.ready), "goldenrod")
        lines.append(f'  {name} [label="{label}", color={colour}];')
        below = [draw(child) for child in node.children]
        lines.extend(f"  {name} -> {child};" for child in below)
        return name

    draw(root)
    return "\n".join([*lines, "}"])
