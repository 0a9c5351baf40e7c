"""How a service is reached from the control plane, and what clients can notice of it."""

from function.domain.engine_args import get_last_value
from function.domain.engine_spec import ENGINES
from function.domain.environment import Environment
from function.domain.model_service import Gateway
from function.domain.placement import ResolvedPlacement
from function.kube.manifests import Manifest, listing, text
from function.kube.urls import parse_origin


def find_gateway(service: Manifest, url: str, environment: Environment) -> Gateway | None:
    """Returns the gateway through which a service is reached; None if there is none, or it is not reported yet.

    `url`: at which KServe says that the service answers. What the environment declares takes precedence.
    """
    declared = environment.gateway
    origin = declared.origin or parse_origin(url)
    attached = next(iter(listing(service, "status.router.gateways")), {})
    name, namespace = text(attached, "name"), text(attached, "namespace") or text(service, "metadata.namespace")
    if origin is None or not name or not environment.kserve.gateway:
        return None
    return Gateway(
        origin=origin,
        name=name,
        namespace=namespace,
        provider_config=environment.provider_config,
        tls_hostname=declared.tls_hostname,
        ca_config_map=declared.ca_config_map,
    )


def describe_traits(resolved: ResolvedPlacement, serving_uri: str) -> dict[str, str]:
    """Returns what clients can notice of a service: its name, the longest request, the weights and the engine."""
    engine = resolved.profile.engine
    # Each placement may have a claim of its own; the path identifies the weights.
    weights = serving_uri.removeprefix("pvc://").partition("/")[2] if serving_uri.startswith("pvc://") else serving_uri
    traits = {
        "model": resolved.model.served_name,
        "contextLength": get_last_value(engine.args, ENGINES[engine.name].context_flag) or "default",
        "weights": weights,
        "engine": engine.image.rpartition("/")[2],
    }
    return {name: value for name, value in traits.items() if value}
