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
    deployment = Deployment(
        namespace=text(manifest, "metadata.namespace"),
        name=text(manifest, "metadata.name"),
        model=read_model_ref(spec),
        environments=spec.integer("environments", 1),
        replicas=spec.block("scaling").block("fixed").integer("replicas", 1),
        selector=read_selector(spec.block("environmentSelector")),
        cache=read_choice(spec.block("modelCache")),
    )
    return spec.problems() or deployment
