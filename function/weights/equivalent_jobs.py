"""Which observed Job does what a planned one would: the same bytes, to the same claim, under whatever name or settings.

Two of them would write to one directory at once, and a Job cannot be changed.
"""

from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, text
from function.remote.health import Level, assess
from function.remote.object_writer import ObjectWriter
from function.weights import scripts
from function.weights.initializer import pinned_alike
from function.weights.plan import JobPlan
from function.weights.volume_claim import Ownership

JOB = "job-"
_MANIFEST, _POD = "spec.forProvider.manifest", "spec.template.spec"
_CONTAINERS = ("initContainers", "containers")


def in_its_place(writer: ObjectWriter, job: JobPlan) -> str | None:
    """Return the composed resource of the Job that stands in the place of a planned one, if there is any."""
    return _finished(writer, job) or _adopted(writer, job) or _unasked(writer, job)


def _finished(writer: ObjectWriter, job: JobPlan) -> str | None:
    """Return the observed Job that has fetched the same bytes already, under whatever settings."""
    return next((key for key in _alike(writer, job) if assess(writer.read(key).manifest).up), None)


def _adopted(writer: ObjectWriter, job: JobPlan) -> str | None:
    """Return the observed Job for the same bytes that an earlier release named otherwise, unless it has failed."""
    if job.ownership is not Ownership.RETAINED:
        return None
    alike = (key for key in _alike(writer, job) if not key.startswith(JOB + job.stem))
    return next((key for key in alike if assess(writer.read(key).manifest).level is not Level.FAILED), None)


def _unasked(writer: ObjectWriter, job: JobPlan) -> str | None:
    """Return the observed Job that differs in nothing that anybody asked for, unless it has failed.

    Another release's scripts or pin of the image end no download; nor, where it runs, do other nodes that it might run
    on.
    """
    for key in _alike(writer, job):
        status, observed = writer.read(key).manifest, mapping(writer.observed[key], _MANIFEST)
        nodes = not integer(status, "status.ready")
        same = _asked(observed, nodes=nodes) == _asked(job.manifest, nodes=nodes)
        pinned = all(map(pinned_alike, _images(job.manifest), _images(observed)))
        if same and pinned and assess(status).level is not Level.FAILED:
            return key
    return None


def _asked(job: Manifest, *, nodes: bool) -> Manifest:
    """Return of a Job's pod what somebody asked for besides images: where it may run only if that counts.

    How the scripts get into the pod is ours, and earlier releases had them in the command.
    """
    pod = mapping(job, _POD)
    kept = {key: value for key, value in pod.items() if nodes or key not in ("nodeSelector", "tolerations")}
    kept["volumes"] = _without_scripts(pod, "volumes")
    for key in _CONTAINERS:
        kept[key] = [
            {**each, "command": None, "image": None, "volumeMounts": _without_scripts(each, "volumeMounts")}
            for each in listing(pod, key)
        ]
    return kept


def _without_scripts(within: Manifest, path: str) -> list[JSON]:
    return [item for item in listing(within, path) if item.get("name") != scripts.VOLUME]


def _images(job: Manifest) -> list[str]:
    pod = mapping(job, _POD)
    return [text(container, "image") for key in _CONTAINERS for container in listing(pod, key)]


def _alike(writer: ObjectWriter, job: JobPlan) -> list[str]:
    retry = get(job.manifest, "metadata.annotations")
    return [
        key
        for key in of_the_bytes(writer, job)
        if get(writer.observed[key], f"{_MANIFEST}.metadata.annotations") == retry
    ]


def of_the_bytes(writer: ObjectWriter, job: JobPlan) -> list[str]:
    """Return the observed Jobs that fetch the same bytes to the same claim, under whatever settings."""
    wanted = _identity(job.manifest)
    jobs = {key: m for key, m in sorted(writer.observed.items()) if key.startswith(JOB)}
    return [key for key, m in jobs.items() if _identity(mapping(m, _MANIFEST)) == wanted]


def _identity(job: Manifest) -> tuple[object, ...]:
    pod = mapping(job, _POD)
    containers = pod.get("containers")
    return (
        text(job, "metadata.namespace"),
        [c.get("args") for c in containers if isinstance(c, dict)] if isinstance(containers, list) else [],
        [volume["persistentVolumeClaim"] for volume in listing(pod, "volumes") if "persistentVolumeClaim" in volume],
    )
