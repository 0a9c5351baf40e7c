"""Parses ModelServices, and the `service` block of deployments that composes one."""

from function import schemas
from function.api.problems import Parsed, Problems, validate
from function.domain.model_service import (
    BackendEntry,
    Distribution,
    EndpointEntry,
    EndpointState,
    Listing,
    ModelService,
)
from function.kube.manifests import Manifest, get, integer, listing, parse_time, text
from function.kube.urls import is_hostname

_HOSTNAME_FORM = "a host name such as models.example.com or *.example.com"


def parse_model_service(manifest: Manifest) -> Parsed[ModelService | None]:
    """Returns the service; None if it has any problem."""
    spec, problems = validate(schemas.ServiceSpec, manifest.get("spec"), "spec")
    _check_backends(spec.backends, problems)
    check_routing(spec, "spec", problems)
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
    all_problems = problems.find_within("spec")
    return Parsed(None if all_problems else service, all_problems)


def parse_listing(manifest: Manifest) -> Listing:
    """Returns what a ModelService says of deployments and placements."""
    rows = [row for entry in listing(manifest, "status.endpoints") for row in listing(entry, "backends")]
    return Listing(
        name=text(manifest, "metadata.name"),
        deployments=frozenset(text(backend, "deployment") for backend in listing(manifest, "spec.backends")),
        placements=frozenset(text(row, "placement") for row in rows),
        unknown=bool(listing(manifest, "spec.crossplane.resourceRefs"))
        and not isinstance(get(manifest, "status.endpoints"), list),
    )


def check_routing(spec: schemas.ServiceSpec | schemas.Service, path: str, problems: Problems) -> None:
    """Adds the problems of the fields that a deployment's `service` has, too."""
    if spec.environments and Distribution(spec.distribution) is not Distribution.FAILOVER:
        allowed = f"left out unless distribution is {Distribution.FAILOVER}"
        problems.add_invalid(f"{path}.environments", spec.environments, allowed)
    for index, hostname in enumerate(spec.hostnames or ()):
        if not is_hostname(hostname.removeprefix("*.")):
            problems.add_invalid(f"{path}.hostnames[{index}]", hostname, _HOSTNAME_FORM)


def _check_backends(backends: list[schemas.Backend], problems: Problems) -> None:
    paths_by_name: dict[str, str] = {}
    for index, backend in enumerate(backends):
        path = f"spec.backends[{index}]"
        first_path = paths_by_name.setdefault(backend.deployment, path)
        if first_path != path:
            allowed = f"unique, and {first_path} has the same deployment"
            problems.add_invalid(f"{path}.deployment", backend.deployment, allowed)
    if backends and not any(backend.weight for backend in backends) and not problems.find_within("spec.backends"):
        problems.add_invalid("spec.backends", [backend.weight for backend in backends], "weights of which one is not 0")


def _parse_entry(row: Manifest) -> EndpointEntry:
    state = text(row, "state")
    return EndpointEntry(
        environment=text(row, "environment"),
        address=text(row, "address"),
        state=EndpointState(state) if state in set(EndpointState) else EndpointState.NOT_READY,
        reason=text(row, "reason"),
        weight=integer(row, "weight"),
        since=parse_time(text(row, "since")),
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
