"""What a pool gives the pods of a service, in Kubernetes' words; a pod's author reaches none of it but its variables.

A variable of the engine counts over one of the pool, save for those that a preset sets (`conflicts`). KServe's presets
are merged with what stands here: lists of capabilities as a whole, hence theirs are said again.
"""

from collections.abc import Iterable

from function.domain.model import Profile
from function.domain.pods import InterNode, PodAdditions, named_over
from function.domain.problem import Problem
from function.kube.manifests import JSON, Manifest, get, mapping, prune, text
from function.serving.engines import Launch, Mode

# What KServe's preset for data parallelism adds to a container whose other capabilities it drops.
_PRESET_CAPABILITIES = {Mode.SINGLE: (), Mode.DATA: ("IPC_LOCK", "SYS_RAWIO", "NET_RAW")}


def conflicts(profile: Profile, between: InterNode, pool: str, *, own_command: bool) -> tuple[Problem, ...]:
    """Return why a profile cannot run over several nodes of a pool; `own_command`: the engine's is written by us."""
    path, preset = f"spec.serving[{profile.name}]", f"preset {between.preset} of pool {pool}"
    names = ((index, text(entry, "name")) for index, entry in enumerate(profile.engine.env))
    found = [
        Problem(f"{path}.engine.env[{index}]", f"{name} must be left out, {preset} sets it")
        for index, name in names
        if name in between.preset_env
    ]
    if between.start and not own_command:
        why = f"as KServe's own command cannot begin with what {preset} needs"
        found.append(Problem(f"{path}.replicaTopology.parallelism.data", f"must be left out, {why}"))
    return tuple(found)


def pod_fields(given: PodAdditions, pull_secrets: Iterable[str]) -> Manifest:
    """Return what a pod has one of, and its claims and pull secrets: the pool's and these."""
    secrets: list[JSON] = [{"name": name} for name in sorted({*given.pull_secrets, *pull_secrets})]
    return prune(
        {
            "hostNetwork": given.host_network or None,
            # The cluster's names are not known to the node's own resolver.
            "dnsPolicy": "ClusterFirstWithHostNet" if given.host_network else None,
            "priorityClassName": given.priority_class or None,
            "schedulerName": given.scheduler or None,
            "runtimeClassName": given.runtime_class or None,
            "serviceAccountName": given.service_account or None,
            "imagePullSecrets": secrets or None,
            "resourceClaims": list(given.resource_claims) or None,
        }
    )


def variables(given: PodAdditions, profile: Profile) -> list[JSON] | None:
    """Return the engine's variables."""
    return list(named_over(given.env, profile.engine.env)) or None


def resources(given: PodAdditions, limits: Manifest, requests: Manifest) -> Manifest:
    """Return the engine's resources; what is limited is requested too where nothing else is said."""
    claims: list[JSON] = [{"name": get(claim, "name")} for claim in given.resource_claims]
    return prune({"limits": {**limits, **dict(given.limits)}, "requests": requests, "claims": claims or None})


def security(given: PodAdditions, ours: Manifest, mode: Mode) -> Manifest | None:
    """Return the rights of the engine's container, over `ours` and over those of KServe's preset in this mode."""
    merged = PodAdditions(security=given.security).over(PodAdditions(security=ours)).security
    if merged.get("privileged") is True:
        # Kubernetes refuses the one without the other, and KServe's presets deny escalation.
        merged = {"allowPrivilegeEscalation": True, **merged}
    if mode in _PRESET_CAPABILITIES:
        merged = _beside_preset(merged, _PRESET_CAPABILITIES[mode])
    return merged or None


def _beside_preset(security: Manifest, preset: tuple[str, ...]) -> Manifest:
    """Return the rights so that a merge leaves what the preset has; it drops every other capability."""
    wanted = mapping(security, "capabilities").get("add")
    names = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    rest = {key: value for key, value in security.items() if key != "capabilities"}
    return rest if names <= set(preset) else {**rest, "capabilities": {"add": [*sorted({*names, *preset})]}}


def sourced(launch: Launch, line: str) -> Launch:
    """Return a start whose shell reads a line first; the engine then takes the shell's place."""
    return Launch(command=("/bin/bash", "-c", f'{line}\nexec "$@"', "engine"), args=(*launch.command, *launch.args))
