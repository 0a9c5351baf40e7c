"""With which Secrets images are pulled: copies of the control plane's, and what the cluster has already."""

from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from tests.support.plane import manifests, only, plane, remote
from tests.support.remote_scene import composed_service, edit_environment, edit_model, load_scene, set_field
from tests.weights.test_shared_jobs import Slow
from tools.control_plane import ControlPlane
from tools.world import World

STORY = "kimi-k2-two-nodes"
OWN: JSON = [{"name": "team-registry", "namespace": "builds"}]
PLATFORMS: JSON = [{"name": "there-already"}, {"secretRef": {"name": "mirror"}}]
PULL, TOKEN = "pull-", "token-"


def settled(cache: Manifest | None = None, world: World | None = None) -> ControlPlane:
    """Return a plane on which the engine and the environment name Secrets."""
    control, found = ControlPlane(renderer=plane(STORY).renderer, world=world or World()), manifests(STORY)
    for manifest in found:
        if manifest["kind"] == "ClusterModel":
            set_field(manifest, "spec.serving.0.engine.imagePullSecrets", OWN)
        if manifest["kind"] == "InferenceEnvironment":
            set_field(manifest, "spec.imagePullSecrets", PLATFORMS)
        if manifest["kind"] == "ModelDeployment" and cache:
            set_field(manifest, "spec.modelCache", cache)
    control.apply(found)
    control.settle()
    return control


def copies(control: ControlPlane, prefix: str) -> dict[str, tuple[str, str]]:
    """Return whose copies there are: where each comes from, by its name on the cluster."""
    composed = control.rounds[-1].rendered[only(control, "ModelPlacement")].composed
    found = {}
    for key, item in composed.items():
        secret = mapping(item, "spec.forProvider.manifest")
        if key.startswith(prefix):
            assert secret["type"] == "kubernetes.io/dockerconfigjson"
            assert text(secret, "metadata.namespace") == "assistants", "the Secret is in the namespace of the pods"
            (reference,) = listing(item, "spec.references")
            assert text(reference, "toFieldPath") == "data[.dockerconfigjson]"
            origin = mapping(reference, "patchesFrom")
            found[text(secret, "metadata.name")] = text(origin, "namespace"), text(origin, "name")
    return found


def pulled_with(pod: Manifest) -> list[str]:
    return [text(entry, "name") for entry in listing(pod, "imagePullSecrets")]


def test_pods_use_copied_and_existing_pull_secrets() -> None:
    control = settled()
    found = copies(control, PULL)
    assert sorted(found.values()) == [("builds", "team-registry"), ("modelplane-system", "mirror")]
    (made,) = remote(control, only(control, "ModelPlacement"), "service-").values()
    for part in ("template", "worker"):
        assert pulled_with(mapping(made, f"spec.{part}")) == sorted([*found, "there-already"]), part


def test_job_uses_pull_secrets_of_environment_until_done() -> None:
    control = settled()
    placement = only(control, "ModelPlacement")
    (job,) = remote(control, placement, "job-").values()
    names = pulled_with(mapping(job, "spec.template.spec"))
    assert names[0] == "there-already"
    assert len(names) == 2
    there = [set(r.rendered[placement].composed) for r in control.rounds if placement in r.rendered]
    assert any(f"{TOKEN}{names[1]}" in keys for keys in there), "the Secret is copied for the download"
    assert copies(control, TOKEN) == {}, "the copy for the download is deleted when the weights are verified"
    assert names[1] not in copies(control, PULL), "the pods of the engine have their own copy"


def test_shared_download_has_name_of_no_placement() -> None:
    names = {}
    caches: tuple[Manifest, ...] = ({"type": "PVC", "retain": True}, {"claimName": "mine"})
    for cache in caches:
        control = settled(cache)
        placement = only(control, "ModelPlacement")
        (job,) = remote(control, placement, "job-").values()
        names[str(cache)] = pulled_with(mapping(job, "spec.template.spec"))[1]
        assert names[str(cache)].startswith("weights-")
    assert len(set(names.values())) == 2, "a download to another claim is another download"


def test_reports_missing_pull_secret() -> None:
    control = settled(world=Slow(absent=frozenset({"Secret/mirror"})))
    placement = control.composites[only(control, "ModelPlacement")]
    said = text(condition(placement, "StorageReady"), "message")
    assert said == "Secret modelplane-system/mirror (key .dockerconfigjson) does not exist; create it"
    asked = load_scene("gemma-one-gpu").edited(edit_environment("imagePullSecrets", PLATFORMS)).settled()
    for manifest in asked.observed.values():
        if text(manifest, "spec.forProvider.manifest.kind") == "Secret":
            missing = 'cannot resolve resource references: cannot get referenced resource: secrets "mirror" not found'
            set_field(manifest, "status.conditions", [{"type": "Synced", "status": "False", "message": missing}])
        elif text(manifest, "spec.forProvider.manifest.kind") == "LLMInferenceService":
            set_field(
                manifest, "status.atProvider.manifest.status", {"conditions": [{"type": "Ready", "status": "False"}]}
            )
    assert "Images cannot be pulled: Secret modelplane-system/mirror" in asked.condition("ServiceReady").message


def test_new_pull_secret_reaches_running_service() -> None:
    before = composed_service(load_scene(STORY))
    after = composed_service(load_scene(STORY).edited(edit_model("serving.0.engine.imagePullSecrets", OWN)))
    assert pulled_with(mapping(before, "spec.template")) == []
    (name,) = pulled_with(mapping(after, "spec.template"))
    assert name != "team-registry", "the author of a model does not name objects of the cluster"
    changed = {key for key in mapping(after, "spec") if get(after, f"spec.{key}") != get(before, f"spec.{key}")}
    assert changed == {"template", "worker"}


def test_variable_from_existing_secret_copies_nothing() -> None:
    sources: tuple[Manifest, ...] = (
        {"secretKeyRef": {"name": "keys", "key": "k", "optional": True}},
        {"configMapKeyRef": {"name": "settings", "key": "k", "optional": False}},
    )
    env: JSON = [{"name": f"OF_{i}", "valueFrom": source} for i, source in enumerate(sources)]
    made = load_scene(STORY).edited(edit_model("serving.0.engine.env", env))
    for part in ("template", "worker"):
        (main,) = listing(composed_service(made), f"spec.{part}.containers")
        assert [entry for entry in listing(main, "env") if text(entry, "name").startswith("OF_")] == env
    assert not {*made.composed(PULL), *made.composed(TOKEN)}
