"""A service as it is requested, and the digest of the inputs that its pods depend on.

A service carries its digest in the annotation `modelplane.ai/spec-digest`. While the digest is unchanged, the service
stays as it is observed, whatever this release would derive or default (docs/decisions/0011).

The digest covers every field of `ServingRequest` and of the values in it, except the fields in `EXCLUDED`. A field at
its default is left out, so that a field which is added later changes the digest only of the services that set it.

The canonical form consists of field names and values. Renaming a field of these classes therefore restarts the
services that set it; tests/serving/test_digest.py pins the form.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from function.domain.adapter import ServedAdapter
from function.domain.environment import Pool, own_taints
from function.domain.model import HuggingFaceSource, Lora, Mode, Model, OciSource, Profile, PvcSource, Shape, UriSource
from function.domain.pods import InterNode, PullSecret, build_copied_secret, name_pull_secrets
from function.domain.settings import Initializer, Kserve
from function.kube.names import hash_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """One service on one remote cluster."""

    name: str  # at most 35 characters (`build_name`); another mode or group size is another name
    namespace: str
    labels: Mapping[str, str]
    model: Model
    profile: Profile
    shape: Shape  # the recorded decision, not what the profile says today
    pool: Pool
    replicas: int
    uri: str  # where KServe reads the weights
    kserve: Kserve
    initializer: Initializer | None = None  # None: the weights are not downloaded into the pod
    pull_secrets: tuple[PullSecret, ...] = ()  # of the environment
    weights_bytes: int | None = None  # None: unknown
    read_bandwidth: int | None = None  # bytes per second at which a pod reads the weights; None: unknown
    adapters: tuple[ServedAdapter, ...] = ()
    lora: Lora | None = None  # set together with adapters

    @property
    def all_pull_secrets(self) -> tuple[PullSecret, ...]:
        """The Secrets with which the images are pulled, by their names on the remote cluster."""
        engine = self.profile.engine
        copied = (build_copied_secret(secret.name, secret.namespace) for secret in engine.pull_secrets)
        return name_pull_secrets((*copied, *self.pull_secrets), self.name, self.namespace)


EXCLUDED: Mapping[type, frozenset[str]] = {
    # A service of another name or namespace is another object, and the labels follow from its placement. Replicas
    # change without a restart. The last two fields only decide how long the engine may take to start.
    ServingRequest: frozenset({"name", "namespace", "labels", "replicas", "weights_bytes", "read_bandwidth"}),
    # Which model it was, its other profiles, and what decides the placement.
    Model: frozenset({"kind", "name", "generation", "profiles", "broken", "vram", "disk", "selector"}),
    # `ServingRequest.uri` identifies the bytes. Only the file of a repository is not part of it.
    HuggingFaceSource: frozenset({"repo", "revision", "secret", "allow", "ignore", "path", "base"}),
    OciSource: frozenset({"image"}),
    UriSource: frozenset({"uri", "secret", "base"}),
    PvcSource: frozenset({"claim", "path"}),
    # `ServingRequest.shape` is the recorded shape; the others decide the placement.
    # How requests reach the pods changes without a restart (serving/picker.py). `ServingRequest.lora` is what applies.
    Profile: frozenset({"name", "shape", "selector", "requires", "routing", "lora", "restart_limit"}),
    # Capacity and what decides the placement.
    Pool: frozenset(
        {"name", "gpus_per_node", "max_nodes", "node_count", "count_field", "accelerator_type", "memory_per_gpu"}
        | {"interconnect", "precision", "multi_node", "bandwidth", "nvlink_domain", "autoscaled", "facts"}
        | {"unschedulable", "unschedulable_reason", "not_created", "price"}
    ),
    # What a preset makes of the inputs: a release may correct it without a restart.
    InterNode: frozenset({"merged", "preset_env", "start", "whole_node"}),
    # `named` has what the platform set; the excluded fields include built-in values.
    Initializer: frozenset({"image", "resources", "env", "env_from", "bundle", "pull_secrets"}),
    # Only the pipeline preset is in this namespace. The scheduler only changes how requests reach the pods.
    Kserve: frozenset({"namespace", "scheduler"}),
}
# Fields with tuples whose order has no meaning. Variables and arguments are ordered.
_UNORDERED = frozenset(
    {"annotations", "labels", "pull_secrets", "resource_claims", "resources", "taints", "volume_mounts", "volumes"}
)


def compute_spec_digest(request: ServingRequest) -> str:
    """Returns 16 hex digits that are equal for equal inputs, in whichever order they were written."""
    return hash_parts(_encode(_drop_unused(request)))


def _drop_unused(request: ServingRequest) -> ServingRequest:
    """Resets the inputs that the pods of this mode never see."""
    profile = request.profile
    pool = request.pool
    kserve = request.kserve
    if request.shape.mode is not Mode.PIPELINE:
        kserve = replace(kserve, config_prefix=Kserve().config_prefix)
    if request.shape.nodes == 1:
        profile, pool = replace(profile, pods_across_nodes=None), replace(pool, inter_node=None)
    return replace(request, profile=profile, kserve=kserve, pool=replace(pool, taints=own_taints(pool)))


def _encode(value: object) -> str:
    return json.dumps(value, default=_collect_set_fields, sort_keys=True, separators=(",", ":"))


def _collect_set_fields(value: Any) -> Mapping[str, object]:
    set_fields: dict[str, object] = {}
    for name, default in _list_included_fields(value.__class__):
        entry = getattr(value, name)
        if entry == default:
            continue
        if is_dataclass(entry):
            entry = _collect_set_fields(entry)
            if not entry:
                continue
        elif isinstance(entry, tuple) and name in _UNORDERED:
            entry = sorted(entry, key=_encode)
        set_fields[name] = entry
    return set_fields


@lru_cache(maxsize=64)
def _list_included_fields(cls: Any) -> tuple[tuple[str, object], ...]:
    """Returns the name and the default of each field; the default is MISSING where a value is required."""
    excluded = EXCLUDED.get(cls, frozenset())
    included = (field for field in fields(cls) if field.name not in excluded)
    return tuple((f.name, f.default if f.default_factory is MISSING else f.default_factory()) for f in included)
