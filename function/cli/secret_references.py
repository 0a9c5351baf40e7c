"""Compares the Secrets that are in files with the references to Secrets of the control plane.

Values of Secrets are never read. Most files contain no Secrets, as they are created by other means: a reference to a
Secret that is in no file is therefore not reported.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_deployment import parse_deployment
from function.domain.model import DownloadedSource, HuggingFaceSource, Problem, SecretKey, Source
from function.domain.pods import KEY
from function.domain.settings import Settings
from function.kube.manifests import Manifest, get, mapping, text
from function.kube.messages import mask_tokens

_MAX_KEYS = 5  # that a message names


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a Secret of the control plane."""

    path: str  # of the field
    secret: SecretKey


def is_secret(manifest: Manifest) -> bool:
    return (manifest.get("apiVersion"), manifest.get("kind")) == ("v1", "Secret")


def find_secret_faults(manifest: Manifest, settings: Settings, secrets: Iterable[Manifest]) -> Iterator[Problem]:
    """Yields each reference of an object to which a Secret in the files does not fit; all Secrets have a namespace."""
    keys = {(text(s, "metadata.namespace"), text(s, "metadata.name")): _list_keys(s) for s in secrets}
    for reference in _list_references(manifest, settings) if keys else ():
        if message := _describe_fault(reference.secret, keys):
            yield Problem(reference.path, message)


def _list_keys(secret: Manifest) -> tuple[str, ...]:
    return tuple(sorted({*mapping(secret, "data"), *mapping(secret, "stringData")}))


def _list_references(manifest: Manifest, settings: Settings) -> Iterator[Reference]:
    match text(manifest, "kind"):
        case "ClusterModel" | "Model":
            model = parse_model(manifest, settings).value
            if model:
                yield from _list_of_source(model.source, "spec")
            for profile in model.profiles if model else ():
                for secret in profile.engine.pull_secrets:
                    yield Reference(f"spec.serving[{profile.name}].engine.imagePullSecrets", secret)
        case "ModelDeployment":
            deployment = parse_deployment(manifest).value
            for adapter in deployment.adapters if deployment else ():
                yield from _list_of_source(adapter.source, f"spec.adapters[{adapter.name}]")
        case "InferenceEnvironment":
            parsed = parse_environment(manifest, settings)
            block = "gke" if get(manifest, "spec.cluster.gke") else "existing"
            if parsed.access and parsed.plan is None:  # otherwise, the provider of the cloud writes it
                yield Reference(f"spec.cluster.{block}.secretRef", parsed.access.kubeconfig)
            if parsed.access and parsed.access.identity:
                yield Reference(f"spec.cluster.{block}.identitySecretRef", parsed.access.identity)
            sources = (pull.source for pull in parsed.value.pull_secrets)
            yield from (Reference("spec.imagePullSecrets", source) for source in sources if source)


def _list_of_source(source: Source, path: str) -> Iterator[Reference]:
    if isinstance(source, DownloadedSource) and source.secret:
        block = "huggingFace" if isinstance(source, HuggingFaceSource) else "uri"
        yield Reference(f"{path}.{block}.secretRef", source.secret)


def _describe_fault(secret: SecretKey, keys: Mapping[tuple[str, str], tuple[str, ...]]) -> str:
    """Returns why a Secret in the files does not fit a reference; empty if it fits, or if none is meant."""
    wanted = f"{secret.namespace}/{secret.name}"
    existing = keys.get((secret.namespace, secret.name))
    if existing is not None:
        if not secret.key or secret.key in existing:
            return ""
        has = ", ".join(mask_tokens(key) for key in existing[:_MAX_KEYS]) or "no keys at all"
        remedy = "create it as a docker-registry Secret" if secret.key == KEY else "rename the key, or set key here"
        return f"Secret {wanted} in these files has no key {secret.key} (it has {has}); {remedy}"
    elsewhere = sorted(namespace for namespace, name in keys if name == secret.name)
    return f"is Secret {wanted}, and these files have {secret.name} in namespace {elsewhere[0]}" if elsewhere else ""
