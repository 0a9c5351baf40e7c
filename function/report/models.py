"""What is said of a ClusterModel or Model: whether it is valid, and what its profiles amount to."""

from collections.abc import Sequence
from typing import assert_never

from function.domain.model import HuggingFaceSource, Model, OciSource, Profile, PvcSource, UriSource
from function.domain.problem import Problem
from function.exchange import Condition
from function.kube.manifests import JSON, Manifest
from function.kube.quantity import gib
from function.reasons import ConditionType, ModelValid, Status
from function.report.bounded import clip
from function.report.conditions import faulty
from function.storage import cachekey, sizing


def invalid_source(problems: Sequence[Problem]) -> Condition:
    """Return ModelValid for a model that cannot be served at all."""
    return faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_SOURCE, problems)


def valid(model: Model) -> Condition:
    """Return ModelValid: every fault of every profile, or advice that is no fault."""
    if model.problems:
        return faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_PROFILE, model.problems)
    advice = ""
    if isinstance(model.source, OciSource) and "@sha256:" not in model.source.image:
        advice = "; spec.oci.image: names a tag, which may move; a digest always means the same weights"
    message = f"{len(model.profiles)} profiles can be served{advice}"
    return Condition(type=ConditionType.MODEL_VALID, status=Status.TRUE, reason=ModelValid.VALID, message=message)


def status(model: Model) -> Manifest:
    """Return profiles and storage, without what depends on the pool: VRAM maths stand on the placement."""
    rows = [(p.name, _profile(p)) for p in model.profiles]
    rows += [(b.name, {"name": b.name, "message": clip("; ".join(map(str, b.problems)))}) for b in model.broken]
    profiles: list[JSON] = [row for _, row in rows]
    return {"profiles": profiles, "storage": _storage(model)}


def _profile(profile: Profile) -> Manifest:
    if profile.shape is None:
        return {"name": profile.name, "message": "Sized by spec.resources.vram, for each pool"}
    shape = profile.shape
    return {
        "name": profile.name,
        "nodes": shape.nodes,
        "gpusPerNode": shape.gpus_per_node,
        "totalGpus": shape.gpus,
        "multiNode": shape.nodes > 1,
    }


def _storage(model: Model) -> Manifest:
    size = sizing.size(None, model, None)
    stated = {"size": gib(size.amount), "sizeFrom": size.source} if size else {}
    match model.source:
        case HuggingFaceSource() | UriSource() as source:
            return {"cacheKey": cachekey.key(source), "uri": cachekey.uri(source), **stated}
        case OciSource() as source:
            return {"uri": f"oci://{source.image}"}
        case PvcSource() as source:
            return {"uri": f"pvc://{source.claim}/{source.path.strip('/')}".rstrip("/")}
        case _:
            assert_never(model.source)
