"""LoRA adapters of a deployment: downloaded beside the model, loaded by its engines, and never at its expense."""

import copy
from dataclasses import dataclass

import pytest

from function.api.inference_environment import parse_environment
from function.cli.store import Ref
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, condition, get, list_texts, listing, mapping, text
from tests.support.plane import call, manifests, only, plane, remote, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

SQL: Manifest = {"name": "sql", "source": "HuggingFace", "huggingFace": {"repo": "org/sql-lora", "revision": "main"}}
LAW: Manifest = {"name": "Org/Law.v1", "source": "URI", "uri": {"uri": "s3://adapters/law"}}
OWN: Manifest = {"name": "own", "source": "PVC", "pvc": {"claimName": "my-adapters", "path": "a/b"}}
RANK = "Container download for pod research/x failed with exit code 47 matching FailJob rule at index 0"


@dataclass(frozen=True, kw_only=True)
class Refusing(World):
    """A world in which the download of an adapter from one repository fails for good."""

    repository: str

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = World.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and self.repository in str(get(job, "spec.template.spec.containers")):
            failed: Manifest = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": RANK}
            job["status"] = {"failed": 1, "conditions": [failed]}
        return observed


@dataclass(frozen=True, kw_only=True)
class OtherClaims(World):
    """A world in which every claim was lost and made again under its name; later Jobs end a day later."""

    control: ControlPlane
    since: int

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = World.advance(self, resource, step)
        manifest = mapping(observed, "status.atProvider.manifest")
        if manifest.get("kind") == "PersistentVolumeClaim":
            mapping(manifest, "metadata")["uid"] = "another"
        is_later = len(self.control.rounds) - step >= self.since
        if manifest.get("kind") == "Job" and is_later and get(manifest, "status.completionTime"):
            mapping(manifest, "status")["completionTime"] = "2026-01-02T00:00:00Z"
        return observed


@dataclass(frozen=True, kw_only=True)
class Tokenless(World):
    """A world in which the pod of a download from a bucket waits for its Secret."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = World.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and "s3://x/y" in str(get(job, "spec.template.spec.containers")):
            job["status"] = {"active": 1, "startTime": "2026-01-01T00:00:00Z"}
        return observed


@dataclass(frozen=True, kw_only=True)
class Ending(World):
    """A world in which the namespace of an adapter's Job or Secret is being deleted for some steps."""

    kind: str
    word: str  # that only the Object of an adapter has
    steps: int

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = World.advance(self, resource, step)
        manifest = mapping(resource, "spec.forProvider.manifest")
        if manifest.get("kind") == self.kind and self.word in str(resource) and 0 < step < self.steps:
            message = (
                f'create failed: cannot apply object: {self.kind.lower()}s "x" is forbidden: unable to create new '
                "content in namespace assistants because it is being terminated"
            )
            failed: Manifest = {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": message}
            observed["status"] = {"conditions": [failed]}
        return observed


def _edit(control: ControlPlane, kind: str, path: str, value: JSON) -> None:
    ref = only(control, kind)
    changed = copy.deepcopy(control.composites[ref])
    block, _, last = path.rpartition(".")
    mapping(changed, block)[last] = value
    control.composites[ref] = changed


def _allow(control: ControlPlane, adapters: int = 4, rank: int = 16) -> None:
    (model,) = (*control.all("ClusterModel"), *control.all("Model"))
    changed = copy.deepcopy(control.composites[model])
    for profile in listing(changed, "spec.serving"):
        profile["lora"] = {"maxAdapters": adapters, "maxRank": rank}
    control.composites[model] = changed


def _name(control: ControlPlane, *adapters: Manifest) -> None:
    _edit(control, "ModelDeployment", "spec.adapters", [*adapters])


def _with_adapters(*adapters: Manifest, world: World | None = None) -> ControlPlane:
    control = plane("kimi-k2-two-nodes", world)
    _allow(control)
    _name(control, *adapters)
    control.settle()
    return control


def _placement(control: ControlPlane) -> Ref:
    return only(control, "ModelPlacement")


def _service(control: ControlPlane) -> Manifest:
    (service,) = remote(control, _placement(control), "service-").values()
    return service


def _args(service: Manifest, role: str = "template") -> tuple[str, ...]:
    (container,) = (c for c in listing(service, f"spec.{role}.containers") if c.get("name") == "main")
    return list_texts(container, "args")


def _loaded(service: Manifest, role: str = "template") -> dict[str, tuple[str, str]]:
    """Return claim and path of each adapter, by its name, as the engine of this pod finds them."""
    (container,) = (c for c in listing(service, f"spec.{role}.containers") if c.get("name") == "main")
    claims = {v["name"]: get(v, "persistentVolumeClaim.claimName") for v in listing(service, f"spec.{role}.volumes")}
    mounts = {text(m, "mountPath"): m for m in listing(container, "volumeMounts")}
    args = _args(service, role)
    start = args.index("--lora-modules") + 1 if "--lora-modules" in args else len(args)
    found: dict[str, tuple[str, str]] = {}
    for value in args[start:]:
        if value.startswith("-"):
            break
        name, _, path = value.partition("=")
        assert mounts[path]["readOnly"] is True
        found[name] = (str(claims[mounts[path]["name"]]), text(mounts[path], "subPath"))
    return found


def _rows(control: ControlPlane) -> dict[str, tuple[str, str]]:
    rows = listing(control.composites[_placement(control)], "status.adapters")
    return {text(row, "name"): (text(row, "phase"), text(row, "message")) for row in rows}


def _jobs(control: ControlPlane) -> dict[str, Manifest]:
    placement = _placement(control)
    latest = control.rounds[-1].rendered[placement]
    return {key: m for key, m in latest.remote.items() if m.get("kind") == "Job"}


def test_adapters_are_downloaded_beside_the_model_and_loaded_by_every_pod() -> None:
    control = _with_adapters(SQL, LAW, OWN)
    service = _service(control)
    claim, base = text(service, "spec.model.uri").removeprefix("pvc://").split("/", 1)
    loaded = _loaded(service)
    assert list(loaded) == ["Org/Law.v1", "own", "sql"], "in the order of their names"
    assert loaded["own"] == ("my-adapters", "a/b")
    paths = {loaded[name][1] for name in ("Org/Law.v1", "sql")}
    assert {loaded[name][0] for name in ("Org/Law.v1", "sql")} == {claim}, "on the claim of the model"
    assert len(paths | {base}) == 3
    assert all(path.startswith("models/") for path in paths), "below models/, each in a directory of its own"
    assert _loaded(service, "worker") == loaded, "every pod of a group loads them"
    assert {"--enable-lora", "--max-loras=4", "--max-lora-rank=16"} <= {*_args(service)}
    assert _rows(control) == {"Org/Law.v1": ("Ready", ""), "own": ("Ready", ""), "sql": ("Ready", "")}
    assert len(_jobs(control)) == 3, "one for the model, and one for each adapter that is downloaded"
    assert len(remote(control, _placement(control), "claim-")) == 1
    assert said(control, _placement(control), "StorageReady") == ("True", "Hydrated")


def test_a_job_of_an_adapter_knows_the_model_and_the_highest_rank() -> None:
    control = _with_adapters(SQL)
    base = text(_service(control), "spec.model.uri").split("/", 3)[3]
    ((_, job),) = ((key, job) for key, job in _jobs(control).items() if key.startswith("adapter-"))
    (container,) = listing(job, "spec.template.spec.containers")
    assert container["command"] == ["python3", "/opt/modelplane/adapter.py"]
    variables = {text(entry, "name"): entry.get("value") for entry in listing(container, "env")}
    assert variables["MODELPLANE_ADAPTER_BASE"] == f"/mnt/models/{base}"
    assert variables["MODELPLANE_MAX_RANK"] == "16"
    (rule, *_) = listing(job, "spec.podFailurePolicy.rules")
    assert get(rule, "onExitCodes.values") == [41, 42, 43, 44, 45, 47, 48, 49, 50, 61, 62, 63, 64, 65, 66]


def test_adding_one_downloads_nothing_else_again_and_changes_the_service_once() -> None:
    control = _with_adapters(SQL)
    jobs, before = _jobs(control), _service(control)
    _name(control, SQL, LAW)
    seen = [_loaded(before).keys()]
    for _ in range(20):
        control.advance()
        names = _loaded(_service(control)).keys()
        if names != seen[-1]:
            seen.append(names)
    assert seen == [{"sql"}, {"sql", "Org/Law.v1"}], "the service changes once, when the adapter is there"
    assert jobs.items() <= _jobs(control).items(), "no other Job changes"
    assert text(_service(control), "spec.model.uri") == text(before, "spec.model.uri")


def test_removing_one_removes_its_job_and_nothing_of_the_others() -> None:
    control = _with_adapters(SQL, LAW)
    claims = remote(control, _placement(control), "claim-")
    _name(control, LAW)
    control.settle()
    assert _loaded(_service(control)).keys() == {"Org/Law.v1"}
    assert len(_jobs(control)) == 2
    assert remote(control, _placement(control), "claim-") == claims
    _name(control)
    control.settle()
    assert not {"--enable-lora", "--lora-modules"} & {*_args(_service(control))}
    assert "status.adapters" not in control.composites[_placement(control)]
    assert get(control.composites[_placement(control)], "status.adapters") is None


def test_another_name_for_the_same_bytes_downloads_nothing() -> None:
    control = _with_adapters(SQL)
    jobs, before = _jobs(control), _loaded(_service(control))
    _name(control, SQL | {"name": "queries"})
    control.settle()
    assert _jobs(control) == jobs
    assert _loaded(_service(control)) == {"queries": before["sql"]}


def test_a_refused_adapter_keeps_neither_the_model_nor_other_adapters_from_starting() -> None:
    world = Refusing(repository="org/sql-lora")
    control = plane("kimi-k2-two-nodes", world)
    _allow(control)
    _name(control, SQL, LAW)
    control.settle()
    assert _loaded(_service(control)).keys() == {"Org/Law.v1"}
    phase, message = _rows(control)["sql"]
    assert phase == "Failed"
    for words in ("AdapterRankTooHigh", "lora.maxRank", "Then set retry of adapter sql to another value"):
        assert words in message
    assert said(control, _placement(control), "StorageReady") == ("False", "DownloadFailed")
    assert said(control, _placement(control), "ServiceReady") == ("True", "Serving")


def test_a_token_that_is_missing_keeps_neither_the_model_nor_an_edit_from_going_on() -> None:
    control = plane("kimi-k2-two-nodes", Tokenless(absent=frozenset({"Secret/nope"})))
    _allow(control)
    missing: Manifest = {"name": "sql", "source": "URI", "uri": {"uri": "s3://x/y", "secretRef": {"name": "nope"}}}
    _name(control, missing, LAW)
    control.settle()
    assert _loaded(_service(control)).keys() == {"Org/Law.v1"}
    assert said(control, _placement(control), "StorageReady") == ("False", "TokenMissing")
    message = text(condition(control.composites[_placement(control)], "StorageReady"), "message")
    assert message == "Adapter sql: Secret assistants/nope does not exist; create it"


@pytest.mark.parametrize(
    ("kind", "word"), [("Secret", "s3-login"), ("ConfigMap", "adapter_config.json"), ("Job", "MODELPLANE_ADAPTER_BASE")]
)
def test_a_service_waits_for_an_adapter_while_a_namespace_that_ends_refuses_its_download(kind: str, word: str) -> None:
    """The refusal passes by itself; a service without the adapter would have to be changed a minute later."""
    control = ControlPlane(renderer=Engine(call), world=Ending(kind=kind, word=word, steps=12))
    control.apply(manifests("kimi-k2-two-nodes"))
    _allow(control)
    _name(control, {"name": "sql", "source": "URI", "uri": {"uri": "s3://x/y", "secretRef": {"name": "s3-login"}}})
    said_meanwhile: set[tuple[str, str]] = set()
    loaded: list[set[str]] = []
    for _ in range(30):
        control.advance()
        if control.rounds[-1].rendered.keys() & set(control.all("ModelPlacement")):
            said_meanwhile.add(said(control, _placement(control), "StorageReady"))
            services = remote(control, _placement(control), "service-").values()
            loaded += [set(_loaded(service)) for service in services]
    assert loaded, "the service is written in the end"
    assert all(names == {"sql"} for names in loaded)
    assert not {reason for _, reason in said_meanwhile} & {"DownloadFailed", "TokenMissing"}


def test_an_adapter_of_a_cache_is_downloaded_again_with_its_claim() -> None:
    control = plane("model-cache")
    _allow(control)
    _name(control, SQL)
    control.settle()
    control.world = OtherClaims(control=control, since=len(control.rounds))
    control.settle()
    (row,) = listing(control.composites[only(control, "ModelPlacement")], "status.adapters")
    assert (row["claimUid"], row["completedAt"]) == ("another", "2026-01-02T00:00:00Z")


def test_adapters_that_no_profile_allows_download_nothing() -> None:
    control = plane("gemma-one-gpu")
    _edit(control, "InferenceEnvironment", "spec.storage", {"storageClassName": "shared"})
    _edit(control, "ClusterModel", "spec.resources.disk", "60Gi")
    control.settle()
    _name(control, SQL)
    control.settle()
    assert said(control, _placement(control), "ServiceAccepted") == ("False", "Rejected")
    assert not remote(control, _placement(control), "claim-")
    assert not _jobs(control)


def test_volumes_of_adapters_are_reserved() -> None:
    control = plane("kimi-k2-two-nodes")
    environment = copy.deepcopy(control.composites[only(control, "InferenceEnvironment")])
    mount: Manifest = {"name": "lora-0", "mountPath": "/mnt/lora"}
    listing(environment, "spec.nodePools")[0]["pod"] = {
        "volumes": [{"name": "lora-0", "emptyDir": {}}],
        "volumeMounts": [mount],
    }
    said_of_volume = [str(problem) for problem in parse_environment(environment, BUILT_IN).problems]
    assert ["no lora-0, lora-1 and so on, which adapters have" in problem for problem in said_of_volume] == [True]
    listing(environment, "spec.nodePools")[0]["pod"] = {
        "volumes": [{"name": "own", "emptyDir": {}}],
        "volumeMounts": [{"name": "own", "mountPath": "/mnt/lora"}],
    }
    said_of_mount = [str(problem) for problem in parse_environment(environment, BUILT_IN).problems]
    assert ["must be at another path than that of LoRA adapters" in problem for problem in said_of_mount] == [True]


def test_a_loaded_adapter_stays_while_its_replacement_cannot_be_downloaded() -> None:
    control = _with_adapters(SQL)
    before = _service(control)
    control.world = Refusing(repository="org/worse-lora")
    _name(control, SQL | {"huggingFace": {"repo": "org/worse-lora"}})
    control.settle()
    assert _service(control) == before
    assert said(control, _placement(control), "StorageReady") == ("False", "DownloadFailed")
    _name(control, SQL)
    control.settle()
    assert _service(control) == before
    assert said(control, _placement(control), "StorageReady") == ("True", "Hydrated")


def test_a_profile_that_allows_too_few_is_refused_and_what_runs_stays() -> None:
    control = _with_adapters(SQL)
    before, jobs = _service(control), _jobs(control)
    _allow(control, adapters=1)
    _name(control, SQL, LAW)
    control.settle()
    assert _loaded(_service(control)) == _loaded(before)
    assert _jobs(control) == jobs
    accepted = condition(control.composites[_placement(control)], "ServiceAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Rejected")
    said_words = (
        "spec.adapters: profile h200-two-nodes allows 1 LoRA adapter (lora.maxAdapters), and the deployment has 2"
    )
    assert said_words in text(accepted, "message")


def test_adapters_without_a_plan_for_the_weights_change_nothing() -> None:
    control = _with_adapters(SQL, OWN)
    before, rows = _service(control), _rows(control)
    _edit(control, "ModelDeployment", "spec.modelCache", {"type": "EmptyDir"})
    control.settle()
    assert _service(control) == before
    assert _rows(control).keys() == rows.keys()


def test_an_image_can_only_have_adapters_on_a_claim() -> None:
    control = plane("oci-image")
    _allow(control)
    _name(control, OWN)
    control.settle()
    assert _loaded(_service(control)) == {"own": ("my-adapters", "a/b")}
    before = _service(control)
    _name(control, OWN, SQL)
    control.settle()
    assert _service(control) == before
    ready = condition(control.composites[_placement(control)], "StorageReady")
    assert "only source PVC is possible" in text(ready, "message")


def test_several_that_are_missing_are_named() -> None:
    world = Refusing(repository="org/sql-lora")
    control = plane("kimi-k2-two-nodes", world)
    _allow(control)
    _name(control, SQL, SQL | {"name": "again"}, LAW)
    control.settle()
    message = text(condition(control.composites[_placement(control)], "StorageReady"), "message")
    assert message.startswith("Adapter again: Job ")
    assert message.endswith(". Not downloaded either: sql")
    assert len(_jobs(control)) == 3, "two names for one repository are one download"


def test_without_adapters_lora_changes_no_service() -> None:
    control = plane("kimi-k2-two-nodes")
    before = _service(control)
    _allow(control)
    control.settle()
    assert _service(control) == before


def test_one_node_gets_a_claim_for_its_adapters_and_an_author_may_not_want_none() -> None:
    control = plane("gemma-one-gpu")
    assert text(_service(control), "spec.model.uri").startswith("hf://")
    _edit(control, "InferenceEnvironment", "spec.storage", {"storageClassName": "shared"})
    _edit(control, "ClusterModel", "spec.resources.disk", "60Gi")
    _allow(control)
    _name(control, SQL)
    control.settle()
    claim = text(_service(control), "spec.model.uri").removeprefix("pvc://").partition("/")[0]
    assert _loaded(_service(control))["sql"][0] == claim
    _edit(control, "ModelDeployment", "spec.modelCache", {"type": "EmptyDir"})
    before = _service(control)
    control.settle()
    assert _service(control) == before, "what runs stays"
    ready = condition(control.composites[_placement(control)], "StorageReady")
    assert text(ready, "message") == "spec.modelCache.type: adapters are downloaded to a claim; use PVC"


@pytest.mark.parametrize("story", ["kimi-k2-two-nodes", "deepseek-data-parallel", "llama-405b-sglang"])
def test_every_way_to_start_an_engine_takes_adapters(story: str) -> None:
    control = plane(story)
    _allow(control)
    _name(control, SQL, OWN)
    control.settle()
    flag, slots = (
        ("--lora-paths", "--max-loras-per-batch=4") if "sglang" in story else ("--lora-modules", "--max-loras=4")
    )
    for role in ("template", "worker"):
        args = _args(_service(control), role)
        start = args.index(flag)
        expected = [flag, "own=/mnt/lora/0", "sql=/mnt/lora/1", "--enable-lora", slots, "--max-lora-rank=16"]
        assert [*args[start : start + 6]] == expected


def test_adapters_of_a_named_cache_are_kept_on_its_claim() -> None:
    control = plane("model-cache")
    _allow(control)
    _name(control, SQL)
    control.settle()
    placement = _placement(control)
    (service,) = remote(control, placement, "service-").values()
    claim, base = text(service, "spec.model.uri").removeprefix("pvc://").split("/", 1)
    on_claim, path = _loaded(service)["sql"]
    assert on_claim == claim
    assert path != base
    assert not remote(control, placement, "claim-"), "the claim is the cache's"
    (key,) = remote(control, placement, "adapter-")
    objects = control.rounds[-1].rendered[placement].composed
    assert get(objects[key], "spec.managementPolicies") == ["Observe"], "it stays, as the bytes do"


def test_a_refused_adapter_of_a_named_cache_is_not_taken_for_the_model() -> None:
    control = plane("model-cache", Refusing(repository="org/sql-lora"))
    _allow(control)
    _name(control, SQL)
    control.settle()
    placement = _placement(control)
    assert said(control, placement, "StorageReady") == ("False", "DownloadFailed")
    (row,) = listing(control.composites[placement], "status.adapters")
    assert row["phase"] == "Failed"


@pytest.mark.parametrize("rank", [8, 32])
def test_another_highest_rank_verifies_the_adapter_again(rank: int) -> None:
    control = _with_adapters(SQL)
    before = _loaded(_service(control))
    _allow(control, rank=rank)
    control.settle()
    assert _loaded(_service(control)).keys() == before.keys()
    assert _loaded(_service(control)) != before, "an adapter that is complete for one rank is not for another"
    assert f"--max-lora-rank={rank}" in _args(_service(control))
