"""`check-cluster`: checks that a GPU cluster has what it needs, with the kubeconfig that an environment will name.

Nothing is written: reviews of rights are posted, and answered without being stored. No API tells the release of a
project: the version that it serves is checked, and the tag of its controller's image where the identity may read it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

import click

from function.cli.gpus import GPU_RESOURCES
from function.cli.live import Cluster, connect
from function.cli.options import Code, Form, Target, examples, form
from function.cli.tables import BAD, GOOD, WAIT, format_data, format_table, paint, print_hint, wrap_lines
from function.kube.manifests import Manifest, condition, flag, listing, text
from function.kube.messages import format_count, join_with_more
from function.remote.node_facts import parse_node
from function.serving.service import API_VERSION

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WRITES = ("get", "list", "watch", "create", "patch")
_ALL = (*_WRITES, "delete")

# What must be allowed on resources in all namespaces.
RIGHTS = {
    "namespaces": _WRITES,
    "secrets": _ALL,
    "persistentvolumeclaims": _ALL,
    "configmaps": _ALL,
    "jobs.batch": _ALL,
    "llminferenceservices.serving.kserve.io": _ALL,
    "llminferenceserviceconfigs.serving.kserve.io": _WRITES,
    "storageclasses.storage.k8s.io": ("get", "list", "watch", "patch"),
    "nodes": ("get", "list", "patch"),
}
_DISPENSABLE = {
    "storageclasses.storage.k8s.io": (
        "patch may be left out where provider-kubernetes runs with --enable-server-side-apply=false"
    ),
    "nodes": "may be left out where spec.hardware.observe of the environment is Never",
}
# The minimum versions of docs/install.md.
KUBERNETES, KSERVE, LWS = "v1.31", "v0.20", "v0.8"
_LWS_API, _GATEWAY_API = "leaderworkerset.x-k8s.io/v1", "gateway.networking.k8s.io/v1"
# Controllers as their projects install them.
_LWS_CONTROLLER = "/apis/apps/v1/namespaces/lws-system/deployments/lws-controller-manager"
_KSERVE_CONTROLLER = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager"
_KSERVE_RESOURCES = ("llminferenceservices", "llminferenceserviceconfigs")
_PRESETS = f"/apis/{API_VERSION}/namespaces/kserve/llminferenceserviceconfigs"
_GATEWAY = f"/apis/{_GATEWAY_API}/namespaces/kserve/gateways/kserve-ingress-gateway"
# Presets that KServe looks up for our services, below a prefix of its release. The one for pipelines is ours.
_PRESET_NAMES = ("config-llm-template", "config-llm-worker-data-parallel", "config-llm-router-route")
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_NODES_NAMED = 3


class State(StrEnum):
    """How a check ended. Only a missing prerequisite is a reason not to begin."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


_COLOURS = {State.OK: GOOD, State.WARNING: WAIT, State.MISSING: BAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One check with its result."""

    check: str
    state: State = State.OK
    found: str = ""
    wanted: str = ""
    todo: str = ""  # empty where nothing is to be done

    def warn(self, found: str, todo: str) -> "Line":
        """Some environments can do without it, or it is not known."""
        return replace(self, state=State.WARNING, found=found, todo=todo)

    def missing(self, found: str, todo: str) -> "Line":
        """The cluster lacks it."""
        return replace(self, state=State.MISSING, found=found, todo=todo)

    def forbidden(self) -> "Line":
        """The identity may not read it."""
        return self.warn("forbidden for this identity", "Retry with a kubeconfig that can list it")


@click.command(epilog=examples("check-cluster"))
@click.option("--kubeconfig", metavar="FILE", type=click.Path(exists=True), help="Kubeconfig of the GPU cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("--no-gateway", is_flag=True, help="For environments with kserve.gateway: false.")
@click.option("--gpu-resource", "resources", metavar="NAME", multiple=True, help="What else GPUs are offered as.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def check_cluster(
    *, kubeconfig: str | None, context: str | None, no_gateway: bool, resources: tuple[str, ...], form: Form
) -> Code:
    """Check that a GPU cluster has what it needs. Exits 1 where something is missing.

    It reads, and asks about the rights of the identity in the kubeconfig; nothing is written. What that identity may
    not read is a warning: run it once more with an administrator's kubeconfig.
    """
    cluster = connect(Target(kubeconfig=kubeconfig, context=context))
    lines = list(_run_checks(cluster, with_gateway=not no_gateway, gpu_resources=(*GPU_RESOURCES, *resources)))
    if form is not Form.TABLE:
        click.echo(format_data(form, [asdict(line) for line in lines]))
    else:
        _print_lines(lines)
    return Code.REFUSED if any(line.state is State.MISSING for line in lines) else Code.OK


def _run_checks(cluster: Cluster, *, with_gateway: bool, gpu_resources: Sequence[str]) -> Iterator[Line]:
    """Runs all checks, in the order in which one would correct what is missing."""
    version = text(cluster.fetch("/version"), "gitVersion")
    yield _check_release("Kubernetes", version, KUBERNETES, "Upgrade the cluster")
    todo = "Install LeaderWorkerSet, then restart KServe's controller, which looks for it only when it starts"
    served = _check_served(cluster, "LeaderWorkerSet", _LWS_API, ("leaderworkersets",), todo)
    yield _check_controller(cluster, served, _LWS_CONTROLLER, LWS, todo)
    todo = "Install KServe with its LLMInferenceService controller"
    served = _check_served(cluster, "KServe", API_VERSION, _KSERVE_RESOURCES, todo)
    yield _check_controller(cluster, served, _KSERVE_CONTROLLER, KSERVE, todo)
    yield _check_presets(cluster)
    if with_gateway:
        otherwise = "or set kserve.gateway: false on the environment, and check with --no-gateway"
        resources, todo = ("gateways", "httproutes"), f"Install its CRDs, {otherwise}"
        yield _check_served(cluster, "Gateway API", _GATEWAY_API, resources, todo)
        yield _check_gateway(cluster, f"Create that Gateway, {otherwise}")
    yield from _check_classes(cluster)
    yield from _check_nodes(cluster, gpu_resources)
    for right in RIGHTS:
        yield _check_right(cluster, right)


def _check_served(cluster: Cluster, name: str, api: str, resources: Sequence[str], todo: str) -> Line:
    served = {text(resource, "name") for resource in listing(cluster.fetch(f"/apis/{api}"), "resources")}
    lacking = [resource for resource in resources if resource not in served]
    check = Line(check=name, wanted=api)
    return check.missing(f"{api} has no {' and no '.join(lacking)}", todo) if lacking else replace(check, found=api)


def _check_controller(cluster: Cluster, served: Line, path: str, minimum: str, todo: str) -> Line:
    """Checks the release of a project that is served, by the tag of its controller's image where that is known."""
    containers = listing(cluster.fetch(path), "spec.template.spec.containers")
    images = (text(container, "image") for container in containers if text(container, "name") == "manager")
    # A digest alone tells nothing.
    _, _, tag = next(images, "").partition("@")[0].rpartition("/")[2].partition(":")
    if served.state is State.OK and _VERSION.match(tag):
        return _check_release(served.check, f"{tag} with {served.found}", minimum, todo)
    return replace(served, wanted=f"{served.wanted}, of {minimum} or later")


def _check_release(name: str, found: str, minimum: str, todo: str) -> Line:
    check = Line(check=name, wanted=f"{minimum} or later")
    if not _VERSION.match(found):
        return check.warn(found, "Find out which release this is")
    return (
        check.missing(found, todo) if _parse_version(found) < _parse_version(minimum) else replace(check, found=found)
    )


def _parse_version(release: str) -> tuple[int, ...]:
    match = _VERSION.match(release)
    return tuple(map(int, match.groups())) if match else ()


def _check_presets(cluster: Cluster) -> Line:
    check, answer = Line(check="KServe's presets", wanted=", ".join(_PRESET_NAMES)), cluster.fetch(_PRESETS)
    if answer is None:
        return check.forbidden()
    names = [text(preset, "metadata.name") for preset in listing(answer, "items")]
    lacking = [preset for preset in _PRESET_NAMES if not any(name.endswith(preset) for name in names)]
    found = f"{format_count(len(names), 'LLMInferenceServiceConfig')} in kserve"
    todo = f"Install the presets of KServe's release in its namespace; there is no {' and no '.join(lacking)}"
    return check.missing(found, todo) if lacking else replace(check, found=found)


def _check_gateway(cluster: Cluster, todo: str) -> Line:
    check = Line(check="Gateway kserve/kserve-ingress-gateway", wanted="Programmed, with an address")
    answer = cluster.fetch(_GATEWAY)
    if answer is None:
        return check.forbidden()
    if not answer:
        return check.missing("none", todo)
    addresses = [text(address, "value") for address in listing(answer, "status.addresses")]
    programmed = condition(answer, "Programmed")
    if addresses and text(programmed, "status") == "True":
        return replace(check, found=f"Programmed at {addresses[0]}")
    message = text(programmed, "message")
    todo = f"Look at its GatewayClass and its controller{f', which says: {message}' if message else ''}"
    return check.missing("not Programmed" if addresses else "no address", todo)


def _check_classes(cluster: Cluster) -> Iterator[Line]:
    check = Line(check="storage class", wanted="ReadWriteMany for models over several nodes")
    answer = cluster.fetch("/apis/storage.k8s.io/v1/storageclasses")
    if answer is None:
        yield check.forbidden()
        return
    classes = listing(answer, "items")
    for class_ in classes:
        found = f"{text(class_, 'provisioner')}, {text(class_, 'volumeBindingMode') or 'Immediate'}"
        yield replace(check, check=f"{check.check} {text(class_, 'metadata.name')}", found=found)
    if not classes:
        todo = "Create one, and name it in spec.storage; environments with claims of their own or EmptyDir need none"
        yield check.warn("none", todo)


def _check_nodes(cluster: Cluster, resources: Sequence[str]) -> Iterator[Line]:
    check = Line(check="GPUs", wanted="nodes that offer them to the scheduler")
    answer = cluster.fetch("/api/v1/nodes")
    if answer is None:
        yield check.forbidden()
        return
    nodes = [parse_node(node) for node in listing(answer, "items")]
    for resource in resources:
        offering = [node for node in nodes if node.allocatable.get(resource)]
        if offering:
            gpus = sum(node.allocatable[resource] for node in offering)
            unready = [node.name for node in offering if not node.ready or node.cordoned]
            away = f", not Ready or cordoned: {join_with_more(unready, _NODES_NAMED)}" if unready else ""
            found = f"{gpus} on {format_count(len(offering), 'node')}{away}"
            yield replace(check, check=f"{check.check} {resource}", found=found)
    without = [node.name for node in nodes if not any(node.allocatable.get(resource) for resource in resources)]
    if without and len(without) < len(nodes):
        names = join_with_more(without, _NODES_NAMED)
        yield Line(check="nodes without GPUs", found=f"{len(without)} of {len(nodes)}: {names}")
    if len(without) == len(nodes):
        todo = (
            "Install the device plugin on the GPU nodes, or name what they offer with --gpu-resource; pools that are "
            "scaled to zero show with their first node"
        )
        yield check.missing(f"{format_count(len(nodes), 'node')}, none with {', '.join(resources)}", todo)


def _check_right(cluster: Cluster, right: str) -> Line:
    resource, _, group = right.partition(".")
    review: Manifest = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    denied = []
    for verb in RIGHTS[right]:
        spec: Manifest = {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}}
        if not flag(cluster.fetch(REVIEWS, {**review, "spec": spec}), "status.allowed"):
            denied.append(verb)
    check = Line(check=f"rights on {resource}", wanted=", ".join(RIGHTS[right]))
    if not denied:
        return replace(check, found="all")
    found, todo = f"not {', '.join(denied)}", "Apply install/remote-rbac.yaml with this identity as its subject"
    if right in _DISPENSABLE:
        return check.warn(found, f"{todo}; {_DISPENSABLE[right]}")
    return check.missing(found, todo)


def _print_lines(lines: Sequence[Line]) -> None:
    rows = ((line.check, paint(line.state, _COLOURS[line.state]), line.found, line.wanted) for line in lines)
    click.echo(format_table(("CHECK", "STATE", "FOUND", "WANTED"), rows))
    for number, line in enumerate(line for line in lines if line.todo):
        todo = f"{paint(line.state, _COLOURS[line.state])}: {line.check}: {line.todo}"
        click.echo(("" if number else "\n") + wrap_lines(todo, 2))
    states = Counter(line.state for line in lines)
    click.echo(f"\n{', '.join(f'{states[state]} {state}' for state in State)}")
    if not states[State.MISSING]:
        print_hint("init environment")
