"""`check`: checks the prerequisites of a GPU cluster and of the control plane.

Nothing is written: reviews of rights are posted, and answered without being stored. No API tells the release of a
project: the version that it serves is checked, and the tag of its controller's image where the identity may read it.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial

import click

from function.cli.live import Cluster, connect
from function.cli.options import CLUSTER, Code, Form, Sources, examples, form
from function.cli.packages import (
    PACKAGE_API,
    PACKAGES,
    PROVIDER,
    find_package,
    find_revision,
    read_client_release,
    split_image,
)
from function.cli.settings_warnings import find_settings_slips
from function.cli.store import Ref, Store
from function.cli.suggested_pools import GPU_RESOURCES
from function.cli.tables import BAD, DIM, GOOD, WAIT, format_data, format_table, paint, wrap_lines
from function.composers import COMPOSERS
from function.kube.manifests import JSON, Manifest, condition, flag, format_time, get, list_texts, listing, text
from function.kube.messages import format_count, join_with_more
from function.kube.names import GROUP, VERSION
from function.remote.composed_kinds import (
    ALL_VERBS,
    CONTROL_PLANE_KINDS,
    GKE_VERSION,
    GPU_CLUSTER_KINDS,
    KEDA_VERSION,
    OBJECT_VERSION,
    READ,
    SERVING_VERSION,
    ComposedKind,
    Role,
)
from function.remote.nodes import parse_node
from function.serving.picker import PICKERS

_FORMS = (Form.TABLE, Form.JSON, Form.YAML)
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_ROTATION = timedelta(days=14)  # as the alert InferenceEnvironmentKubeconfigExpires
_NAMED = 3  # nodes, kinds or Objects that a line names


def _name_right(row: ComposedKind) -> str:
    """Returns a resource as `kubectl auth can-i` takes it: `jobs.batch`."""
    return f"{row.resource}.{row.group}" if row.group else row.resource


# What must be allowed on resources of a GPU cluster, in all namespaces.
RIGHTS = {_name_right(row): row.verbs for row in GPU_CLUSTER_KINDS}
_DISPENSABLE = {
    "storageclasses.storage.k8s.io": (
        "patch may be left out where provider-kubernetes runs with --enable-server-side-apply=false"
    ),
    "nodes": "may be left out where spec.hardware.observe of the environment is Never",
    "deployments.apps": "may be left out where no ModelDeployment on the cluster has rollout.environments: OneByOne",
    "localqueues.kueue.x-k8s.io": "may be left out where no pool of the cluster has kueue.queue",
    "clusterqueues.kueue.x-k8s.io": "may be left out where no pool of the cluster has kueue.queue",
    "pods": "may be left out where monitoring.observePods of the environment is Never",
    "podmonitors.monitoring.coreos.com": "may be left out where the environment has no monitoring.podMonitors",
    "httproutes.gateway.networking.k8s.io": "may be left out where no ModelService sends requests to the cluster",
}
# The minimum versions of docs/install.md.
KUBERNETES = "v1.31"
KSERVE = "v0.20"
LWS = "v0.8"
CROSSPLANE = "v2.3"
PROVIDER_KUBERNETES = "v1.2"

_LWS_API = "leaderworkerset.x-k8s.io/v1"
_GATEWAY_API = "gateway.networking.k8s.io/v1"
_POOL_API = "inference.networking.k8s.io/v1"
_PICKERS = (
    f"{_POOL_API}; whether the gateway routes to InferencePools is not known. "
    f"Each placement takes {PICKERS} CPUs and {2 * PICKERS}Gi"
)
# Controllers as their projects install them.
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
_LWS_CONTROLLER = f"{_DEPLOYMENTS.format('lws-system')}/lws-controller-manager"
_KSERVE_CONTROLLER = f"{_DEPLOYMENTS.format('kserve')}/llmisvc-controller-manager"
_KSERVE_RESOURCES = ("llminferenceservices", "llminferenceserviceconfigs")
_PRESETS = f"/apis/{SERVING_VERSION}/namespaces/kserve/llminferenceserviceconfigs"
_GATEWAY = f"/apis/{_GATEWAY_API}/namespaces/kserve/gateways/kserve-ingress-gateway"
_WITHOUT_GATEWAY = "or set kserve.gateway: false on the environment, and check with --no-gateway"
# Presets that KServe looks up for our services, below a prefix of its release. The one for pipelines is ours.
_PRESET_NAMES = ("config-llm-template", "config-llm-worker-data-parallel", "config-llm-router-route")

_EXTENSIONS = "apiextensions.crossplane.io"
_REVIEWS = "authorization.k8s.io/v1"
_OBJECT_KINDS = tuple(row.resource for row in CONTROL_PLANE_KINDS if row.version == OBJECT_VERSION)
_PLACEHOLDER = "registry.example.com/"
_FLAGS = ("--enable-watches", "--sanitize-secrets")
# What must be allowed on resources in all namespaces, as install/hub-rbac.yaml grants it: the rules with all verbs are
# checked by those that Kubernetes has.
_OBJECT_RIGHTS = {_name_right(row): row.verbs for row in CONTROL_PLANE_KINDS if row.version == OBJECT_VERSION}
CORE_RIGHTS = dict.fromkeys((f"{kind.lower()}s.{GROUP}" for kind in sorted(COMPOSERS)), ALL_VERBS) | _OBJECT_RIGHTS
_GRANT = "Wait a minute for Crossplane's RBAC manager; where it does not run, kubectl apply -f install/hub-rbac.yaml"
# What Crossplane composes for ModelServices, as install/gateway-rbac.yaml grants it.
GATEWAY_RIGHTS = {_name_right(row): row.verbs for row in CONTROL_PLANE_KINDS if row.role is Role.GATEWAY}
# What Crossplane composes for replicas by load, as install/keda-rbac.yaml grants it.
KEDA_RIGHTS = {_name_right(row): row.verbs for row in CONTROL_PLANE_KINDS if row.role is Role.KEDA}
# What Crossplane composes for clusters of GKE, as install/gke-rbac.yaml grants it.
GKE_RIGHTS = {_name_right(row): row.verbs for row in CONTROL_PLANE_KINDS if row.role is Role.GKE}
PROVIDER_RIGHTS = {
    **_OBJECT_RIGHTS,
    "secrets": (*READ, "update"),
    "events": ("create", "patch"),
    "customresourcedefinitions.apiextensions.k8s.io": READ,
}


class State(StrEnum):
    """How a check ended. Only a missing prerequisite is a reason not to begin."""

    OK = "ok"
    UNCHECKED = "unchecked"  # it exists, and no API tells whether it does what is needed
    WARNING = "warning"
    MISSING = "missing"


_COLOURS = {State.OK: GOOD, State.UNCHECKED: DIM, State.WARNING: WAIT, State.MISSING: BAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    check: str
    state: State = State.OK
    found: str = ""
    wanted: str = ""
    todo: str = ""  # empty if there is nothing to do

    def warn(self, found: str, todo: str) -> "Line":
        """Returns the line for a prerequisite that not every environment needs, or whose state is unknown."""
        return replace(self, state=State.WARNING, found=found, todo=todo)

    def missing(self, found: str, todo: str) -> "Line":
        return replace(self, state=State.MISSING, found=found, todo=todo)

    def forbidden(self) -> "Line":
        return self.warn("forbidden for this identity", "Retry with a kubeconfig that can list it")


@click.group(epilog=examples("check"))
def check() -> None:
    """Check that a GPU cluster, or the control plane, has what it needs. Exits 1 where something is missing.

    Nothing is written. What the identity in the kubeconfig may not read is a warning.
    """


@check.command("cluster", short_help="Check a GPU cluster.", epilog=examples("check cluster"))
@CLUSTER
@click.option("--no-gateway", is_flag=True, help="For environments with kserve.gateway: false.")
@click.option("--gpu-resource", "resources", metavar="NAME", multiple=True, help="What else GPUs are offered as.")
@form(*_FORMS)
def check_cluster(*, sources: Sources, no_gateway: bool, resources: tuple[str, ...], form: Form) -> Code:
    """Check a GPU cluster, and the rights of the identity in the kubeconfig.

    Run it once more with an administrator's kubeconfig, which may read more.
    """
    gpu_resources = (*GPU_RESOURCES, *resources)
    lines = _list_cluster_checks(connect(sources), gpu_resources, with_gateway=not no_gateway)
    return _report([*lines], form)


@check.command("control-plane", short_help="Check the control plane.", epilog=examples("check control-plane"))
@CLUSTER
@click.option(
    "-n", "--namespace", metavar="NAME", default="crossplane-system", show_default=True, help="Where Crossplane runs."
)
@form(*_FORMS)
def check_control_plane(*, sources: Sources, namespace: str, form: Form) -> Code:
    """Check the control plane: Crossplane, the packages, the XRDs and their Compositions, and rights.

    Run it with an administrator's kubeconfig: the rights of Crossplane and of the provider are asked for.
    """
    return _report([*_list_control_plane_checks(connect(sources), namespace)], form)


def _list_cluster_checks(cluster: Cluster, gpu_resources: Sequence[str], *, with_gateway: bool) -> Iterator[Line]:
    """Runs all checks, in the order in which one would correct what is missing."""
    release = text(cluster.fetch("/version"), "gitVersion")
    yield _check_release("Kubernetes", release, KUBERNETES, "Upgrade the cluster")
    todo = "Install LeaderWorkerSet, then restart KServe's controller, which looks for it only when it starts"
    served = _check_served(cluster, "LeaderWorkerSet", _LWS_API, ("leaderworkersets",), todo)
    yield _check_controller(cluster, served, _LWS_CONTROLLER, LWS, todo)
    todo = "Install KServe with its LLMInferenceService controller"
    served = _check_served(cluster, "KServe", SERVING_VERSION, _KSERVE_RESOURCES, todo)
    yield _check_controller(cluster, served, _KSERVE_CONTROLLER, KSERVE, todo)
    yield _judge(cluster, "KServe's presets", ", ".join(_PRESET_NAMES), _PRESETS, _judge_presets)
    if with_gateway:
        todo = f"Install its CRDs, {_WITHOUT_GATEWAY}"
        yield _check_served(cluster, "Gateway API", _GATEWAY_API, ("gateways", "httproutes"), todo)
        wanted = "Programmed, with an address"
        yield _judge(cluster, "Gateway kserve/kserve-ingress-gateway", wanted, _GATEWAY, _judge_gateway)
        pickers = _check_served(cluster, "endpoint pickers", _POOL_API, ("inferencepools",), "")
        if pickers.state is State.OK:  # else only kserve.scheduler: true is not possible
            yield replace(pickers, state=State.UNCHECKED, found=_PICKERS)
    yield from _check_classes(cluster)
    yield from _check_nodes(cluster, gpu_resources)
    yield from _check_credentials(cluster)
    for right, verbs in RIGHTS.items():
        line = Line(check=f"rights on {right.partition('.')[0]}", wanted=", ".join(verbs))
        denied = _list_denied(cluster, right, verbs)
        found = f"not {', '.join(denied or ())}"
        todo = "Apply install/remote-rbac.yaml with this identity as its subject"
        if denied is None:
            yield line.forbidden()
        elif not denied:
            yield replace(line, found="all")
        elif right in _DISPENSABLE:
            yield line.warn(found, f"{todo}; {_DISPENSABLE[right]}")
        else:
            yield line.missing(found, todo)


def _check_credentials(cluster: Cluster) -> Iterator[Line]:
    """Checks how long the credentials of the kubeconfig are valid, if they expire."""
    expiry = cluster.find_expiry()
    if expiry is None:
        return
    line = Line(check="credentials", found=f"expire at {format_time(int(expiry.timestamp()))}")
    if expiry - datetime.now(UTC) < _ROTATION:
        yield line.warn(
            line.found, "Create others and replace them in time: docs/kubeconfig.md, Rotate the credentials"
        )
    else:
        yield line


def _list_control_plane_checks(cluster: Cluster, namespace: str) -> Iterator[Line]:
    """Runs all checks, in the order in which one would correct what is missing; Crossplane runs in `namespace`.

    The faults are those that head docs/troubleshooting.md.
    """
    todo = f"Install Crossplane {CROSSPLANE} or later"
    served = _check_served(cluster, "Crossplane", f"{_EXTENSIONS}/v2", ("compositeresourcedefinitions",), todo)
    yield _check_controller(cluster, served, f"{_DEPLOYMENTS.format(namespace)}/crossplane", CROSSPLANE, todo)
    provider = find_package(cluster, "Provider")
    line = _check_package("Provider", provider)
    _, tag = split_image(text(provider, "spec.package"))
    if line.state is State.OK and tag:
        line = _check_release(line.check, tag, PROVIDER_KUBERNETES, "Install that release: install/provider.yaml")
    yield line
    if provider:
        config = text(provider, "spec.runtimeConfigRef.name")
        path = f"{PACKAGE_API}/v1beta1/deploymentruntimeconfigs/{config}" if config else ""
        yield _judge(cluster, f"flags of {PROVIDER}", ", ".join(_FLAGS), path, _judge_flags)
    todo = "kubectl apply -f install/activation.yaml, and look why the Provider is not Healthy if that does not help"
    yield _check_served(cluster, "kinds of the provider", OBJECT_VERSION, _OBJECT_KINDS, todo)
    function = find_package(cluster, "Function")
    compositions = f"/apis/{_EXTENSIONS}/v1/compositions"
    called = _list_called_functions(cluster.fetch(compositions) or {})
    line = _check_own_package("Function", function, called)
    running = find_revision(cluster, function)
    if line.state is not State.MISSING and running and not text(running, "status.endpoint"):
        todo = f"kubectl describe functionrevision {text(running, 'metadata.name')}: Crossplane has not started it"
        line = line.missing("no endpoint", todo)
    yield line
    yield _check_own_package("Configuration", find_package(cluster, "Configuration"))
    wanted = f"{len(COMPOSERS)} established, of {VERSION.partition('/')[2]}"
    path = f"/apis/{_EXTENSIONS}/v2/compositeresourcedefinitions"
    yield _judge(cluster, f"XRDs of {GROUP}", wanted, path, _judge_definitions)
    names = {PACKAGES["Function"], text(function, "metadata.name")} & called or {PACKAGES["Function"]}
    wanted = f"one for each kind that calls {' or '.join(names)}"
    yield _judge(cluster, "Compositions", wanted, compositions, partial(_judge_compositions, functions=names))
    yield _check_rights(cluster, namespace, "Crossplane", "crossplane", CORE_RIGHTS)
    if revision := text(provider, "status.currentRevision"):
        yield _check_rights(cluster, namespace, PROVIDER, revision, PROVIDER_RIGHTS)
    yield from _check_optional_kinds(cluster, namespace)
    yield from _check_created_clusters(cluster, namespace)
    path = f"/apis/{OBJECT_VERSION}/objects?limit=500"  # one page
    yield _judge(cluster, "Objects", f"all reconciled by {PROVIDER}", path, _judge_objects)


def _check_optional_kinds(cluster: Cluster, namespace: str) -> Iterator[Line]:
    """Checks what is needed for the objects that exist: Gateway API for ModelServices, KEDA for replicas by load."""
    if listing(cluster.fetch(f"/apis/{VERSION}/modelservices?limit=1"), "items"):
        todo = "Install Gateway API v1.2 or later, and restart Crossplane"
        yield _check_served(cluster, "Gateway API", _GATEWAY_API, ("httproutes",), todo)
        who, todo = "Crossplane for ModelServices", "kubectl apply -f install/gateway-rbac.yaml"
        yield _check_rights(cluster, namespace, who, "crossplane", GATEWAY_RIGHTS, todo)
    deployments = listing(cluster.fetch(f"/apis/{VERSION}/modeldeployments?limit=500"), "items")  # one page
    if any(text(deployment, "spec.scaling.signal") == "Load" for deployment in deployments):
        todo = "Install KEDA, or set scaling.signal: Fixed (docs/scale.md)"
        yield _check_served(cluster, "KEDA", KEDA_VERSION, ("scaledobjects",), todo)
        who, todo = "Crossplane for replicas by load", "kubectl apply -f install/keda-rbac.yaml"
        yield _check_rights(cluster, namespace, who, "crossplane", KEDA_RIGHTS, todo)


def _check_created_clusters(cluster: Cluster, namespace: str) -> Iterator[Line]:
    """Checks what is needed for the clusters that environments create: the provider's kinds, and the rights on them."""
    environments = listing(cluster.fetch(f"/apis/{VERSION}/inferenceenvironments?limit=500"), "items")  # one page
    if any(get(environment, "spec.cluster.gke.provision") is not None for environment in environments):
        todo = "Install provider-gcp-container v3.0.0 or later, and kubectl apply -f install/gke-activation.yaml"
        kinds = tuple(row.resource for row in CONTROL_PLANE_KINDS if row.role is Role.GKE)
        yield _check_served(cluster, "provider-gcp-container", GKE_VERSION, kinds, todo)
        who = "Crossplane for clusters of GKE"
        todo = f"{_GRANT.partition(';')[0]}; where it does not run, kubectl apply -f install/gke-rbac.yaml"
        yield _check_rights(cluster, namespace, who, "crossplane", GKE_RIGHTS, todo)


def _judge(cluster: Cluster, check: str, wanted: str, path: str, judge: Callable[[Line, Manifest], Line]) -> Line:
    """Checks the object at a path; an empty path has no object."""
    line = Line(check=check, wanted=wanted)
    answer = cluster.fetch(path) if path else {}
    return line.forbidden() if answer is None else judge(line, answer)


def _check_served(cluster: Cluster, name: str, api: str, resources: Sequence[str], todo: str) -> Line:
    served = {text(resource, "name") for resource in listing(cluster.fetch(f"/apis/{api}"), "resources")}
    lacking = [resource for resource in resources if resource not in served]
    line = Line(check=name, wanted=api)
    return line.missing(f"{api} has no {' and no '.join(lacking)}", todo) if lacking else replace(line, found=api)


def _check_controller(cluster: Cluster, served: Line, path: str, minimum: str, todo: str) -> Line:
    """Checks the release of a project that is served, by the tag of its controller's image where that is known."""
    containers = listing(cluster.fetch(path), "spec.template.spec.containers")
    images = (text(c, "image") for c in containers if text(c, "name") in ("manager", "crossplane"))
    _, tag = split_image(next(images, ""))
    if served.state is State.OK and _RELEASE.match(tag):
        return _check_release(served.check, f"{tag} with {served.found}", minimum, todo)
    return replace(served, wanted=f"{served.wanted}, of {minimum} or later")


def _check_release(name: str, found: str, minimum: str, todo: str) -> Line:
    line = Line(check=name, wanted=f"{minimum} or later")
    if not _RELEASE.match(found):
        return line.warn(found, "Find out which release this is")
    release, least = (tuple(map(int, _RELEASE.findall(each)[0])) for each in (found, minimum))
    return line.missing(found, todo) if release < least else replace(line, found=found)


def _judge_presets(line: Line, answer: Manifest) -> Line:
    names = [text(preset, "metadata.name") for preset in listing(answer, "items")]
    lacking = [preset for preset in _PRESET_NAMES if not any(name.endswith(preset) for name in names)]
    found = f"{format_count(len(names), 'LLMInferenceServiceConfig')} in kserve"
    todo = f"Install the presets of KServe's release in its namespace; there is no {' and no '.join(lacking)}"
    return line.missing(found, todo) if lacking else replace(line, found=found)


def _judge_gateway(line: Line, answer: Manifest) -> Line:
    if not answer:
        return line.missing("none", f"Create that Gateway, {_WITHOUT_GATEWAY}")
    addresses = [text(address, "value") for address in listing(answer, "status.addresses")]
    programmed = condition(answer, "Programmed")
    if addresses and text(programmed, "status") == "True":
        return replace(line, found=f"Programmed at {addresses[0]}")
    message = text(programmed, "message")
    todo = f"Look at its GatewayClass and its controller{f', which says: {message}' if message else ''}"
    return line.missing("not Programmed" if addresses else "no address", todo)


def _check_classes(cluster: Cluster) -> Iterator[Line]:
    line = Line(check="storage class", wanted="ReadWriteMany for models over several nodes")
    answer = cluster.fetch("/apis/storage.k8s.io/v1/storageclasses")
    classes = listing(answer, "items")
    for class_ in classes:
        found = f"{text(class_, 'provisioner')}, {text(class_, 'volumeBindingMode') or 'Immediate'}"
        name = f"{line.check} {text(class_, 'metadata.name')}"
        yield replace(line, check=name, state=State.UNCHECKED, found=found)
    if not classes:
        todo = "Create one, and name it in spec.storage; environments with claims of their own or EmptyDir need none"
        yield line.forbidden() if answer is None else line.warn("none", todo)


def _check_nodes(cluster: Cluster, resources: Sequence[str]) -> Iterator[Line]:
    line = Line(check="GPUs", wanted="nodes that offer them to the scheduler")
    answer = cluster.fetch("/api/v1/nodes")
    if answer is None:
        yield line.forbidden()
        return
    nodes = [parse_node(node) for node in listing(answer, "items")]
    for resource in resources:
        offering = [node for node in nodes if node.allocatable.get(resource)]
        if offering:
            gpus = sum(node.allocatable[resource] for node in offering)
            unready = [node.name for node in offering if not node.ready or node.cordoned]
            away = f", not Ready or cordoned: {join_with_more(unready, _NAMED)}" if unready else ""
            found = f"{gpus} on {format_count(len(offering), 'node')}{away}"
            yield replace(line, check=f"{line.check} {resource}", found=found)
    without = [node.name for node in nodes if not any(node.allocatable.get(resource) for resource in resources)]
    if without and len(without) < len(nodes):
        yield Line(
            check="nodes without GPUs", found=f"{len(without)} of {len(nodes)}: {join_with_more(without, _NAMED)}"
        )
    if len(without) == len(nodes):
        todo = (
            "Install the device plugin on the GPU nodes, or name what they offer with --gpu-resource; pools that are "
            "scaled to zero show with their first node"
        )
        yield line.missing(f"{format_count(len(nodes), 'node')}, none with {', '.join(resources)}", todo)


def _list_called_functions(compositions: Manifest) -> frozenset[str]:
    """Returns the Functions that the Compositions of our kinds call; without any, that of install/."""
    ours = (
        item for item in listing(compositions, "items") if text(item, "spec.compositeTypeRef.apiVersion") == VERSION
    )
    called = {text(step, "functionRef.name") for item in ours for step in listing(item, "spec.pipeline")}
    return frozenset(called or {PACKAGES["Function"]})


def _check_package(kind: str, package: Manifest | None, called: frozenset[str] = frozenset()) -> Line:
    """Checks a package; `called`: the names of which a Function must have one."""
    line = Line(check=f"{kind} {PACKAGES[kind]}", wanted="Installed and Healthy")
    if package is None:
        return line.forbidden()
    name = text(package, "metadata.name")
    if not package or (called and name not in called):
        found = f"only {name}" if package else "none"
        return line.missing(found, "kubectl apply -k install/, whose names the Compositions call")
    image = text(package, "spec.package")
    for type_ in ("Installed", "Healthy"):
        state = condition(package, type_)
        if text(state, "status") != "True":
            if image.startswith(_PLACEHOLDER):
                return line.missing(image, "Set both registries in install/registry.yaml, and apply install/ again")
            message = text(state, "message").partition("\n")[0]
            describe = f"kubectl describe {kind.lower()}.pkg.crossplane.io {name}"
            return line.missing(f"not {type_}", f"{describe}{f' says: {message}' if message else ''}")
    return replace(line, found=split_image(image)[1] or image)


def _check_own_package(kind: str, package: Manifest | None, called: frozenset[str] = frozenset()) -> Line:
    """Checks a package of ours, which should be of the release of this command line."""
    line = _check_package(kind, package, called)
    release = read_client_release()
    _, tag = split_image(text(package, "spec.package"))
    if line.state is State.OK and tag and tag != release:
        return line.warn(tag, f"This command line is {release}: install the same release of all three")
    return line


def _judge_flags(line: Line, config: Manifest) -> Line:
    containers = listing(config, "spec.deploymentTemplate.spec.template.spec.containers")
    arguments = {argument for container in containers for argument in list_texts(container, "args")}
    lacking = [flag_ for flag_ in _FLAGS if not arguments & {flag_, f"{flag_}=true"}]
    if lacking:
        todo = "Set them in its DeploymentRuntimeConfig, as install/provider.yaml does"
        return line.warn(f"not {', '.join(lacking)}", todo)
    return replace(line, found="all")


def _judge_definitions(line: Line, answer: Manifest) -> Line:
    established = {
        text(item, "spec.names.kind")
        for item in listing(answer, "items")
        if text(item, "spec.group") == GROUP and text(condition(item, "Established"), "status") == "True"
    }
    lacking = sorted(COMPOSERS.keys() - established)
    if lacking:
        todo = f"Install the Configuration; kubectl describe xrd says why one is not established: {', '.join(lacking)}"
        return line.missing(f"{len(established & COMPOSERS.keys())} established", todo)
    return replace(line, found=f"{len(established)} established")


def _judge_compositions(line: Line, answer: Manifest, functions: Collection[str]) -> Line:
    types = [
        (text(item, "spec.compositeTypeRef.apiVersion"), text(item, "spec.compositeTypeRef.kind"))
        for item in listing(answer, "items")
        if any(text(step, "functionRef.name") in functions for step in listing(item, "spec.pipeline"))
    ]
    lacking = [kind for kind in COMPOSERS if (VERSION, kind) not in types]
    if lacking:
        return line.missing(f"none for {join_with_more(lacking, _NAMED)}", "Install the Configuration")
    compositions: list[Manifest] = [{**item, "kind": "Composition"} for item in listing(answer, "items")]
    store = Store(compositions)
    slips = [f"{Ref.of(c).name}: {slip}" for c in compositions for slip in sorted(find_settings_slips(store, c))]
    if slips:
        found = f"{len(types)}; {join_with_more(slips, _NAMED, '; ')}"
        return line.warn(found, "Correct the settings ('modelplane explain settings')")
    return replace(line, found=str(len(types)))


def _judge_objects(line: Line, answer: Manifest) -> Line:
    objects = listing(answer, "items")
    waiting = [text(item, "metadata.name") for item in objects if not listing(item, "status.conditions")]
    if waiting:
        todo = "Read the provider's log, correct its rights, and restart its pod"
        return line.warn(f"{len(waiting)} without conditions: {join_with_more(waiting, _NAMED)}", todo)
    return replace(line, found=format_count(len(objects), "Object") if objects else "none yet")


def _check_rights(
    cluster: Cluster, namespace: str, who: str, deployment: str, rights: Mapping[str, Sequence[str]], todo: str = _GRANT
) -> Line:
    """Checks the rights of the service account of a Deployment; `todo` ends with the file that grants them."""
    line = Line(check=f"rights of {who}", wanted=f"what {todo.rpartition(' ')[2]} grants")
    found = cluster.fetch(f"{_DEPLOYMENTS.format(namespace)}/{deployment}")
    name = text(found, "spec.template.spec.serviceAccountName") or ("crossplane" if deployment == "crossplane" else "")
    if not name:
        return line.warn(f"no Deployment {deployment} in {namespace}", "Name the namespace of Crossplane with -n")
    faults = []
    for right, verbs in rights.items():
        denied = _list_denied(cluster, right, verbs, f"system:serviceaccount:{namespace}:{name}")
        if denied is None:
            return line.forbidden()
        faults += [f"{right.partition('.')[0]} ({', '.join(denied)})"] if denied else []
    if not faults:
        return replace(line, found=f"all, as {name}")
    return line.missing(f"{name} may not use {join_with_more(faults, _NAMED)}", todo)


def _list_denied(cluster: Cluster, right: str, verbs: Iterable[str], account: str = "") -> list[str] | None:
    """Returns the verbs that an account, else the caller, may not use on RESOURCE.GROUP; None where one may not ask."""
    resource, _, group = right.partition(".")
    kind = "SelfSubjectAccessReview"
    spec: Manifest = {}
    if account:
        kind = "SubjectAccessReview"
        # The groups that the API server gives a service account.
        everyone = "system:serviceaccounts"
        namespace = account.split(":")[2]
        groups: list[JSON] = [everyone, f"{everyone}:{namespace}", "system:authenticated"]
        spec = {"user": account, "groups": groups}
    denied = []
    for verb in verbs:
        reviewed: Manifest = {**spec, "resourceAttributes": {"group": group, "resource": resource, "verb": verb}}
        review: Manifest = {"apiVersion": _REVIEWS, "kind": kind, "spec": reviewed}
        answer = cluster.fetch(f"/apis/{_REVIEWS}/{kind.lower()}s", review)
        if answer is None:
            return None
        if not flag(answer, "status.allowed"):
            denied.append(verb)
    return denied


def _report(lines: Sequence[Line], form: Form) -> Code:
    code = Code.REFUSED if any(line.state is State.MISSING for line in lines) else Code.OK
    if form is not Form.TABLE:
        click.echo(format_data(form, [asdict(line) for line in lines]))
        return code
    rows = ((paint(line.state, _COLOURS[line.state]), line.check, line.found) for line in lines)
    click.echo(format_table(("STATE", "CHECK", "FOUND"), rows))
    for number, line in enumerate(line for line in lines if line.todo):
        wanted = f"wanted {line.wanted}. " if line.wanted else ""
        todo = f"{paint(line.state, _COLOURS[line.state])}: {line.check}: {wanted}{line.todo}"
        click.echo(("" if number else "\n") + wrap_lines(todo, 2))
    states = Counter(line.state for line in lines)
    click.echo(f"\n{', '.join(f'{states[state]} {state}' for state in State)}")
    return code
