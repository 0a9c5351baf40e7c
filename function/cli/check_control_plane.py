"""What the control plane needs: Crossplane, the three packages, the kinds with their Compositions, and rights.

The faults are those that head docs/troubleshooting.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from function.cli import prerequisites
from function.cli.live import Cluster
from function.cli.prerequisites import FUNCTION, PROVIDER, Line, State, check_controller, check_release, check_served
from function.cli.store import OBJECT_GROUP
from function.composers import COMPOSERS
from function.kube.manifests import Manifest, condition, list_texts, listing, text
from function.kube.messages import format_count, join_with_more
from function.kube.names import GROUP, VERSION

# The minimum versions of docs/install.md.
CROSSPLANE, PROVIDER_KUBERNETES = "v2.3", "v1.2"
_EXTENSIONS = "apiextensions.crossplane.io"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
_OBJECT_API = f"{OBJECT_GROUP}/v1alpha1"
_OBJECT_KINDS = ("objects", "clusterproviderconfigs", "observedobjectcollections")
_PLACEHOLDER = "registry.example.com/"
_FLAGS = ("--enable-watches", "--sanitize-secrets")
_ALL = ("get", "list", "watch", "create", "update", "patch", "delete")
_READ = ("get", "list", "watch")

# What must be allowed on resources in all namespaces, as install/hub-rbac.yaml grants it: the rules with all verbs are
# checked by those that Kubernetes has.
CORE_RIGHTS = dict.fromkeys(
    (
        *(f"{kind.lower()}s.{GROUP}" for kind in sorted(COMPOSERS)),
        *(f"{kind}.{OBJECT_GROUP}" for kind in _OBJECT_KINDS),
    ),
    _ALL,
)
PROVIDER_RIGHTS = {
    **dict.fromkeys((f"{kind}.{OBJECT_GROUP}" for kind in _OBJECT_KINDS), _ALL),
    "secrets": (*_READ, "update"),
    "events": ("create", "patch"),
    "customresourcedefinitions.apiextensions.k8s.io": _READ,
}


def list_control_plane_checks(cluster: Cluster, namespace: str) -> Iterator[Line]:
    """Runs all checks, in the order in which one would correct what is missing; Crossplane runs in `namespace`."""
    todo = f"Install Crossplane {CROSSPLANE} or later"
    resources = ("compositeresourcedefinitions",)
    served = check_served(cluster, "Crossplane", f"{_EXTENSIONS}/v2", resources, todo)
    yield check_controller(cluster, served, f"{DEPLOYMENTS.format(namespace)}/crossplane", CROSSPLANE, todo)
    provider = prerequisites.find_package(cluster, "Provider", PROVIDER)
    line = _check_package("Provider", PROVIDER, provider)
    tag = prerequisites.parse_tag(text(provider, "spec.package"))
    if line.state is State.OK and tag:
        line = check_release(line.check, tag, PROVIDER_KUBERNETES, "Install that release: install/provider.yaml")
    yield line
    if provider:
        yield _check_flags(cluster, text(provider, "spec.runtimeConfigRef.name"))
    todo = "kubectl apply -f install/activation.yaml, and look why the Provider is not Healthy if that does not help"
    yield check_served(cluster, "kinds of the provider", _OBJECT_API, _OBJECT_KINDS, todo)
    function = prerequisites.find_package(cluster, "Function", FUNCTION)
    line = _check_release(_check_package("Function", FUNCTION, function), function)
    running = prerequisites.find_revision(cluster, "Function", function)
    if line.state is not State.MISSING and running and not text(running, "status.endpoint"):
        todo = f"kubectl describe functionrevision {text(running, 'metadata.name')}: Crossplane has not started it"
        line = line.missing("no endpoint", todo)
    yield line
    configuration = prerequisites.find_package(cluster, "Configuration", prerequisites.CONFIGURATION)
    yield _check_release(_check_package("Configuration", prerequisites.CONFIGURATION, configuration), configuration)
    yield _check_definitions(cluster)
    yield _check_compositions(cluster)
    yield _check_rights(cluster, namespace, "Crossplane", "crossplane", CORE_RIGHTS)
    if revision := text(provider, "status.currentRevision"):
        yield _check_rights(cluster, namespace, PROVIDER, revision, PROVIDER_RIGHTS)
    yield _check_objects(cluster)


def _check_package(kind: str, name: str, package: Manifest | None) -> Line:
    check = Line(check=f"{kind} {name}", wanted="Installed and Healthy")
    if package is None:
        return check.forbidden()
    if not package or (kind == "Function" and text(package, "metadata.name") != name):
        found = f"only {text(package, 'metadata.name')}" if package else "none"
        return check.missing(found, "kubectl apply -k install/, whose names the Compositions call")
    image = text(package, "spec.package")
    for type_ in ("Installed", "Healthy"):
        state = condition(package, type_)
        if text(state, "status") != "True":
            if image.startswith(_PLACEHOLDER):
                return check.missing(image, "Set both registries in install/registry.yaml, and apply install/ again")
            message = text(state, "message").partition("\n")[0]
            describe = f"kubectl describe {kind.lower()}.pkg.crossplane.io {text(package, 'metadata.name')}"
            return check.missing(f"not {type_}", f"{describe}{f' says: {message}' if message else ''}")
    return replace(check, found=prerequisites.parse_tag(image) or image)


def _check_release(line: Line, package: Manifest | None) -> Line:
    release, tag = prerequisites.read_client_release(), prerequisites.parse_tag(text(package, "spec.package"))
    if line.state is State.OK and tag and tag != release:
        return line.warn(tag, f"This command line is {release}: install the same release of all three")
    return line


def _check_flags(cluster: Cluster, name: str) -> Line:
    check = Line(check=f"flags of {PROVIDER}", wanted=", ".join(_FLAGS))
    config = cluster.fetch(f"/apis/pkg.crossplane.io/v1beta1/deploymentruntimeconfigs/{name}") if name else {}
    if config is None:
        return check.forbidden()
    containers = listing(config, "spec.deploymentTemplate.spec.template.spec.containers")
    arguments = {argument for container in containers for argument in list_texts(container, "args")}
    lacking = [flag for flag in _FLAGS if not arguments & {flag, f"{flag}=true"}]
    if lacking:
        todo = "Set them in its DeploymentRuntimeConfig, as install/provider.yaml does"
        return check.warn(f"not {', '.join(lacking)}", todo)
    return replace(check, found="all")


def _check_definitions(cluster: Cluster) -> Line:
    check = Line(check=f"XRDs of {GROUP}", wanted=f"{len(COMPOSERS)} established, of {VERSION.partition('/')[2]}")
    answer = cluster.fetch(f"/apis/{_EXTENSIONS}/v2/compositeresourcedefinitions")
    if answer is None:
        return check.forbidden()
    established = {
        text(item, "spec.names.kind")
        for item in listing(answer, "items")
        if text(item, "spec.group") == GROUP and text(condition(item, "Established"), "status") == "True"
    }
    lacking = sorted(COMPOSERS.keys() - established)
    if lacking:
        todo = f"Install the Configuration; kubectl describe xrd says why one is not established: {', '.join(lacking)}"
        return check.missing(f"{len(established & COMPOSERS.keys())} established", todo)
    return replace(check, found=f"{len(established)} established")


def _check_compositions(cluster: Cluster) -> Line:
    check = Line(check="Compositions", wanted=f"one for each kind that calls {FUNCTION}")
    answer = cluster.fetch(f"/apis/{_EXTENSIONS}/v1/compositions")
    if answer is None:
        return check.forbidden()
    types = [
        (text(item, "spec.compositeTypeRef.apiVersion"), text(item, "spec.compositeTypeRef.kind"))
        for item in listing(answer, "items")
        if any(text(step, "functionRef.name") == FUNCTION for step in listing(item, "spec.pipeline"))
    ]
    lacking = [kind for kind in COMPOSERS if (VERSION, kind) not in types]
    if lacking:
        return check.missing(f"none for {join_with_more(lacking, 3)}", "Install the Configuration")
    return replace(check, found=str(len(types)))


def _check_rights(
    cluster: Cluster, namespace: str, who: str, deployment: str, rights: Mapping[str, Sequence[str]]
) -> Line:
    """Checks the rights of the service account that a Deployment runs with."""
    check = Line(check=f"rights of {who}", wanted="what install/hub-rbac.yaml grants")
    found = cluster.fetch(f"{DEPLOYMENTS.format(namespace)}/{deployment}")
    name = text(found, "spec.template.spec.serviceAccountName") or ("crossplane" if deployment == "crossplane" else "")
    if not name:
        return check.warn(f"no Deployment {deployment} in {namespace}", "Name the namespace of Crossplane with -n")
    account, faults = f"system:serviceaccount:{namespace}:{name}", []
    for right, verbs in rights.items():
        denied = prerequisites.list_denied(cluster, right, verbs, account)
        if denied is None:
            return check.forbidden()
        faults += [f"{right.partition('.')[0]} ({', '.join(denied)})"] if denied else []
    if not faults:
        return replace(check, found=f"all, as {name}")
    todo = "Wait a minute for Crossplane's RBAC manager; where it does not run, kubectl apply -f install/hub-rbac.yaml"
    return check.missing(f"{name} may not use {join_with_more(faults, 3)}", todo)


def _check_objects(cluster: Cluster) -> Line:
    """Checks that the provider has reconciled the Objects; reads one page of 500."""
    check = Line(check="Objects", wanted=f"all reconciled by {PROVIDER}")
    answer = cluster.fetch(f"/apis/{_OBJECT_API}/objects?limit=500")
    if answer is None:
        return check.forbidden()
    objects = listing(answer, "items")
    waiting = [text(item, "metadata.name") for item in objects if not listing(item, "status.conditions")]
    if waiting:
        todo = "Read the provider's log, correct its rights, and restart its pod"
        return check.warn(f"{len(waiting)} without conditions: {join_with_more(waiting, 3)}", todo)
    return replace(check, found=format_count(len(objects), "Object") if objects else "none yet")
