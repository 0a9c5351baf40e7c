"""Parses ModelDeployments."""

from function.api.common import parse_selector
from function.api.model_cache import parse_cache_choice
from function.api.problems import Parsed, validate
from function.domain.model import ModelRef
from function.domain.placement import Deployment, Preference
from function.kube.manifests import Manifest, text
from function.schemas import DeploymentSpec


def parse_deployment(manifest: Manifest) -> Parsed[Deployment | None]:
    """Returns the deployment; None if it has any problem."""
    spec, problems = validate(DeploymentSpec, manifest.get("spec"), "spec")
    deployment = Deployment(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=ModelRef(kind=spec.model_ref.kind, name=spec.model_ref.name),
        environments=spec.environments,
        replicas=spec.scaling.fixed.replicas,
        selector=parse_selector(spec.environment_selector, "spec.environmentSelector", problems),
        cache=parse_cache_choice(spec.model_cache, "spec.modelCache", problems),
        prefer=Preference(spec.placement.prefer) if spec.placement else Preference.DECLARED,
    )
    all_problems = problems.find_within("spec")
    return Parsed(None if all_problems else deployment, all_problems)
