"""`check-cluster`: checks that a GPU cluster has what it needs, with the kubeconfig that an environment will name.

Nothing is written: reviews of rights are posted, and answered without being stored. Releases are not told by an API:
the version that is served is, and the image of a controller has its release where the identity may read it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import click

from function.cli.gpus import GPU_RESOURCES
from function.cli.live import Answer, Cluster, connect
from function.cli.options import Code, Form, Target, examples, form
from function.cli.tables import BAD, GOOD, WAIT, format_data, format_table, paint, print_hint, wrap_lines
from function.kube.manifests import Manifest, condition, flag, listing, text
from function.kube.messages import format_count
from function.remote.node_facts import Node, parse_node
from function.serving.service import API_VERSION

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WRITES = ("get", "list", "watch", "create", "patch")
_ALL = (*_WRITES, "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What must be allowed on a resource in all namespaces. `without`: when one does without it, if one can."""

    group: str = ""
    resource: str
    verbs: tuple[str, ...]
    without: str = ""


RIGHTS = (
    Right(resource="namespaces", verbs=_WRITES),
    Right(resource="secrets", verbs=_ALL),
    Right(resource="persistentvolumeclaims", verbs=_ALL),
    Right(resource="configmaps", verbs=_ALL),
    Right(group="batch", resource="jobs", verbs=_ALL),
    Right(group="serving.kserve.io", resource="llminferenceservices", verbs=_ALL),
    Right(group="serving.kserve.io", resource="llminferenceserviceconfigs", verbs=_WRITES),
    Right(
        group="storage.k8s.io",
        resource="storageclasses",
        verbs=("get", "list", "watch", "patch"),
        without="patch may be left out where provider-kubernetes runs with --enable-server-side-apply=false",
    ),
    Right(
        resource="nodes",
        verbs=("get", "list", "patch"),
        without="may be left out where spec.hardware.observe of the environment is Never",
    ),
)


def build_review(right: Right, verb: str) -> Manifest:
    """Return the question whether who asks may do something. The API server answers it and stores nothing."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": right.group, "resource": right.resource, "verb": verb}},
    }


Version: TypeAlias = tuple[int, int]
# The least of docs/install.md.
KUBERNETES, KSERVE, LWS = (1, 31), (0, 20), (0, 8)
LWS_API, GATEWAY_API = "leaderworkerset.x-k8s.io/v1", "gateway.networking.k8s.io/v1"
# What KServe looks up for services of ours, below a prefix that its release chooses. The one for pipelines is ours.
_PRESET_NAMES = ("config-llm-template", "config-llm-worker-data-parallel", "config-llm-router-route")
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_NAMED = 3
_ADMINISTRATOR = "Ask with the kubeconfig of somebody who may look"


class State(StrEnum):
    """How a check ended. Only what is missing is a reason not to begin."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One check. `todo` is empty where nothing is to be done."""

    check: str
    state: State = State.OK
    found: str
    wanted: str = ""
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a cluster shows. None: who asks may not look at it.

    `served`: resources by group and version. `releases`: tags of controllers' images by project, where they are known.
    `denied`: verbs that are not allowed, by resource. `gpu_resources`: by what GPUs are counted.
    """

    version: str
    served: Mapping[str, frozenset[str]]
    releases: Mapping[str, str] = field(default_factory=dict)
    presets: Sequence[Manifest] | None = ()
    gateways: Sequence[Manifest] | None = ()
    with_gateway: bool = True
    classes: Sequence[Manifest] | None = ()
    nodes: Sequence[Manifest] | None = ()
    gpu_resources: tuple[str, ...] = ()
    denied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def run_checks(seen: Seen) -> list[Line]:
    """Return all checks, in the order in which one would mend what is missing."""
    return [line for one in _CHECKS for line in one(seen)]


def _check_kubernetes(seen: Seen) -> Iterator[Line]:
    yield _check_release("Kubernetes", seen.version, KUBERNETES, "Upgrade the cluster")


def _check_lws(seen: Seen) -> Iterator[Line]:
    todo = "Install LeaderWorkerSet, then restart KServe's controller, which looks for it only when it starts"
    yield _check_project(seen, "LeaderWorkerSet", LWS_API, ("leaderworkersets",), LWS, todo)


def _check_kserve(seen: Seen) -> Iterator[Line]:
    resources = ("llminferenceservices", "llminferenceserviceconfigs")
    yield _check_project(
        seen, "KServe", API_VERSION, resources, KSERVE, "Install KServe with its LLMInferenceService controller"
    )


def _check_presets(seen: Seen) -> Iterator[Line]:
    name, wanted = "KServe's presets", ", ".join(_PRESET_NAMES)
    if seen.presets is None:
        yield _report_hidden(name, wanted)
        return
    names = [text(preset, "metadata.name") for preset in seen.presets]
    lacking = [preset for preset in _PRESET_NAMES if not any(found.endswith(preset) for found in names)]
    found = f"{format_count(len(names), 'LLMInferenceServiceConfig')} in kserve"
    if lacking:
        todo = f"Install the presets of KServe's release in its namespace; there is no {' and no '.join(lacking)}"
        yield Line(check=name, state=State.MISSING, found=found, wanted=wanted, todo=todo)
    else:
        yield Line(check=name, found=found, wanted=wanted)


def _check_gateway(seen: Seen) -> Iterator[Line]:
    if not seen.with_gateway:
        return
    otherwise = "or set kserve.gateway: false on the environment, and check with --no-gateway"
    yield _check_served(seen, "Gateway API", GATEWAY_API, ("gateways", "httproutes"), f"Install its CRDs, {otherwise}")
    name, wanted = "Gateway kserve/kserve-ingress-gateway", "Programmed, with an address"
    if seen.gateways is None:
        yield _report_hidden(name, wanted)
        return
    for gateway in seen.gateways:
        addresses = [text(address, "value") for address in listing(gateway, "status.addresses")]
        if addresses and text(condition(gateway, "Programmed"), "status") == "True":
            yield Line(check=name, found=f"Programmed at {addresses[0]}", wanted=wanted)
        else:
            said = text(condition(gateway, "Programmed"), "message")
            todo = f"Look at its GatewayClass and its controller{f', which says: {said}' if said else ''}"
            found = "no address" if not addresses else "not Programmed"
            yield Line(check=name, state=State.MISSING, found=found, wanted=wanted, todo=todo)
    if not seen.gateways:
        yield Line(check=name, state=State.MISSING, found="none", wanted=wanted, todo=f"Make that Gateway, {otherwise}")


def _check_classes(seen: Seen) -> Iterator[Line]:
    name, wanted = "storage class", "ReadWriteMany for models over several nodes"
    if seen.classes is None:
        yield _report_hidden(name, wanted)
        return
    for each in seen.classes:
        found = f"{text(each, 'provisioner')}, {text(each, 'volumeBindingMode') or 'Immediate'}"
        yield Line(check=f"{name} {text(each, 'metadata.name')}", found=found, wanted=wanted)
    if not seen.classes:
        todo = "Make one, and name it in spec.storage; environments with claims of their own or EmptyDir do without"
        yield Line(check=name, state=State.WARNING, found="none", wanted=wanted, todo=todo)


def _check_nodes(seen: Seen) -> Iterator[Line]:
    name, wanted = "GPUs", "nodes that offer them to the scheduler"
    if seen.nodes is None:
        yield _report_hidden(name, wanted)
        return
    nodes = [parse_node(node) for node in seen.nodes]
    offering = {r: [node for node in nodes if node.allocatable.get(r)] for r in seen.gpu_resources}
    for resource, those in offering.items():
        if those:
            gpus = sum(node.allocatable[resource] for node in those)
            unready = [node for node in those if not node.ready or node.cordoned]
            away = f", not Ready or cordoned: {_list_names(unready)}" if unready else ""
            yield Line(
                check=f"{name} {resource}", found=f"{gpus} on {format_count(len(those), 'node')}{away}", wanted=wanted
            )
    without = [node for node in nodes if not any(node in those for those in offering.values())]
    if without and len(without) < len(nodes):
        yield Line(check="nodes without GPUs", found=f"{len(without)} of {len(nodes)}: {_list_names(without)}")
    if len(without) == len(nodes):
        todo = (
            "Install the device plugin on the GPU nodes, or name what they offer with --gpu-resource; pools that are "
            "scaled to zero show with their first node"
        )
        found = f"{format_count(len(nodes), 'node')}, none with {', '.join(seen.gpu_resources)}"
        yield Line(check=name, state=State.MISSING, found=found, wanted=wanted, todo=todo)


def _check_rights(seen: Seen) -> Iterator[Line]:
    for right in RIGHTS:
        denied = seen.denied.get(right.resource, ())
        name, wanted = f"rights on {right.resource}", ", ".join(right.verbs)
        if denied:
            todo = "Apply install/remote-rbac.yaml with this identity as its subject" + (
                f"; {right.without}" * bool(right.without)
            )
            state = State.WARNING if right.without else State.MISSING
            yield Line(check=name, state=state, found=f"not {', '.join(denied)}", wanted=wanted, todo=todo)
        else:
            yield Line(check=name, found="all", wanted=wanted)


_CHECKS: tuple[Callable[[Seen], Iterable[Line]], ...] = (
    _check_kubernetes, _check_lws, _check_kserve, _check_presets, _check_gateway, _check_classes, _check_nodes,
    _check_rights,
)  # fmt: skip


def _check_project(seen: Seen, name: str, api: str, resources: tuple[str, ...], least: Version, todo: str) -> Line:
    """Judge what a project serves, then its release, where that is known."""
    line = _check_served(seen, name, api, resources, todo)
    release = seen.releases.get(name, "")
    if line.state is not State.OK or _parse_version(release) is None:
        wanted = f"{line.wanted}, of {_format_version(least)} or later"
        return Line(check=name, state=line.state, found=line.found, wanted=wanted, todo=line.todo)
    return _check_release(name, f"{release} with {api}", least, todo)


def _check_served(seen: Seen, name: str, api: str, resources: tuple[str, ...], todo: str) -> Line:
    lacking = [resource for resource in resources if resource not in seen.served.get(api, ())]
    found = f"{api} has no {' and no '.join(lacking)}" if lacking else api
    return Line(
        check=name, state=State.MISSING if lacking else State.OK, found=found, wanted=api, todo=todo if lacking else ""
    )


def _check_release(name: str, found: str, least: Version, todo: str) -> Line:
    version, wanted = _parse_version(found), f"{_format_version(least)} or later"
    if version is None:
        return Line(check=name, state=State.WARNING, found=found, wanted=wanted, todo="Find out which release this is")
    if version < least:
        return Line(check=name, state=State.MISSING, found=found, wanted=wanted, todo=todo)
    return Line(check=name, found=found, wanted=wanted)


def _parse_version(said: str) -> Version | None:
    match = _VERSION.match(said)
    return (int(match[1]), int(match[2])) if match else None


def _format_version(version: Version) -> str:
    return f"v{version[0]}.{version[1]}"


def _report_hidden(name: str, wanted: str) -> Line:
    found = "this identity may not look"
    return Line(check=name, state=State.WARNING, found=found, wanted=wanted, todo=_ADMINISTRATOR)


def _list_names(nodes: Sequence[Node]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(node.name for node in nodes[:_NAMED]) + more


_PRESETS = f"/apis/{API_VERSION}/namespaces/kserve/llminferenceserviceconfigs"
_GATEWAY = f"/apis/{GATEWAY_API}/namespaces/kserve/gateways/kserve-ingress-gateway"
# Controllers as their projects install them.
_CONTROLLERS = {
    "LeaderWorkerSet": "/apis/apps/v1/namespaces/lws-system/deployments/lws-controller-manager",
    "KServe": "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager",
}
_COLOURS = {State.OK: GOOD, State.WARNING: WAIT, State.MISSING: BAD}


@click.command(
    epilog=examples(
        "modelplane check-cluster --kubeconfig dallas.kubeconfig",
        "modelplane check-cluster --context gpu-admin --no-gateway -o json",
    )
)
@click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="Kubeconfig of the GPU cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("--no-gateway", is_flag=True, help="For environments with kserve.gateway: false.")
@click.option("--gpu-resource", "resources", metavar="NAME", multiple=True, help="What else GPUs are offered as.")
@form(Form.TABLE, Form.JSON, Form.YAML)
@click.pass_context
def check_cluster(  # click's options
    context_: click.Context,
    /,
    *,
    kubeconfig: str | None,
    context: str | None,
    no_gateway: bool,
    resources: tuple[str, ...],
    form: Form,
) -> None:
    """Check that a GPU cluster has what it needs. Exits 1 where something is missing.

    It reads, and asks about the rights of the identity in the kubeconfig; nothing is written. What that identity may
    not look at is a warning: ask once more with an administrator's kubeconfig.
    """
    cluster = connect(Target(kubeconfig=kubeconfig, context=context))
    lines = run_checks(_look(cluster, with_gateway=not no_gateway, resources=(*GPU_RESOURCES, *resources)))
    if form is Form.TABLE:
        _print_lines(lines)
    else:
        click.echo(format_data(form, [_build_data(line) for line in lines]))
    if any(line.state is State.MISSING for line in lines):
        context_.exit(Code.REFUSED)


def _look(cluster: Cluster, *, with_gateway: bool, resources: tuple[str, ...]) -> Seen:
    return Seen(
        version=text(cluster.fetch("/version").body, "gitVersion"),
        served={api: _list_resources(cluster.fetch(f"/apis/{api}")) for api in (API_VERSION, LWS_API, GATEWAY_API)},
        releases={name: _read_release(cluster.fetch(path)) for name, path in _CONTROLLERS.items()},
        presets=_list_items(cluster.fetch(_PRESETS)),
        with_gateway=with_gateway,
        gateways=_list_one(cluster.fetch(_GATEWAY)) if with_gateway else (),
        classes=_list_items(cluster.fetch("/apis/storage.k8s.io/v1/storageclasses")),
        nodes=_list_items(cluster.fetch("/api/v1/nodes")),
        gpu_resources=resources,
        denied={right.resource: _find_denied(cluster, right) for right in RIGHTS},
    )


def _list_resources(answer: Answer) -> frozenset[str]:
    return frozenset(text(resource, "name") for resource in listing(answer.body, "resources"))


def _read_release(answer: Answer) -> str:
    """Return the tag of a controller's image; empty where it is not told, as by a digest alone."""
    containers = listing(answer.body, "spec.template.spec.containers")
    images = (text(each, "image") for each in containers if text(each, "name") == "manager")
    _, _, tag = next(images, "").partition("@")[0].rpartition("/")[2].partition(":")
    return tag


def _list_items(answer: Answer) -> list[Manifest] | None:
    return None if answer.forbidden else listing(answer.body, "items")


def _list_one(answer: Answer) -> list[Manifest] | None:
    return None if answer.forbidden else [answer.body] if answer.body else []


def _find_denied(cluster: Cluster, right: Right) -> tuple[str, ...]:
    reviews = ((verb, cluster.fetch(REVIEWS, build_review(right, verb))) for verb in right.verbs)
    return tuple(verb for verb, answer in reviews if not flag(answer.body, "status.allowed"))


def _print_lines(lines: Sequence[Line]) -> None:
    rows = ((line.check, paint(line.state, _COLOURS[line.state]), line.found, line.wanted) for line in lines)
    click.echo(format_table(("CHECK", "STATE", "FOUND", "WANTED"), rows))
    todo = [line for line in lines if line.todo]
    for number, line in enumerate(todo):
        said = f"{paint(line.state, _COLOURS[line.state])}: {line.check}: {line.todo}"
        click.echo(("" if number else "\n") + wrap_lines(said, 2))
    states = Counter(line.state for line in lines)
    click.echo(f"\n{', '.join(f'{states[state]} {state}' for state in State)}")
    if not states[State.MISSING]:
        print_hint("init environment")


def _build_data(line: Line) -> Manifest:
    return {
        "check": line.check,
        "state": line.state,
        "found": line.found,
        "wanted": line.wanted,
        "todo": line.todo,
    }
