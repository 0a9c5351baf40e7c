"""Remote clusters for the demo and the tests, where something may be missing and a copied Secret has a value.

What a cluster owner brings (an observed claim, a class, a definition) is there unless it is listed as absent.
"""

from dataclasses import dataclass

from function.kube.manifests import Manifest, get, listing, mapping, text
from tools.remote_stages import StepByStep, condition, copy_manifest

# What a copied Secret's key holds: tests look for it where it must not turn up.
SECRET_VALUE = "c2ltdWxhdGVkLXNlY3JldA=="  # noqa: S105  # base64 of a made-up word


@dataclass(frozen=True, slots=True, kw_only=True)
class World(StepByStep):
    """The remote clusters. `absent` names what is not there: `Secret/hf-token`, `StorageClass/fast`."""

    absent: frozenset[str] = frozenset()

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation; the input stays."""
        failure = self._failure(resource) if step else ""
        observed = StepByStep.advance(self, resource if failure or not step else _with_secrets(resource), step)
        if failure:
            observed["status"] = {
                "conditions": [
                    condition("Synced", ok=False, reason="ReconcileError", message=failure),
                    condition("Ready", ok=False, reason="Creating"),
                ]
            }
        return observed

    def _failure(self, resource: Manifest) -> str:
        manifest = mapping(resource, "spec.forProvider.manifest")
        if get(resource, "spec.managementPolicies") == ["Observe"] and _title(manifest) in self.absent:
            return "observe failed: external resource does not exist"
        for source in (mapping(r, "patchesFrom") for r in listing(resource, "spec.references")):
            if _title(source, "name") in self.absent:
                wanted = f'{text(source, "kind").lower()}s "{text(source, "name")}" not found'
                return f"observe failed: cannot resolve resource references: cannot get referenced resource: {wanted}"
        return ""


def _title(manifest: Manifest, name: str = "metadata.name") -> str:
    return f"{text(manifest, 'kind')}/{text(manifest, name)}"


def _with_secrets(resource: Manifest) -> Manifest:
    """Do as the provider does: the value ends up in the Object's own manifest on the control plane."""
    observed_copy = copy_manifest(resource)
    manifest = mapping(observed_copy, "spec.forProvider.manifest")
    for reference in listing(observed_copy, "spec.references"):
        source = mapping(reference, "patchesFrom")
        key = text(source, "fieldPath").removeprefix("data[").removeprefix("data.").removesuffix("]")
        if text(source, "kind") == "Secret":
            manifest["data"] = {**mapping(manifest, "data"), key: SECRET_VALUE}
    return observed_copy
