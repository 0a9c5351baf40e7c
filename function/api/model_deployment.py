"""Parses ModelDeployments."""

from collections.abc import Sequence

from function.api.common import parse_selector
from function.api.model_cache import parse_cache_choice
from function.api.model_service import check_routing
from function.api.problems import Parsed, Problems, validate
from function.domain.model import ModelRef
from function.domain.placement import Deployment, Gate, Preference, Rollout
from function.kube.manifests import Manifest, text
from function.kube.selectors import Toleration
from function.schemas import DeploymentSpec, DeploymentToleration
from function.schemas import Rollout as RolloutBlock


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
        tolerations=_parse_tolerations(spec.tolerations or (), "spec.tolerations", problems),
        cache=parse_cache_choice(spec.model_cache, "spec.modelCache", problems),
        prefer=Preference(spec.placement.prefer) if spec.placement else Preference.DECLARED,
        rollout=_parse_rollout(spec.rollout),
        replaces_when_full=spec.rollout is not None and spec.rollout.when_full == "Replace",
        service=spec.service is not None,
    )
    if spec.service:
        check_routing(spec.service, "spec.service", problems)
    all_problems = problems.find_within("spec")
    return Parsed(None if all_problems else deployment, all_problems)


def _parse_rollout(block: RolloutBlock | None) -> Rollout | None:
    if block is None or block.environments != "OneByOne":
        return None
    gate = Gate(**block.gate.model_dump()) if block.gate else None
    return Rollout(order=tuple(block.order or ()), paused=block.paused, gate=gate)


def _parse_tolerations(blocks: Sequence[DeploymentToleration], path: str, problems: Problems) -> tuple[Toleration, ...]:
    """Returns the tolerations; one that Kubernetes would refuse is a problem."""
    for index, block in enumerate(blocks):
        exists = block.operator == "Exists"
        if not exists and not block.key:
            problems.add_required(f"{path}[{index}].key", "unless operator is Exists")
        if exists and block.value:
            problems.add_invalid(f"{path}[{index}].value", block.value, "left out for operator Exists")
    return tuple(
        Toleration(
            key=block.key or "",
            any_value=block.operator == "Exists",
            value=block.value or "",
            effect=block.effect or "",
        )
        for block in blocks
    )
