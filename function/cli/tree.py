"""`tree`: a deployment, its placements, their remote objects and the state of their pods, in one picture.

No remote cluster is read: the states are those that provider-kubernetes last mirrored. From files, `tree` shows
the objects that would exist: they are marked as planned, and have no state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import click

from function.api.model_deployment import parse_placement
from function.cli.inputs import Inventory, load_inventory
from function.cli.names import complete_names
from function.cli.options import SELECTOR, WATCH, Form, Name, Sources, examples, form, read_namespaced, sources
from function.cli.planning import compose_deployment, compose_files, find_condition, list_subjects, plan_deployments
from function.cli.progress import format_progress
from function.cli.store import Ref, Store, is_ours
from function.cli.tables import STATUS_COLOURS, format_age, format_data, format_table, paint_status, print_watched
from function.domain.allocation import format_replicas
from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from function.kube.selectors import Selector
from function.reasons import Status
from function.remote.composed_kinds import assess
from function.remote.observed_object import State, read_object, read_written


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    ready: str = ""  # a Status; empty: it is planned
    since: str = ""
    state: str = ""
    message: str = ""
    conditions: tuple["Node", ...] = ()
    children: tuple["Node", ...] = ()


@click.command(epilog=examples("tree"))
@click.argument(
    "subject",
    metavar="[DEPLOYMENT]",
    type=read_namespaced("ModelDeployment", "ModelService"),
    required=False,
    shell_complete=complete_names("ModelDeployment", "ModelService"),
)
@sources
@SELECTOR
@WATCH
@form(Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.DOT)
def tree(subject: Name | None, *, sources: Sources, selector: Selector | None, watch: bool, form: Form) -> None:
    """Show a deployment with its placements and their remote objects, with age, state and message.

    With -A and without a name, it shows every deployment.
    """
    is_list = subject is None and sources.all_namespaces

    def render() -> str:
        kinds = "ModelDeployment", "ModelPlacement", "ModelService", "Object"
        inventory = load_inventory(sources.narrow(subject), kinds, one_namespace=not sources.files)
        refs = list_subjects(inventory, subject, selector, all_namespaces=sources.all_namespaces)
        if [ref.kind for ref in refs] == ["ModelService"]:
            if sources.files:
                compose_files(inventory)
            roots = [_build_service(inventory.store, ref, planned=bool(sources.files)) for ref in refs]
        elif sources.files:
            roots = _plan_trees(inventory, refs)
        else:
            roots = [_build_deployment(inventory.store, ref) for ref in refs]
        return _format_trees(roots, form, is_list=is_list)

    print_watched(render, watch=watch)


def _plan_trees(inventory: Inventory, refs: Sequence[Ref]) -> list[Node]:
    """Returns what would exist: objects that exist have their state, all others are planned."""
    store = inventory.store
    existing = Store(store.values())
    plan_deployments(inventory, ())
    outcomes = {ref: compose_deployment(store, ref)[ref] for ref in refs}
    for other in list(store):  # planning has reported everything as up
        store.put({**store[other], "status": existing.get(other, {}).get("status")})
    roots = []
    for ref, outcome in outcomes.items():
        root = _build_deployment(store, ref, planned=True)
        if not existing[ref].get("status"):
            scheduled = find_condition(outcome)
            ready = "" if scheduled.status is Status.TRUE else str(scheduled.status)
            message = scheduled.message.partition("\n")[0]
            root = replace(root, ready=ready, state=scheduled.reason, message=message)
        roots.append(root)
    return roots


def _build_deployment(store: Store, ref: Ref, *, planned: bool = False) -> Node:
    """Builds the tree of a deployment; with `planned` objects without a status are marked as such."""
    placements = []
    for placement in filter(is_ours, store.owned(ref).values()):
        node = _build_composite(placement, planned=planned)
        objects = (m for m in store.owned(Ref.of(placement)).values() if m["kind"] == "Object")
        environment = text(placement, "spec.inferenceEnvironmentRef.name")
        name = f"{node.name} on {environment}" if environment else node.name
        state = text(placement, "status.phase") if placement.get("status") else node.state
        children = tuple(_build_object(manifest, planned=planned) for manifest in objects)
        progress = format_progress([mapping(placement, "status.storage.progress")])
        job = f"Job/{text(placement, 'status.storage.job')}"
        if progress:
            children = tuple(replace(c, message=f"{c.message} {progress}") if c.name == job else c for c in children)
        placements.append(replace(node, name=name, state=state, children=children))
    return replace(_build_composite(store[ref], planned=planned), children=tuple(placements))


def _build_service(store: Store, ref: Ref, *, planned: bool) -> Node:
    """Builds the tree of a ModelService: its endpoints with their placements, and the routes on the clusters."""
    endpoints = [
        Node(
            name=f"{text(row, 'environment')} at {text(row, 'address') or 'no address yet'}",
            state=text(row, "state"),
            message=text(row, "reason") or f"weight {get(row, 'weight')}",
            children=tuple(
                Node(name=text(b, "placement"), message=text(b, "reason") or f"weight {get(b, 'weight')}")
                for b in listing(row, "backends")
            ),
        )
        for row in listing(store[ref], "status.endpoints")
    ]
    objects = [_build_object(m, planned=planned) for m in store.owned(ref).values() if m["kind"] == "Object"]
    return replace(_build_composite(store[ref], planned=planned), children=(*endpoints, *objects))


def _build_composite(manifest: Manifest, *, planned: bool) -> Node:
    name = f"{text(manifest, 'kind')}/{text(manifest, 'metadata.name')}"
    if planned and not manifest.get("status"):
        placement = parse_placement(manifest).value if text(manifest, "kind") == "ModelPlacement" else None
        message = ""
        if placement and placement.shape:
            size = format_replicas(placement.replicas, placement.shape)
            message = f"profile {placement.profile}, pool {placement.pool}, {size}"
        return Node(name=name, state="Planned", message=message)
    ready = condition(manifest, "Ready")
    not_true = (c for c in listing(manifest, "status.conditions") if c.get("status") != Status.TRUE and c != ready)
    blocking = next(not_true, ready)
    return Node(
        name=name,
        since=text(manifest, "metadata.creationTimestamp"),
        ready=text(ready, "status") or Status.UNKNOWN,
        state=text(blocking, "reason"),
        message=text(blocking, "message").partition("\n")[0],
    )


def _build_object(manifest: Manifest, *, planned: bool) -> Node:
    desired = read_written(manifest)
    remote = read_object(manifest)
    name = f"{text(desired, 'kind')}/{text(desired, 'metadata.name')}"
    if planned and not manifest.get("status"):
        return Node(name=name, state="Planned")
    status = Status.UNKNOWN if remote.state_unknown or remote.state is State.UNSEEN else Status.FALSE
    state = remote.state.name.replace("_", " ")
    message = remote.message or remote.state.value.message or "not reconciled yet"
    if remote.present:
        health = assess(remote.manifest)
        status = Status.TRUE if health.up else Status.FALSE
        state = health.level.value
        message = health.message
    conditions = tuple(
        Node(
            name=text(c, "type"),
            since=text(c, "lastTransitionTime"),
            ready=text(c, "status"),
            state=text(c, "reason"),
            message=text(c, "message").partition("\n")[0],
        )
        for c in listing(remote.manifest, "status.conditions")
    )
    return Node(
        name=name,
        since=text(remote.manifest, "metadata.creationTimestamp"),
        ready=status,
        state=state.capitalize(),
        message=message.partition("\n")[0],
        conditions=conditions,
    )


def _format_trees(roots: Sequence[Node], form: Form, *, is_list: bool) -> str:
    if form is Form.DOT:
        return _format_dot(roots)
    if not form.for_people:
        data = [asdict(root) for root in roots]
        return format_data(form, data if is_list else data[0])
    rows = []
    for root in roots:
        for branch, node in (("", root), *_list_branches(root, "", wide=form is Form.WIDE)):
            rows.append(
                (branch + node.name, paint_status(node.ready), format_age(node.since), node.state, node.message)
            )
    return format_table(("NAME", "READY", "AGE", "STATE", "MESSAGE"), rows)


def _list_branches(node: Node, stem: str, *, wide: bool) -> Iterator[tuple[str, Node]]:
    """Returns all nodes below one, each with its branch; conditions that are True only if `wide`."""
    below = (*(c for c in node.conditions if wide or c.ready != Status.TRUE), *node.children)
    for index, child in enumerate(below):
        last = index == len(below) - 1
        yield stem + ("└─ " if last else "├─ "), child
        yield from _list_branches(child, stem + ("   " if last else "│  "), wide=wide)


def _format_dot(roots: Sequence[Node]) -> str:
    lines = ["digraph modelplane {", "  rankdir=LR; node [shape=box, style=rounded, fontname=Helvetica];"]
    numbers = iter(range(10**6))

    def draw(node: Node) -> str:
        name = f"n{next(numbers)}"
        label = f"{node.name}\\n{node.state}".replace('"', "'")
        lines.append(f'  {name} [label="{label}", color={STATUS_COLOURS.get(node.ready, "gray")}];')
        below = [draw(child) for child in (*node.conditions, *node.children)]
        lines.extend(f"  {name} -> {child};" for child in below)
        return name

    for root in roots:
        draw(root)
    return "\n".join([*lines, "}"])
