"""Download Jobs, the ConfigMap with their scripts, and the settings of KServe's initializer for the same download.

A Job has one pod with one container of the initializer's image. Its python runs our script (scripts/), which runs the
initializer and verifies the fetched files. The scripts are mounted from a ConfigMap whose name holds a hash of its
content. URI, directory and patterns are arguments and variables, never part of a script. A Job's pod template is
immutable, so the Job's name carries a hash of its whole spec and of `retry`. A change starts a new Job over the
existing files; without a change, no new Job starts. A Job has no TTL, because the provider would create the Job again.

If the claim's root belongs to another user, a container that runs as root first prepares the model's directory for the
download. Namespaces that enforce Pod Security `restricted` refuse such pods, and the Job then has no pod and no
message. Such a Job therefore has a deadline of ten minutes until a pod is observed, and its full deadline from then on.
The deadline is the only part of a Job that may change.

The script has one exit code for each cause (scripts/download_script.py owns the codes). A cause that a retry cannot
cure ends the Job at once. Other causes use up the Job's backoff limit, and the last attempt exits with a separate code
that also ends the Job. In both cases, the Job's own condition names the cause, because `podFailurePolicy` copies the
exit code into it. If an eviction or the kernel ends a pod, there is no code: the Job only shows that its attempts ran
out.

A large download from the hub is divided into parts: the Job is Indexed, and each completion downloads its share of the
files, one after the other. The Job's own status thus tells how much is there, without a credential on the cluster. Only
the last part completes the directory, as the one pod of an undivided download does. Whether the others did their share
does not matter for that: the last part fetches and verifies whatever is missing.

An adapter is downloaded by the same script. A second script then compares it with the model, whose weights are on the
same claim, because engines refuse some adapters only when they start, and serve others with wrong answers.

Where each pod downloads its own copy, the service's template has a container with the name of KServe's initializer, and
KServe merges this container into its own. The download runs in the engine's pod: image, resources and variables are
merged, images are pulled with the pod's Secrets, and the download's service account does not apply. KServe mounts
certificates only for `s3://`, for the variables that it reads itself; for the hub, this function mounts them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import resources

from function.domain.environment import Pool, tolerations
from function.domain.model import DownloadedSource, HuggingFaceSource, UriSource, find_model_path
from function.domain.pods import add_variables
from function.domain.settings import BACKOFF_LIMIT, BUILT_IN, JOB_NAME, Download, Initializer
from function.kube import manifests, names
from function.kube.manifests import JSON, Manifest
from function.remote.composed_kinds import assess
from function.remote.object_writer import ObjectWriter
from function.remote.observed_object import read_written
from function.weights.credentials import Credential
from function.weights.request import cache_key, label_weights, model_directory, source_uri
from function.weights.scripts.adapter_script import MAX_RANK, AdapterExit
from function.weights.scripts.download_script import ADAPTER, OPENED, PARTS, PROGRAM, STALL, STALL_SECONDS, XET, Exit
from function.weights.scripts.prepare_script import FULL, REFUSED

JOB_PREFIX = "job-"
MOUNT = "/mnt/models"
CONTAINER, PREPARE_CONTAINER = "download", "prepare"
NAME_LIMIT = 52  # a pod's name adds a suffix and must stay a label
SECONDS_WITHOUT_POD = 600

DOWNLOAD, PREPARE, CHECK_ADAPTER = "download.py", "prepare.py", "adapter.py"
_SOURCES = resources.files("function.weights.scripts")
SCRIPT_FILES = {
    name: _SOURCES.joinpath(file).read_text()
    for name, file in (
        (DOWNLOAD, "download_script.py"),
        (PREPARE, "prepare_script.py"),
        ("sitecustomize.py", "sitecustomize.py"),
    )
}
# Mounted in addition to download an adapter.
ADAPTER_SCRIPT_FILES = {CHECK_ADAPTER: _SOURCES.joinpath("adapter_script.py").read_text()}
_SCRIPTS_VOLUME = "scripts"
_SCRIPTS_DIRECTORY = "/opt/modelplane"
_SCRIPTS_MOUNT: Manifest = {"name": _SCRIPTS_VOLUME, "mountPath": _SCRIPTS_DIRECTORY, "readOnly": True}

# KServe's own convention: the ConfigMap holds cabundle.crt, and the initializer reads these two variables.
BUNDLE_NAME = "CA_BUNDLE_CONFIGMAP_NAME"
BUNDLE_DIRECTORY = "CA_BUNDLE_VOLUME_MOUNT_POINT"
# The variables of the container that KServe's controller reads, and its name for the file in the ConfigMap.
_KSERVE_BUNDLE_NAME = "AWS_CA_BUNDLE_CONFIGMAP"
_KSERVE_BUNDLE_FILE = "AWS_CA_BUNDLE"
_BUNDLE_FILE = "cabundle.crt"
_JOB_NAME = "metadata.labels['job-name']"
# Progress is worth a line every half minute, not ten a second, in a log that is kept for a day.
_ENV: tuple[Manifest, ...] = (
    {"name": "HF_HOME", "value": "/tmp/hf"},  # noqa: S108  # an emptyDir
    {"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"},
    {"name": "HF_XET_NUM_CONCURRENT_RANGE_GETS", "value": "8"},
    {"name": "TQDM_MININTERVAL", "value": "30"},
)
# All keys of a Secret may become variables. They must not decide what the script runs, how long it runs, or where a
# token goes. A variable that is set here by name overrides a variable of a Secret (docs/facts.md, Kubernetes).
_GUARDED = {"MODELPLANE_INITIALIZER": PROGRAM, "HF_ENDPOINT": "https://huggingface.co"}
_GUARDED |= {OPENED: "", STALL: str(STALL_SECONDS), PARTS: "1", MAX_RANK: "", ADAPTER: ""}
# Exit codes of a download after which the Job must not try again.
_FINAL_CODES = tuple(cause.gave_up for cause in Exit)
_POD_COUNTS = ("active", "failed", "succeeded", "terminating")


class JobFailure(Enum):
    """Why a Job failed for good; the value says what to do."""

    UNAUTHORISED = "the source refused access: check the token, and that its owner may read the repository"
    NOT_FOUND = "the source does not know the repository, revision or file: correct the model's source"
    DISK_FULL = "the claim is full: {size_advice}"
    NOT_WRITABLE = (
        "the download's user (1000 unless storage.download.securityContext sets another) may not write to the claim, "
        "nor may root change that where storage.download.prepare lets it try (root_squash, read-only): correct its "
        "permissions"
    )
    INCOMPLETE = (
        "files are missing or truncated after the download, or no config.json lies beside the weights; the pod's log "
        "names them: check the repository, its file or path, and the patterns"
    )
    ADAPTER_UNDESCRIBED = (
        "there is no adapter_config.json with r, lora_alpha and target_modules, or no adapter_model.safetensors: check "
        "the repository and the path of the adapter"
    )
    ADAPTER_RANK_TOO_HIGH = (
        "the rank of the adapter is above lora.maxRank of the serving profile; the pod's log has both: raise maxRank, "
        "or use an adapter of a lower rank"
    )
    ADAPTER_OF_OTHER_MODEL = (
        "the tensors of the adapter do not fit this model; the pod's log names the first ones: use an adapter that was "
        "trained for it"
    )
    ADAPTER_UNSUPPORTED = (
        "the adapter is not a plain LoRA adapter, which is all that engines load beside a model; the pod's log says "
        "what it is: use another adapter"
    )
    RATE_LIMITED = "the source keeps limiting the rate: use a token or a mirror, or wait"
    UNREACHABLE = "the source cannot be reached from the cluster: check proxies, mirrors, certificates and its network"
    KILLED = "the download was killed, most often for memory: raise storage.download.resources"
    UNKNOWN = "the pod's log says why"
    STALLED = (
        "the download made no progress for 15 minutes, in several attempts, of which only the first may use hf-xet: "
        "check proxies, mirrors and the claim's storage"
    )
    STORAGE_FAILED = (
        "the claim's storage failed, or cannot do what the download needs; the pod's log has its error: check the "
        "volume and its mount options"
    )
    DEADLINE_EXCEEDED = "storage.download.activeDeadlineSeconds passed: raise it, or check the network's speed"
    NO_POD = (
        "no pod could be created, and the events of the Job say why. A quota may be used up. Or the namespace may "
        "enforce Pod Security restricted, which refuses what storage.download.prepare or securityContext ask for: let "
        "it enforce baseline, or set prepare: Never and correct the claim's permissions"
    )
    EXHAUSTED = "every attempt was ended from outside (eviction, node loss): look at the pod's events"

    @property
    def label(self) -> str:
        """The name in messages, such as `NotFound`."""
        return self.name.title().replace("_", "")


_BY_CODE: Mapping[int, JobFailure] = {
    **{cause.gave_up: JobFailure[cause.name] for cause in Exit},
    **{int(cause): JobFailure[cause.name] for cause in AdapterExit},
    REFUSED: JobFailure.NOT_WRITABLE,
}
_CODE = re.compile(r"exit code ([0-9]{1,3})(?![0-9])")
_BY_REASON = {"DeadlineExceeded": JobFailure.DEADLINE_EXCEEDED, "BackoffLimitExceeded": JobFailure.EXHAUSTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadSpec:
    """A download: these bytes into their directory of this claim."""

    namespace: str
    stem: str  # begins the Job's name
    claim: str
    scripts: str  # name of the ConfigMap with the scripts
    source: DownloadedSource
    download: Download
    credential: Credential = Credential()
    retry: str = ""
    pull_secrets: tuple[str, ...] = ()  # of the environment, besides the download's own
    parts: int = 1  # that the download is divided into
    is_prepared: bool = False  # root makes the directory first
    pool: Pool | None = None  # set if only the nodes of this pool, which read the weights, can write them


def build_job(spec: DownloadSpec) -> Manifest:
    labels: Manifest = {**names.MANAGED_BY, names.LABEL_CACHE_KEY: cache_key(spec.source)}
    job_spec: Manifest = {
        "activeDeadlineSeconds": spec.download.active_deadline_seconds,
        "backoffLimit": spec.download.backoff_limit,
        "podFailurePolicy": {"rules": _build_failure_rules(spec)},
        "template": {
            # A mesh's sidecar would outlive the download, and the Job would never complete.
            "metadata": {"labels": {**labels, "sidecar.istio.io/inject": "false"}},
            "spec": _build_pod(spec),
        },
    }
    if spec.parts > 1:
        # One part at a time, so that the source and the network see the load of one download.
        job_spec |= {"completionMode": "Indexed", "completions": spec.parts, "parallelism": 1}
    hashed = json.dumps(job_spec, sort_keys=True)
    metadata: Manifest = {
        "name": names.build_name(spec.stem, spec.namespace, spec.stem, hashed, spec.retry, limit=NAME_LIMIT),
        "namespace": spec.namespace,
        "labels": {**labels, **label_weights(spec.source)},
        # A client that deletes a Job without a propagation policy leaves its pods, which hold the claim for good.
        "finalizers": ["foregroundDeletion"],
    }
    if spec.retry:
        metadata["annotations"] = {names.ANNOTATION_RETRY: spec.retry}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec}


def build_scripts(namespace: str, stem: str, key: str, *owner: str, for_adapter: bool = False) -> Manifest:
    """Builds the ConfigMap that carries the scripts into the pods of a Job; `stem` begins its name.

    The scripts have 35 kB. A command would repeat them in the Job, in the Object that describes the Job, and in the
    status that the provider reports. Changed scripts get a new ConfigMap.
    """
    files = {**SCRIPT_FILES, **(ADAPTER_SCRIPT_FILES if for_adapter else {})}
    content = [f"{name}\n{script}" for name, script in sorted(files.items())]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.build_name(stem, namespace, *owner, stem, "scripts", key, *content),
            "namespace": namespace,
            "labels": {**names.MANAGED_BY, names.LABEL_CACHE_KEY: key},
        },
        "immutable": True,
        "data": {**files},
    }


def build_download_args(source: DownloadedSource) -> list[JSON]:
    """Builds the arguments of the download container: the URI, and the directory that the bytes go to."""
    return [_escape_expansion(source_uri(source)), f"{MOUNT}/{model_directory(source)}"]


def build_initializer(download: Download, source: DownloadedSource, credential: Credential) -> Initializer:
    """Builds the settings of KServe's initializer for a download into an engine's pod."""
    built_in = BUILT_IN.download
    env = _build_env(source, download, credential)
    if isinstance(source, HuggingFaceSource) and download.image == built_in.image:
        # Nothing ends a stalled download in an engine's pod, and downloads with the hf-xet of this image often stall.
        env = add_variables(env, {XET: "1"})
    requested_env: list[JSON] = [entry for entry in _build_env(source, download, credential) if entry not in _ENV]
    requested: Manifest = {
        "image": download.image if download.image != built_in.image else None,
        "resources": download.resources if download.resources != built_in.resources else None,
        "env": requested_env or None,
        "envFrom": [*credential.env_from] or None,
        "imagePullSecrets": [*sorted(download.image_pull_secrets)] or None,
    }
    bundle = _find_certificates(env)
    if bundle and isinstance(source, UriSource):
        name, directory = bundle
        env = add_variables(env, {_KSERVE_BUNDLE_NAME: name, _KSERVE_BUNDLE_FILE: f"{directory}/{_BUNDLE_FILE}"})
        bundle = None
    return Initializer(
        image=download.image,
        resources=download.resources,
        env=tuple(env),
        env_from=credential.env_from,
        bundle=bundle,
        pull_secrets=download.image_pull_secrets,
        named=manifests.prune(requested),
    )


def is_prepared(job: Manifest) -> bool:
    """Tells whether root makes the directory of the model in a Job's pods."""
    containers = manifests.listing(job, "spec.template.spec.initContainers")
    return any(container.get("name") == PREPARE_CONTAINER for container in containers)


def needs_privileges(job: Manifest) -> bool:
    """Tells whether a namespace that enforces Pod Security `restricted` refuses the pods of a Job."""
    security = manifests.mapping(job, "spec.template.spec.securityContext")
    return is_prepared(job) or security.get("runAsNonRoot") is False


def has_had_pods(job: Manifest) -> bool:
    uncounted = manifests.mapping(job, "status.uncountedTerminatedPods")
    return any(manifests.integer(job, f"status.{count}") for count in _POD_COUNTS) or any(uncounted.values())


def is_without_pods(job: Manifest) -> bool:
    """Tells whether the Job controller has started an observed Job and could not create a pod for it.

    The controller writes the start time together with the number of the pods that it created.
    """
    is_suspended = manifests.condition(job, "Suspended").get("status") == "True"
    return bool(manifests.text(job, "status.startTime")) and not is_suspended and not has_had_pods(job)


def with_pod_start_deadline(job: Manifest, written: Manifest, observed: Manifest) -> Manifest:
    """Returns a Job with the short deadline for its first pod, until a pod was observed.

    `written` is the Job as it was last written, `observed` as it is on the cluster.
    """
    deadline = manifests.integer(job, "spec.activeDeadlineSeconds")
    had_pods = deadline == manifests.integer(written, "spec.activeDeadlineSeconds") or has_had_pods(observed)
    if had_pods or not needs_privileges(job):
        return job
    spec = {**manifests.mapping(job, "spec"), "activeDeadlineSeconds": min(deadline, SECONDS_WITHOUT_POD)}
    return {**job, "spec": spec}


def _build_failure_rules(spec: DownloadSpec) -> list[JSON]:
    final_codes = {CONTAINER: _FINAL_CODES, PREPARE_CONTAINER: (FULL, REFUSED)}
    if spec.source.base:
        final_codes[CONTAINER] = (*_FINAL_CODES, *map(int, AdapterExit))
    rules: list[JSON] = [
        {"action": "FailJob", "onExitCodes": {"containerName": name, "operator": "In", "values": [*sorted(codes)]}}
        for name, codes in final_codes.items()
        if spec.is_prepared or name != PREPARE_CONTAINER
    ]
    # A pod on a drained node has not failed, and must not use up the backoff limit.
    return [*rules, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]


def _build_pod(spec: DownloadSpec) -> Manifest:
    download = spec.download
    pool = spec.pool
    env = _build_env(spec.source, download, spec.credential)
    volumes, mounts = _build_volumes(spec, env)
    secret_names = dict.fromkeys((*download.image_pull_secrets, *spec.pull_secrets))
    pull_secrets: list[JSON] = [{"name": name} for name in secret_names]
    # An unprivileged user, unless the platform sets another.
    security: Manifest = {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **download.security_context,
        **({"runAsNonRoot": False} if download.security_context.get("runAsUser") == 0 else {}),
    }
    return manifests.prune(
        {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "serviceAccountName": download.service_account_name,
            "imagePullSecrets": pull_secrets or None,
            # The platform team names nodes for downloads if it knows where their volumes are.
            "nodeSelector": download.node_selector or (dict(pool.labels) if pool else None) or None,
            "tolerations": [*download.tolerations, *(tolerations(pool) if pool else ())] or None,
            "securityContext": security,
            "initContainers": [_build_prepare_container(spec, security)] if spec.is_prepared else None,
            "containers": [{**_build_container(spec, env), "volumeMounts": mounts}],
            "volumes": volumes,
        }
    )


def _build_prepare_container(spec: DownloadSpec, security: Manifest) -> Manifest:
    return {
        "name": PREPARE_CONTAINER,
        "image": spec.download.image,
        "command": ["python3", f"{_SCRIPTS_DIRECTORY}/{PREPARE}"],
        "args": [MOUNT, model_directory(spec.source), str(security["runAsUser"]), str(security["runAsGroup"])],
        "resources": spec.download.resources,
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        },
        "volumeMounts": [{"name": "weights", "mountPath": MOUNT}, _SCRIPTS_MOUNT],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _build_container(spec: DownloadSpec, env: list[Manifest]) -> Manifest:
    download = spec.download
    # The default apiVersion is written out. Without it, two Objects that describe one Job would take the field from
    # each other for ever, because a reference is applied as a whole.
    own: list[Manifest] = [
        {"name": BACKOFF_LIMIT, "value": str(download.backoff_limit)},
        {"name": JOB_NAME, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": _JOB_NAME}}},
    ]
    if model_path := find_model_path(spec.source):
        own.append({"name": OPENED, "value": _escape_expansion(model_path)})
    if spec.parts > 1:
        own.append({"name": PARTS, "value": str(spec.parts)})
    if base := spec.source.base:
        own.append({"name": MAX_RANK, "value": str(base.max_rank)})
        own.append({"name": ADAPTER, "value": _escape_expansion(f"{MOUNT}/{base.path}")})
    env_from: list[JSON] = [*spec.credential.env_from]
    all_env: list[JSON] = [*add_variables([*env, *own], _GUARDED if env_from else {})]
    return manifests.prune(
        {
            "name": CONTAINER,
            "image": download.image,
            "command": ["python3", f"{_SCRIPTS_DIRECTORY}/{CHECK_ADAPTER if spec.source.base else DOWNLOAD}"],
            "args": build_download_args(spec.source),
            "env": all_env,
            "envFrom": env_from or None,
            "resources": download.resources,
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    )


def _build_env(source: DownloadedSource, download: Download, credential: Credential) -> list[Manifest]:
    """Builds the variables of a container that runs the initializer: ours, the platform's, the source's."""
    env = {entry.get("name"): entry for entry in (*_ENV, *download.env)}
    if isinstance(source, HuggingFaceSource):
        for name, patterns in (("STORAGE_ALLOW_PATTERNS", source.allow), ("STORAGE_IGNORE_PATTERNS", source.ignore)):
            if patterns:
                env[name] = {"name": name, "value": _escape_expansion(json.dumps(sorted(patterns)))}
    env |= {entry["name"]: entry for entry in credential.env}
    return [*env.values()]


def _find_certificates(env: list[Manifest]) -> tuple[str, str] | None:
    """Finds the ConfigMap with the certificates that variables name, and its directory; None if no variable does."""
    values = {manifests.text(entry, "name"): manifests.text(entry, "value") for entry in env}
    name = values.get(BUNDLE_NAME)
    return (name, values.get(BUNDLE_DIRECTORY) or "/etc/ssl/custom-certs") if name else None


def _escape_expansion(value: str) -> str:
    """Escapes a value that must stay unchanged, because Kubernetes expands $(NAME) in args and env."""
    return value.replace("$", "$$")


def _build_volumes(spec: DownloadSpec, env: list[Manifest]) -> tuple[list[JSON], list[JSON]]:
    """Builds the volumes of the pod and the mounts of the download container."""
    volumes: list[JSON] = [
        {"name": "weights", "persistentVolumeClaim": {"claimName": spec.claim}},
        {"name": "scratch", "emptyDir": {}},
        {"name": _SCRIPTS_VOLUME, "configMap": {"name": spec.scripts}},
    ]
    mounts: list[JSON] = [
        {"name": "weights", "mountPath": MOUNT},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108  # an emptyDir
        _SCRIPTS_MOUNT,
    ]
    bundle = _find_certificates(env)
    if bundle:
        volumes.append({"name": "certificates", "configMap": {"name": bundle[0]}})
        mounts.append({"name": "certificates", "mountPath": bundle[1], "readOnly": True})
    return [*volumes, *spec.credential.volumes], [*mounts, *spec.credential.mounts]


def find_failure(job: Manifest) -> JobFailure | None:
    """Finds why an observed Job failed; None where it has not."""
    failed = manifests.condition(job, "Failed")
    if failed.get("status") != "True":
        return None
    code = _CODE.search(manifests.text(failed, "message"))
    reason = manifests.text(failed, "reason")
    if reason == "PodFailurePolicy" and code:
        return _BY_CODE.get(int(code[1]), JobFailure.UNKNOWN)
    has_short_deadline = manifests.integer(job, "spec.activeDeadlineSeconds") <= SECONDS_WITHOUT_POD
    is_refused = has_short_deadline and needs_privileges(job) and not has_had_pods(job)
    if reason == "DeadlineExceeded" and (is_refused or is_without_pods(job)):
        return JobFailure.NO_POD
    return _BY_REASON.get(reason, JobFailure.UNKNOWN)


def find_jobs_of_download(
    writer: ObjectWriter, namespace: str, claim: str, source: DownloadedSource
) -> tuple[str, ...]:
    """Lists the observed Jobs that fetch the same bytes to the same claim, whatever their settings are."""
    download = (namespace, [build_download_args(source)], [{"claimName": claim}])
    return tuple(
        key
        for key, observed in sorted(writer.observed.items())
        if key.startswith(JOB_PREFIX) and _identify_download(read_written(observed)) == download
    )


def _identify_download(job: Manifest) -> tuple[object, ...]:
    pod = manifests.mapping(job, "spec.template.spec")
    args = [container.get("args") for container in manifests.listing(pod, "containers")]
    claims = (volume.get("persistentVolumeClaim") for volume in manifests.listing(pod, "volumes"))
    return manifests.text(job, "metadata.namespace"), args, [claim for claim in claims if claim]


def find_equivalent_job(writer: ObjectWriter, job: Manifest, same_download: Iterable[str]) -> str:
    """Finds the composed resource of the Job that stands for a planned one.

    A completed Job for the same bytes and `retry` counts, whatever its settings are. Otherwise, the planned Job itself
    counts. It resumes over the files of earlier Jobs, because a Job cannot be changed.
    """
    retry = manifests.get(job, "metadata.annotations")
    for key in same_download:
        has_same_retry = manifests.get(read_written(writer.observed[key]), "metadata.annotations") == retry
        if has_same_retry and assess(writer.read(key).manifest).up:
            return key
    return JOB_PREFIX + manifests.text(job, "metadata.name")


def name_scripts(job: Manifest) -> str:
    """Returns the name of the ConfigMap with the scripts of a Job; empty where it mounts none."""
    volumes = manifests.listing(job, "spec.template.spec.volumes")
    return next((manifests.text(v, "configMap.name") for v in volumes if v.get("name") == _SCRIPTS_VOLUME), "")


def differs_in_scripts_alone(job: Manifest, other: Manifest) -> bool:
    """Tells whether two Jobs differ only in the scripts and in what belongs to them: variables, exit codes, parts."""
    return _drop_scripts(job) == _drop_scripts(other)


def _drop_scripts(job: Manifest) -> Manifest:
    pod = manifests.mapping(job, "spec.template.spec")
    containers: list[JSON] = [
        {**container, "env": [e for e in manifests.listing(container, "env") if not _is_of_scripts(e)]}
        for container in manifests.listing(pod, "containers")
    ]
    volumes: list[JSON] = [v for v in manifests.listing(pod, "volumes") if v.get("name") != _SCRIPTS_VOLUME]
    pod = {**pod, "containers": containers, "volumes": volumes}
    template = {**manifests.mapping(job, "spec.template"), "spec": pod}
    spec = {**manifests.mapping(job, "spec"), "template": template, "podFailurePolicy": None}
    spec |= dict.fromkeys(("completionMode", "completions", "parallelism"))
    deadline = manifests.integer(spec, "activeDeadlineSeconds")
    if needs_privileges(job):
        spec["activeDeadlineSeconds"] = min(deadline, SECONDS_WITHOUT_POD)
    # Earlier releases did not set the label of the model.
    labels = {**manifests.mapping(job, "metadata.labels"), names.LABEL_MODEL: None}
    metadata = {**manifests.mapping(job, "metadata"), "name": None, "labels": labels}
    return {**job, "metadata": metadata, "spec": spec}


def _is_of_scripts(variable: Manifest) -> bool:
    return manifests.text(variable, "name").startswith("MODELPLANE_")


def find_write_failures(writer: ObjectWriter, same_download: Iterable[str]) -> tuple[str, ...]:
    """Finds the Jobs that prove that the download may not write to its directory.

    After a Job that could not write, one Job follows for which root prepares the directory. The first Job is the proof
    until the prepared Job is observed. From then on, the prepared Job is the proof, whatever `retry` is.
    """
    return tuple(
        key
        for key in same_download
        if is_prepared(read_written(writer.observed[key]))
        or find_failure(writer.read(key).manifest) is JobFailure.NOT_WRITABLE
    )
