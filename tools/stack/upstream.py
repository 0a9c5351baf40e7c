"""Manifests of other projects, read from their Go modules at run time and never kept in this repository.

Their webhooks address a Service inside the cluster; here they are processes, so each address becomes a URL.
"""

from functools import cache
from pathlib import Path

import yaml

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tools import programs
from tools.documents import LOADER, documents
from tools.stack import certificates
from tools.stack.layout import Home

_INFERENCE_CRDS = (
    "gateway-inference-extension.yaml",
    "gateway-inference-extension-v1alpha2pool.yaml",
    "gatewayapi_gateway.yaml",
    "gatewayapi_gatewayclasses.yaml",
    "gatewayapi_httproute.yaml",
)
GATEWAY_CRDS = (
    "backendtlspolicies",
    "gatewayclasses",
    "gateways",
    "grpcroutes",
    "httproutes",
    "referencegrants",
    "tlsroutes",
)


def prepare() -> None:
    """Fetch the modules, which needs a network where they are not at hand."""
    for fetch in (_core, _provider, _lws, _kserve):
        fetch()


def read(*paths: Path) -> list[Manifest]:
    """Return the manifests of YAML files, in order."""
    return [doc for path in paths for doc in documents(path) if isinstance(doc, dict)]


def core_crds() -> list[Manifest]:
    """Return the CRDs of Crossplane core."""
    return read(*sorted((_core() / "cluster/crds").glob("*.yaml")))


def provider_package() -> Path:
    """Return the folder of provider-kubernetes' package."""
    return _provider() / "package"


def core_roles() -> list[Manifest]:
    """Return core's own ClusterRoles from its chart, with the RBAC manager's aggregation."""
    template = (_core() / "cluster/charts/crossplane/templates/clusterrole.yaml").read_text()
    named = template.replace('{{ template "crossplane.name" . }}', "crossplane")
    plain = "\n".join(line for line in named.splitlines() if "{{" not in line)
    return [doc for doc in yaml.load_all(plain, LOADER) if doc]


def usage_webhook(home: Home, port: int) -> Manifest:
    """Return the webhook by which core keeps what a Usage protects."""
    (hooks,) = read(_core() / "cluster/webhookconfigurations/usage.yaml")
    return _by_url(hooks, port, home)


def lws_crds() -> list[Manifest]:
    """Return the CRD of LeaderWorkerSet."""
    return read(_lws() / "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml")


def lws_webhooks(home: Home, port: int) -> list[Manifest]:
    """Return its webhooks; its kustomize patches narrow the second of each to its own pods."""
    folder = _lws() / "config/webhook"
    found = read(folder / "manifests.yaml")
    for hooks in found:
        kind = "mutating" if text(hooks, "kind").startswith("Mutating") else "validating"
        patch = yaml.load((folder / f"{kind}-patch.yaml").read_text(), LOADER)  # noqa: S506  # a safe loader
        hooks["webhooks"] = [listing(hooks, "webhooks")[0], patch[0]["value"]]
        mapping(hooks, "metadata")["name"] = f"lws-{kind}"
    return [_by_url(hooks, port, home) for hooks in found]


def kserve_crds(home: Home, port: int) -> list[Manifest]:
    """Return the CRDs of LLMInferenceService with their conversion webhook, and those of the Gateway API."""
    own = read(*sorted((_kserve() / "config/crd/full/llmisvc").glob("serving*.yaml")))
    for crd in own:
        client: JSON = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": certificates.authority(home)}
        versions: list[JSON] = ["v1alpha2", "v1alpha1", "v1"]
        webhook: JSON = {"conversionReviewVersions": versions, "clientConfig": client}
        mapping(crd, "spec")["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    others = read(*(_kserve() / "test/crds" / name for name in _INFERENCE_CRDS))
    crds = [crd for crd in (*own, *others) if crd["kind"] == "CustomResourceDefinition"]
    return list({text(crd, "metadata.name"): crd for crd in crds}.values())


def gateway_crds() -> list[Manifest]:
    """Return the CRDs of Gateway API that Traefik waits for."""
    folder = programs.module_dir("kserve", "sigs.k8s.io/gateway-api") / "config/crd/standard"
    return read(*(folder / f"gateway.networking.k8s.io_{kind}.yaml" for kind in GATEWAY_CRDS))


def kserve_webhooks(home: Home, port: int) -> list[Manifest]:
    """Return the admission webhooks of LLMInferenceService."""
    hooks = read(_kserve() / "config/webhook/llmisvc/manifests.yaml")
    return [_by_url(hook, port, home) for hook in hooks]


def kserve_config() -> list[Manifest]:
    """Return KServe's ConfigMap."""
    return read(_kserve() / "config/configmap/inferenceservice.yaml")


def kserve_presets() -> list[Manifest]:
    """Return the presets that KServe ships, in its namespace; the CRDs admit them once its webhook serves."""
    found = read(*sorted((_kserve() / "config/llmisvcconfig").glob("config-llm-*.yaml")))
    for preset in found:
        mapping(preset, "metadata")["namespace"] = "kserve"
    return found


def _by_url(hooks: Manifest, port: int, home: Home) -> Manifest:
    for hook in listing(hooks, "webhooks"):
        path = text(hook, "clientConfig.service.path") or "/"
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": certificates.authority(home)}
    return hooks


@cache
def _core() -> Path:
    return programs.module_dir("core", "github.com/crossplane/crossplane/v2")


@cache
def _provider() -> Path:
    return programs.module_dir("provider-kubernetes", "github.com/crossplane-contrib/provider-kubernetes")


@cache
def _lws() -> Path:
    return programs.module_dir("lws", "sigs.k8s.io/lws")


@cache
def _kserve() -> Path:
    return programs.module_dir("kserve", "github.com/kserve/kserve")
