"""ModelDeployments: which model, on how many environments, with how many replicas on each."""

from function.api.block import Block
from function.api.common import parse_model_ref, parse_selector
from function.api.model_cache import parse_cache_choice
from function.api.problems import Parsed
from function.domain.placement import Deployment, Preference
from function.kube.manifests import Manifest, text
from function.schemas import DeploymentSpec


def parse_deployment(manifest: Manifest) -> Parsed[Deployment | None]:
    """Return the deployment, None where it has any fault."""
    spec = Block.checked(DeploymentSpec, manifest.get("spec"), "spec")
    deployment = Deployment(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=parse_model_ref(spec),
        environments=spec.integer("environments", 1),
        replicas=spec.block("scaling").block("fixed").integer("replicas", 1),
        selector=parse_selector(spec.block("environmentSelector")),
        cache=parse_cache_choice(spec.block("modelCache")),
        prefer=Preference(spec.block("placement").text("prefer", Preference.DECLARED)),
    )
    problems = spec.problems()
    return Parsed(None if problems else deployment, problems)
