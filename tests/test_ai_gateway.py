"""examples/ai-gateway leads to the ModelService of examples/canary as the function publishes it, and keeps keys out."""

import urllib.parse

from function.kube.manifests import Manifest, get, integer, listing, mapping, text
from tests.support.plane import EXAMPLES, only, plane
from tools.documents import documents

MANIFESTS = [each for path in sorted((EXAMPLES / "ai-gateway").glob("*.yaml")) for each in documents(path)]


def _find(kind: str) -> Manifest:
    (found,) = (each for each in MANIFESTS if each["kind"] == kind)
    return found


def test_the_backend_is_the_url_of_the_model_service() -> None:
    control = plane("canary")
    service = control.composites[only(control, "ModelService")]
    url = urllib.parse.urlsplit(text(service, "status.url"))
    backend, schema = _find("Backend"), mapping(_find("AIServiceBackend"), "spec.schema")
    (endpoint,) = listing(backend, "spec.endpoints")
    assert (text(endpoint, "fqdn.hostname"), integer(endpoint, "fqdn.port")) == (url.hostname, 443)
    assert (url.scheme, text(backend, "spec.tls.sni")) == ("https", url.hostname)
    assert schema == {"name": "OpenAI", "prefix": f"{url.path}/v1"}
    (route,) = (control.composites[ref] for ref in control.store if ref.kind == "HTTPRoute")
    (rule,) = listing(route, "spec.rules")
    assert listing(rule, "matches") == [{"path": {"type": "PathPrefix", "value": url.path}}]


def test_the_route_renames_the_model_and_has_no_timeout() -> None:
    control = plane("canary")
    names = {text(control.composites[ref], "spec.model.name") for ref in control.all("ClusterModel")}
    (rule,) = listing(_find("AIGatewayRoute"), "spec.rules")
    (backend,) = listing(rule, "backendRefs")
    assert {text(backend, "modelNameOverride")} == names
    assert text(rule, "timeouts.request") == "0s", "Envoy AI Gateway ends a request after 60 s otherwise"
    assert text(backend, "name") == text(_find("AIServiceBackend"), "metadata.name")
    assert text(_find("AIServiceBackend"), "spec.backendRef.name") == text(_find("Backend"), "metadata.name")


def test_keys_end_at_the_gateway_and_limits_count_what_the_route_measures() -> None:
    authentication = mapping(_find("SecurityPolicy"), "spec.apiKeyAuth")
    assert authentication["sanitize"] is True
    caller = text(authentication, "forwardClientIDHeader")
    (rule,) = listing(_find("BackendTrafficPolicy"), "spec.rateLimit.global.rules")
    (selector,) = listing(rule, "clientSelectors")
    assert listing(selector, "headers") == [{"name": caller, "type": "Distinct"}]
    measured = {text(each, "metadataKey") for each in listing(_find("AIGatewayRoute"), "spec.llmRequestCosts")}
    assert text(rule, "cost.response.metadata.key") in measured
    assert get(rule, "cost.request") == {"from": "Number", "number": 0}
    (settings,) = listing(_find("EnvoyProxy"), "spec.telemetry.accessLog.settings")
    line = {str(value) for value in mapping(settings, "format.json").values()}
    namespace = text(rule, "cost.response.metadata.namespace")
    logged = {value.removesuffix(")%").rpartition(":")[2] for value in line if namespace in value}
    assert logged <= measured
    assert f"%REQ({caller})%" in line


def test_no_key_is_in_the_example() -> None:
    assert "Secret" not in {text(each, "kind") for each in MANIFESTS}
