"""Parses ModelServices, and the `service` block of deployments that composes one."""

from function import schemas
from function.api.problems import Parsed, Problems, validate
from function.api.values import check_unique
from function.domain.model_service import (
    BackendEntry,
    Distribution,
    EndpointEntry,
    EndpointState,
    ModelService,
    ServiceView,
)
from function.kube.manifests import Manifest, flag, get, integer, listing, parse_time, text
from function.kube.urls import is_hostname

_HOSTNAME_FORM = "a host name such as models.example.com or *.example.com"


def parse_model_service(manifest: Manifest) -> Parsed[ModelService | None]:
    """Returns the service; None if it has any problem."""
    spec, problems = validate(schemas.ServiceSpec, manifest.get("spec"), "spec")
    check_unique(((problems["backends"][i], b.deployment) for i, b in enumerate(spec.backends)), "deployment")
    weights = [backend.weight for backend in spec.backends]
    if weights and not any(weights) and not problems["backends"].list():
        problems["backends"].add_invalid(weights, "weights of which one is not 0")
    check_routing(spec, problems)
    service = ModelService(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        backends={backend.deployment: backend.weight for backend in spec.backends},
        distribution=Distribution(spec.distribution),
        order=tuple(spec.environments or ()),
        withdraws_unreachable=spec.on_unreachable == "Withdraw",
        hostnames=tuple(spec.hostnames or ()),
        entries=tuple(_parse_entry(row) for row in listing(manifest, "status.endpoints")),
    )
    all_problems = problems.list()
    return Parsed(None if all_problems else service, all_problems)


def parse_service_view(manifest: Manifest) -> ServiceView:
    rows = [row for entry in listing(manifest, "status.endpoints") for row in listing(entry, "backends")]
    return ServiceView(
        name=text(manifest, "metadata.name"),
        deployments=frozenset(text(backend, "deployment") for backend in listing(manifest, "spec.backends")),
        placements=frozenset(text(row, "placement") for row in rows),
        unknown=bool(listing(manifest, "spec.crossplane.resourceRefs"))
        and not isinstance(get(manifest, "status.endpoints"), list),
    )


def check_routing(spec: schemas.ServiceSpec | schemas.Service, problems: Problems) -> None:
    """Adds the problems of the fields that a ModelService and a deployment's `service` share."""
    if spec.environments and Distribution(spec.distribution) is not Distribution.FAILOVER:
        allowed = f"left out unless distribution is {Distribution.FAILOVER}"
        problems["environments"].add_invalid(spec.environments, allowed)
    for index, hostname in enumerate(spec.hostnames or ()):
        if not is_hostname(hostname.removeprefix("*.")):
            problems["hostnames"][index].add_invalid(hostname, _HOSTNAME_FORM)


def _parse_entry(row: Manifest) -> EndpointEntry:
    state = text(row, "state")
    return EndpointEntry(
        environment=text(row, "environment"),
        address=text(row, "address"),
        state=EndpointState(state) if state in set(EndpointState) else EndpointState.NOT_READY,
        reason=text(row, "reason"),
        weight=integer(row, "weight"),
        since=parse_time(text(row, "since")),
        pools_refused=flag(row, "inferencePoolsRefused"),
        backends=tuple(
            BackendEntry(
                deployment=text(backend, "deployment"),
                placement=text(backend, "placement"),
                ready_replicas=integer(backend, "readyReplicas"),
                weight=integer(backend, "weight"),
                reason=text(backend, "reason"),
                since=parse_time(text(backend, "since")),
            )
            for backend in listing(row, "backends")
        ),
    )
