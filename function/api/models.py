"""ClusterModel and Model, which share one schema.

Faults outside the profiles (source, resources, selector, the shape of anything else) leave no model to serve:
only the list of all faults comes back. A faulty profile only stands in `broken`, beside the others.
"""

from function.api.block import Block
from function.api.parsed import Parsed
from function.api.profiles import read_profiles
from function.api.selectors import read_selector
from function.api.sources import SecretRule, read_source
from function.domain.model import CPU, MEMORY, Model
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import Manifest, text
from function.schemas import ModelSpec

CLUSTER_MODEL = "ClusterModel"


def read_model(manifest: Manifest, settings: Settings = BUILT_IN) -> Parsed[Model | None]:
    """Return the model; None where faults outside its profiles leave nothing to serve.

    A Secret of a ClusterModel that names no namespace is in the platform's, a Model's is in the Model's own.
    """
    kind, namespace = text(manifest, "kind"), text(manifest, "metadata.namespace")
    spec = Block.checked(ModelSpec, manifest.get("spec"), "spec")
    shared = kind == CLUSTER_MODEL
    home = settings.secret_namespace if shared else namespace
    rule = SecretRule(namespace=home, fixed=not shared)
    source = read_source(spec, rule)
    profiles, broken = read_profiles(spec, source, rule)
    resources = spec.block("resources")
    vram, disk = resources.amount("vram"), resources.amount("disk")
    cpu, memory = resources.quantity("cpu", CPU), resources.quantity("memory", MEMORY)
    selector = read_selector(spec.block("environmentSelector"))
    problems = spec.problems()
    if source is None or {p for b in broken for p in b.problems} != set(problems):
        return Parsed(None, problems)
    model = Model(
        kind=kind,
        name=text(manifest, "metadata.name"),
        namespace=namespace,
        served_name=spec.block("model").text("name"),
        source=source,
        profiles=profiles,
        broken=broken,
        vram=vram,
        disk=disk,
        cpu=cpu,
        memory=memory,
        selector=selector,
    )
    return Parsed(model, problems)
