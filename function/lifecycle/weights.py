"""The remote objects of one plan for weights, for placements and caches alike: claim, token and Job.

This is one of the two places where something may leave `desired`. What goes: the token's copy once the download is
verified; a Job that another one for the same bytes replaces; and, as `stale`, the claim and Job of bytes that are not
wanted any more, which the caller keeps for as long as somebody still reads them. A Job that has finished stays as it
is, whatever the platform's download settings have become since: nothing is fetched again for their sake.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.cache import CacheEntry
from function.exchange import Composed
from function.kube.manifests import Manifest, get, mapping, text
from function.kube.names import LABEL_CACHE_KEY, MANAGED_BY
from function.lifecycle.carry_over import carried
from function.lifecycle.object_writer import Lifetime, ObjectWriter, copied
from function.observe.health import assess
from function.observe.objects import ObservedObject
from function.reasons import Phase
from function.report import weights as report
from function.report.weights import StorageState
from function.storage import volume_claim
from function.storage.plan import Gate, JobPlan, StoragePlan, plan
from function.storage.request import Case, StorageRequest
from function.storage.volume_claim import Ownership

CLAIM, JOB, TOKEN = "claim-", "job-", "token-"
_PREFIXES = (CLAIM, JOB, TOKEN)
_LIFETIME: Mapping[Ownership, Lifetime] = {
    Ownership.OBSERVED: Lifetime.OBSERVED,
    Ownership.MANAGED: Lifetime.OWNED,
    Ownership.RETAINED: Lifetime.KEPT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights on one environment. `open`: a service may be composed on the plan's URI. `completed`: the Job's time."""

    composed: Mapping[str, Composed]
    stale: Mapping[str, Composed]
    said: StorageState
    plan: StoragePlan | None
    open: bool
    completed: str = ""


def weigh(request: StorageRequest, writer: ObjectWriter, environment: str, entry: CacheEntry | None = None) -> Weights:
    """Return the objects for a request; `entry` is the named ModelCache's state on this environment."""
    planned = plan(request)
    if isinstance(planned, tuple):
        kept = {key: carried(m) for key, m in writer.observed.items() if key.startswith(_PREFIXES)}
        return Weights(composed=kept, stale={}, said=report.unplannable(planned), plan=None, open=False)
    claim_remote = writer.read(CLAIM + planned.claim_name)
    obstacle = planned.claim and report.claim(planned.claim, claim_remote, environment, request.shape_nodes)
    job_key = (_finished(writer, planned.job) or JOB + planned.job.name) if planned.job else None
    job = writer.read(job_key) if job_key else None
    done = job is not None and assess(job.manifest).up
    composed = {
        **_claim(writer, planned, claim_remote),
        **_token(writer, planned, request.namespace, done=done),
        **_job(writer, planned.job, job_key, blocked=obstacle is not None),
    }
    said = obstacle or _said(writer, planned, claim_remote, job, environment, entry)
    return Weights(
        composed=composed,
        stale=_stale(writer, planned, composed),
        said=said,
        plan=planned,
        open=_open(planned.gate, claim_remote, entry, done=done),
        completed=text(job.manifest, "status.completionTime") if job else "",
    )


def _claim(writer: ObjectWriter, planned: StoragePlan, remote: ObservedObject) -> dict[str, Composed]:
    if planned.claim is None:
        return {}
    key = CLAIM + planned.claim.name
    manifest = volume_claim.build(planned.claim, remote.manifest)
    return {key: writer.compose(key, manifest, _LIFETIME[planned.claim.ownership])}


def _token(writer: ObjectWriter, planned: StoragePlan, namespace: str, *, done: bool) -> dict[str, Composed]:
    credential = planned.credential
    if credential is None or credential.copied is None or (done and not credential.lasting):
        return {}
    key = TOKEN + credential.name
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": credential.name, "namespace": namespace, "labels": {**MANAGED_BY}},
    }
    source = credential.copied
    field = "data" if credential.whole else f"data[{source.key}]"
    return {key: writer.compose(key, secret, Lifetime.OWNED, copied(source.name, source.namespace, field))}


def _job(writer: ObjectWriter, job: JobPlan | None, key: str | None, *, blocked: bool) -> dict[str, Composed]:
    if job is None or key is None or (blocked and key not in writer.observed):
        return {}
    if key != JOB + job.name:
        return {key: carried(writer.observed[key])}
    return {key: writer.compose(key, job.manifest, _LIFETIME[job.ownership])}


def _finished(writer: ObjectWriter, job: JobPlan) -> str | None:
    """Return the observed Job that has fetched the same bytes already, under whatever settings."""
    wanted = _identity(job.manifest)
    return next(
        (
            key
            for key in sorted(writer.observed)
            if key.startswith(JOB)
            and _identity(mapping(writer.observed[key], "spec.forProvider.manifest")) == wanted
            and assess(writer.read(key).manifest).up
        ),
        None,
    )


def _identity(job: Manifest) -> tuple[object, ...]:
    pod = mapping(job, "spec.template.spec")
    containers, volumes = pod.get("containers"), pod.get("volumes")
    return (
        text(job, "metadata.namespace"),
        get(job, "metadata.annotations"),
        [c.get("args") for c in containers if isinstance(c, dict)] if isinstance(containers, list) else [],
        [v.get("persistentVolumeClaim") for v in volumes if isinstance(v, dict)] if isinstance(volumes, list) else [],
    )


def _said(
    writer: ObjectWriter,
    planned: StoragePlan,
    claim_remote: ObservedObject,
    job: ObservedObject | None,
    environment: str,
    entry: CacheEntry | None,
) -> StorageState:
    missing = _missing_token(writer, planned)
    if missing:
        return missing
    if planned.type is Case.MODEL_CACHE:
        return report.cached(entry, environment)
    if job is not None:
        remarks = volume_claim.changed(planned.claim, claim_remote.manifest) if planned.claim else ()
        return report.download(job, claim_remote, environment, remarks)
    if planned.claim:
        return report.used_as_it_is(claim_remote, environment)
    return report.unneeded(prestaged=planned.type is Case.PRESTAGED)


def _missing_token(writer: ObjectWriter, planned: StoragePlan) -> StorageState | None:
    credential = planned.credential
    if credential is None or credential.copied is None:
        return None
    source = credential.copied
    return report.token(writer.read(TOKEN + credential.name), f"{source.namespace}/{source.name} (key {source.key})")


def _open(gate: Gate, claim_remote: ObservedObject, entry: CacheEntry | None, *, done: bool) -> bool:
    match gate:
        case Gate.NOTHING:
            return True
        case Gate.CLAIM:
            return claim_remote.present
        case Gate.JOB:
            return done
        case Gate.CACHE:
            return entry is not None and entry.phase is Phase.READY


def _stale(writer: ObjectWriter, planned: StoragePlan, composed: Mapping[str, Composed]) -> dict[str, Composed]:
    """Return what belongs to other bytes or another claim; what is of the same bytes was replaced and goes at once."""
    return {
        key: carried(manifest)
        for key, manifest in sorted(writer.observed.items())
        if key.startswith(_PREFIXES) and key not in composed and not _superseded(key, manifest, planned)
    }


def _superseded(key: str, observed: Manifest, planned: StoragePlan) -> bool:
    if planned.credential and key == TOKEN + planned.credential.name:
        return True
    label = mapping(observed, "spec.forProvider.manifest.metadata.labels").get(LABEL_CACHE_KEY)
    return key.startswith(JOB) and label == planned.key
