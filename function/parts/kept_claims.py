"""Retained claims of an environment, which are only observed: they outlive the placements that made them.

An Object of a placement goes with the placement, also if its claim stays. The Object of the environment then still
shows on the control plane that the claim exists (`cache list`). It stays until the claim is observed to be gone. Their
number is bounded, because authors decide how many claims they retain, and every Object costs the environment time.
"""

from dataclasses import replace

from function.contract import Composed, Desired, Drop, combine
from function.domain.cache import CreatedStorage
from function.domain.placement import Placement
from function.kube.manifests import Manifest, mapping
from function.kube.names import LABEL_KEPT_FOR
from function.parts.environment import EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import State

_PREFIX = "kept-"
MAX_KEPT = 100  # of one environment; further claims are found by their labels on the cluster (docs/storage.md)


def _observe_kept_claims(context: EnvironmentContext, _: Decisions) -> PartOutcome[None]:
    writer = context.writer
    placements = [p for p in context.placements or () if _keeps_claim(p) and not context.environment.storage.is_shared]
    wanted = {_PREFIX + p.weights.download.claim: p for p in placements}
    known = [key for key in sorted(writer.observed) if key.startswith(_PREFIX)]
    absent = [key for key in known if key not in wanted and writer.read(key).state is State.ABSENT]
    room = max(0, MAX_KEPT - (len(known) - len(absent)))
    added = [key for key in sorted(wanted) if key not in writer.observed][:room]
    composed = {key: _observe_claim(writer, p) for key, p in wanted.items() if key in writer.observed or key in added}
    gone = (Desired(drops=(Drop(key, "the claim is gone, and no placement keeps it"),)) for key in absent)
    return PartOutcome(decision=None, desired=combine([Desired(composed), *gone]))


KEPT_CLAIMS_PART = Part(run=_observe_kept_claims, names={OBJECT: f"{_PREFIX}.+"})


def _keeps_claim(placement: Placement) -> bool:
    """Tells whether complete weights are on a claim that stays if the placement is deleted."""
    choice, download = placement.storage_choice, placement.weights.download
    return isinstance(choice, CreatedStorage) and choice.retain and bool(download.claim and download.completed_at)


def _observe_claim(writer: ObjectWriter, placement: Placement) -> Composed:
    download = placement.weights.download
    metadata: Manifest = {"name": download.claim, "namespace": download.namespace}
    manifest: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    item = writer.compose(_PREFIX + download.claim, manifest, ManagementPolicy.OBSERVE_ONLY)
    labels = mapping(item.manifest, "metadata.labels")
    labels[LABEL_KEPT_FOR] = placement.namespace
    return replace(item, ready=True)  # an environment does not wait for it
