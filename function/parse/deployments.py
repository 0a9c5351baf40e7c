"""ModelDeployments: which model, on how many environments, with how many replicas on each."""

from function.domain.placement import Deployment
from function.domain.problem import Problem
from function.kube.manifests import Manifest, text
from function.parse.block import Block
from function.parse.caches import read_choice
from function.parse.references import read_model_ref
from function.parse.selectors import read_selector
from function.schemas.deployment import DeploymentSpec


def read_deployment(manifest: Manifest) -> Deployment | tuple[Problem, ...]:
    """Return the deployment, or every fault that it has."""
    spec = Block.checked(DeploymentSpec, manifest.get("spec"), "spec")
    environments = spec.integer("environments")
    replicas = spec.block("scaling").block("fixed").integer("replicas")
    deployment = Deployment(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=read_model_ref(spec),
        environments=1 if environments is None else environments,
        replicas=1 if replicas is None else replicas,
        selector=read_selector(spec.block("environmentSelector")),
        cache=read_choice(spec.block("modelCache")),
    )
    return spec.problems() or deployment
