"""How far a placement is in a rollout of one environment after the other: `status.rollout`."""

from dataclasses import dataclass

from function.kube.manifests import Manifest, flag, integer, mapping, prune, text


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """Why not all pods of a placement run the current spec of its service."""

    message: str
    stalled: bool = False  # it does not go on without a change


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    served_digest: str = ""  # spec digest of the service on the cluster, as far as it is reported
    requested_digest: str = ""  # of the service that is requested, as far as it is reported
    update: PendingUpdate | None = None  # None: all pods run `served_digest`, or it takes no part in a rollout
    model_generation: int = 0  # of the model that the placement has read last; 0: of a file, or not reported


def parse_rollout(block: Manifest) -> RolloutRecord:
    update = mapping(block, "update")
    return RolloutRecord(
        served_digest=text(block, "served"),
        requested_digest=text(block, "requested"),
        update=PendingUpdate(text(update, "message"), stalled=flag(update, "stalled")) if update else None,
        model_generation=integer(block, "modelGeneration"),
    )


def build_rollout(record: RolloutRecord) -> Manifest:
    update = record.update
    return prune(
        {
            "served": record.served_digest,
            "requested": record.requested_digest,
            "modelGeneration": record.model_generation or None,
            "update": {"message": update.message, "stalled": update.stalled} if update else None,
        }
    )
