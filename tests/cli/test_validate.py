"""`validate`: fields, rules and references, each fault with its path and what would be right."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.cli.store import Store
from function.cli.validation import Fault, Item, check_items
from function.kube.manifests import JSON, Manifest
from function.kube.names import VERSION
from tests.cli.conftest import Live
from tests.cli.process import output_of, run, write

ENGINE: Manifest = {"name": "vLLM", "image": "engine:1"}
PROFILE: Manifest = {"name": "one", "replicaTopology": {"gpusPerNode": 1}, "engine": ENGINE}
OF_A_PROFILE = "engine, environmentSelector, lora, name, replicaTopology, restartLimit, routing"
MODEL: Manifest = {"model": {"name": "org/model"}, "huggingFace": {"repo": "org/model"}, "serving": [PROFILE]}
STAGED: Manifest = {"model": {"name": "m"}, "source": "PVC", "pvc": {"claimName": "c"}, "serving": [PROFILE]}
POOL: Manifest = {"name": "h100", "acceleratorType": "h100"}
PLACED: Manifest = {
    "modelRef": {"name": "model"},
    "deploymentRef": {"name": "run"},
    "inferenceEnvironmentRef": {"name": "east"},
    "profile": "one",
    "pool": "h200",
    "topology": {"nodes": 1, "gpusPerNode": 1},
    "replicas": 1,
}
STEPS: list[JSON] = [
    {"step": "other", "input": {"apiVersion": "other.example.org/v1", "anything": 1}},
    {
        "step": "modelplane",
        "input": {
            "apiVersion": "modelplane.fn.crossplane.io/v1beta1",
            "kind": "Defaults",
            "storageClass": "fast",
            "ttl": {"settled": "soon"},
        },
    },
]
EXISTING: Manifest = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}}}


def manifest(kind: str, name: str, spec: Manifest, namespace: str = "", version: str = VERSION) -> Manifest:
    metadata: Manifest = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(**spec: JSON) -> Manifest:
    return manifest("ModelDeployment", "run", {"modelRef": {"name": "model"}, **spec}, "team")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Manifests, and every fault that must be found in them."""

    id: str
    reason: str
    given: tuple[Manifest, ...]
    want: tuple[str, ...] = ()


def platform(kind: str, **settings: JSON) -> Manifest:
    """Return the Composition of a kind with settings of the platform."""
    ours: Manifest = {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults", **settings}
    spec: Manifest = {"compositeTypeRef": {"apiVersion": VERSION, "kind": kind}, "pipeline": [{"input": ours}]}
    return manifest("Composition", f"{kind.lower()}s", spec, version="apiextensions.crossplane.io/v1")


GOOD = manifest("ClusterModel", "model", MODEL)
KEPT = manifest("ModelCache", "kept", {"modelRef": {"name": "model"}, "environments": ["east"]}, "team")
OVER_NODES: Manifest = {**PLACED, "pool": "h100", "topology": {"nodes": 2, "gpusPerNode": 8}}
SIZED: Manifest = {"memoryPerGpu": "80Gi", "multiNodeCapable": True}
UNCLASSED = manifest(
    "InferenceEnvironment",
    "east",
    {**EXISTING, "nodePools": [{**POOL, "acceleratorCount": 8, "maxNodeCount": 2, "capabilities": SIZED}]},
)
CASES = (
    Case(id="valid", reason="what is right passes", given=(GOOD, deployment())),
    Case(
        id="unknown-field",
        reason="the API server drops it in silence",
        given=(GOOD, deployment(environmnts=2)),
        want=("spec.environmnts: is not a field; did you mean environments?",),
    ),
    Case(
        id="unknown-field-in-a-list",
        reason="the path leads into the list; what resembles nothing is answered with all that there is",
        given=(manifest("ClusterModel", "model", {**MODEL, "serving": [{**PROFILE, "zzz": {}}]}),),
        want=(f"spec.serving[0].zzz: is not a field; known are {OF_A_PROFILE}",),
    ),
    Case(
        id="open-maps",
        reason="labels and the like have no fixed fields",
        given=(GOOD, deployment(environmentSelector={"matchLabels": {"anything": "goes"}})),
    ),
    Case(
        id="crossplanes-own-field",
        reason="spec.crossplane belongs to Crossplane",
        given=(GOOD, deployment(crossplane={"compositionRef": {"name": "ours"}})),
    ),
    Case(
        id="rule-across-fields",
        reason="what CEL says in the API server is checked here too",
        given=(GOOD, deployment(modelCache={"name": "kept", "claimName": "mine"})),
        want=('spec.modelCache.claimName: "mine" is not allowed; must be left out together with name',),
    ),
    Case(
        id="unknown-kind",
        reason="another kind of our group is a slip",
        given=(manifest("ClusterModl", "model", MODEL),),
        want=(
            (
                'kind: "ClusterModl" is not known; must be one of ClusterModel, Model, InferenceEnvironment, '
                "ModelDeployment, ModelPlacement, ModelCache, ModelService (did you mean ClusterModel?)"
            ),
        ),
    ),
    Case(
        id="unknown-version",
        reason="no such version is served",
        given=(manifest("ClusterModel", "model", MODEL, version="modelplane.ai/v1"),),
        want=(
            (
                'apiVersion: "modelplane.ai/v1" is not known; must be one of modelplane.ai/v1alpha1 '
                "(did you mean modelplane.ai/v1alpha1?)"
            ),
        ),
    ),
    Case(
        id="group-missing",
        reason="Kubernetes' own group has no such kind",
        given=(manifest("ClusterModel", "model", MODEL, version="v1"),),
        want=('apiVersion: "v1" is not known; must be one of modelplane.ai/v1alpha1',),
    ),
    Case(
        id="model-missing",
        reason="a reference leads nowhere, and the nearest name is suggested",
        given=(manifest("ClusterModel", "modle", MODEL), deployment()),
        want=("spec.modelRef.name: there is no ClusterModel model; did you mean modle?",),
    ),
    Case(
        id="model-of-another-namespace",
        reason="a Model is of its deployment's namespace",
        given=(manifest("Model", "model", MODEL, "elsewhere"), deployment(modelRef={"kind": "Model", "name": "model"})),
        want=(
            (
                "spec.modelRef.name: there is no Model team/model; "
                "the one in namespace elsewhere is not for other namespaces"
            ),
        ),
    ),
    Case(
        id="nothing-to-follow", reason="where no model is given, the reference cannot be checked", given=(deployment(),)
    ),
    Case(
        id="cache-of-another-model",
        reason="a deployment would serve other weights than it names",
        given=(
            GOOD,
            manifest("ClusterModel", "other", MODEL),
            manifest("ModelCache", "kept", {"modelRef": {"name": "other"}, "environments": ["e"]}, "team"),
            deployment(modelCache={"name": "kept"}),
        ),
        want=("spec.modelCache.name: ModelCache kept keeps model other, not model; name a cache of this model",),
    ),
    Case(
        id="environment-missing",
        reason="a ModelCache would wait for it for ever",
        given=(
            GOOD,
            manifest("InferenceEnvironment", "east", EXISTING),
            manifest("ModelCache", "kept", {"modelRef": {"name": "model"}, "environments": ["eats"]}, "team"),
        ),
        want=("spec.environments[0]: there is no InferenceEnvironment eats; did you mean east?",),
    ),
    Case(
        id="claim-for-staged-weights",
        reason="weights on a claim are not downloaded to another",
        given=(manifest("ClusterModel", "model", STAGED), deployment(modelCache={"claimName": "mine"})),
        want=(("spec.modelCache.claimName: mine must be left out, as the model's weights are on the claim c already"),),
    ),
    Case(
        id="cache-without-a-class",
        reason="the planner is asked of each environment that is known",
        given=(GOOD, UNCLASSED, KEPT),
        want=(
            "spec.storage.size: required where neither the model's disk nor its vram is declared",
            (
                "spec.storage.storageClassName: a claim is required, "
                "and neither ModelCache, environment nor defaults name a storage class"
            ),
        ),
    ),
    Case(
        id="placement-without-shared-storage",
        reason="written by hand it would be stuck where a decision would have refused it",
        given=(GOOD, UNCLASSED, manifest("ModelPlacement", "by-hand", OVER_NODES, "team")),
        want=(
            (
                "spec.modelCache.storageClassName: "
                "multi-node model requires shared storage on the inference environment."
            ),
        ),
    ),
    Case(
        id="class-of-the-platform",
        reason="what the controller would take counts here, too",
        given=(
            manifest("ClusterModel", "model", {**MODEL, "resources": {"disk": "10Gi"}}),
            UNCLASSED,
            *(platform(kind, storageClassName="fast") for kind in ("ModelCache", "ModelPlacement")),
            KEPT,
            manifest("ModelPlacement", "by-hand", OVER_NODES, "team"),
        ),
        want=(),
    ),
    Case(
        id="platform-settings-missing",
        reason="Crossplane composes nothing, and no other command decides anything either",
        want=(
            (
                ": the Composition requires EnvironmentConfig platform, which does not exist, and Crossplane composes "
                "nothing until that is corrected. Give the EnvironmentConfig with -f, or correct the Composition"
            ),
        ),
        given=(
            GOOD,
            deployment(modelCache={"type": "EmptyDir"}),
            manifest(
                "Composition",
                "modeldeployments",
                {
                    "compositeTypeRef": {"apiVersion": VERSION, "kind": "ModelDeployment"},
                    "pipeline": [
                        {
                            "input": {
                                "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
                                "spec": {"environmentConfigs": [{"type": "Reference", "ref": {"name": "platform"}}]},
                            }
                        }
                    ],
                },
                version="apiextensions.crossplane.io/v1",
            ),
        ),
    ),
    Case(
        id="references-of-what-is-invalid",
        reason="one edit corrects both",
        given=(
            GOOD,
            manifest("InferenceEnvironment", "west", EXISTING),
            manifest(
                "ModelCache", "kept", {"modelRef": {"name": "model"}, "environments": ["east"], "retry": 1}, "team"
            ),
            manifest("ModelPlacement", "here", {**PLACED, "replicas": -1}, "team"),
        ),
        want=(
            "spec.environments[0]: there is no InferenceEnvironment east; did you mean west?",
            "spec.retry: 1 is not allowed; must be text, in quotes",
            "spec.inferenceEnvironmentRef.name: there is no InferenceEnvironment east; did you mean west?",
            "spec.replicas: -1 is not allowed; must be at least 0",
        ),
    ),
    Case(
        id="twice",
        reason="the later of two silently wins",
        given=(GOOD, GOOD),
        want=("metadata.name: ClusterModel model is given twice, in 0.yaml too",),
    ),
    Case(
        id="pool-missing",
        reason="a placement by hand names its pool",
        given=(
            GOOD,
            manifest("InferenceEnvironment", "east", {**EXISTING, "nodePools": [POOL]}),
            manifest("ModelPlacement", "here", PLACED, "team"),
        ),
        want=("spec.pool: InferenceEnvironment east has no pool h200; did you mean h100?",),
    ),
    Case(
        id="input-of-the-function",
        reason="a slip in a platform-wide setting concerns every model",
        given=(manifest("Composition", "ours", {"pipeline": STEPS}, version="apiextensions.crossplane.io/v1"),),
        want=(
            "spec.pipeline[1].input.storageClass: is not a field; did you mean storageClassName?",
            'spec.pipeline[1].input.ttl.settled: "soon" is not allowed; must be a duration like 30s, 10m or 1h30m',
        ),
    ),
)


def errors(found: list[Fault]) -> list[Fault]:
    """Return what is refused; what is only doubted has a table of its own."""
    return [fault for fault in found if fault.level == "error"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reports_faults(case: Case) -> None:
    found = errors(check_items([Item(m, f"{number}.yaml") for number, m in enumerate(case.given)], Store(), "default"))
    assert tuple(str(fault.problem) for fault in found) == case.want, case.reason


def test_exits_for_ci(tmp_path: Path) -> None:
    good, bad = write(tmp_path, GOOD, deployment()), write(tmp_path, GOOD, deployment(environmnts=2))
    assert "2 objects valid, 1 warning" in output_of("validate", good)
    assert run("validate", good, "--strict").returncode == 1
    done = run("validate", good, bad)
    assert (done.returncode, done.stderr) == (1, "")
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"error: {bad}:4: ClusterModel model: metadata.name: ")
    line = Path(bad).read_text().partition("environmnts")[0].count("\n") + 1
    assert f"error: {bad}:{line}: ModelDeployment team/run: spec.environmnts: is not a field" in done.stdout


def test_reads_standard_input_and_writes_json() -> None:
    done = run("validate", "-", "-o", "json", stdin=yaml.safe_dump(deployment(environmnts=2)))
    (fault,) = json.loads(done.stdout)
    assert (fault["file"], fault["path"]) == ("standard input", "spec.environmnts")


def test_follows_references_to_the_control_plane(live: Live, tmp_path: Path) -> None:
    done = run("validate", write(tmp_path, deployment()), "--live", *live())
    assert done.returncode == 1
    assert "there is no ClusterModel model" in done.stdout
    bare: Manifest = {**deployment(), "metadata": {"name": "run"}}
    assert "ModelDeployment assistants/run" in run("validate", write(tmp_path, bare), "--live", *live()).stdout


def sized(**spec: JSON) -> Manifest:
    """Return the model with a profile of one GPU of 40Gi."""
    topology: Manifest = {"gpusPerNode": 1, "requires": {"memoryPerGpu": "40Gi"}}
    return manifest("ClusterModel", "model", {**MODEL, "serving": [{**PROFILE, "replicaTopology": topology}], **spec})


def pools(*each: Manifest, **spec: JSON) -> Manifest:
    return manifest("InferenceEnvironment", "east", {**EXISTING, "nodePools": list(each), **spec})


def nested(*each: Manifest) -> Manifest:
    cluster: Manifest = {"source": "Existing", "existing": {"secretRef": {"name": "k"}, "nodePools": list(each)}}
    return manifest("InferenceEnvironment", "east", {"cluster": cluster})


NODES: Manifest = {"acceleratorType": "h100", "acceleratorCount": 8, "maxNodeCount": 2}
LABELLED: Manifest = {"name": "a", **NODES, "labels": {"example.org/pool": "a"}}
SHARED: Manifest = {"mode": "Shared", "storageClassName": "shared", "sharedClaim": {"size": "50Gi"}}
WIDE: Manifest = {**LABELLED, "capabilities": {"memoryPerGpu": "80Gi", "multiNodeCapable": True}}
UNSHAPED: Manifest = {"name": "one", "engine": {**ENGINE, "version": "0.20.0"}}
MODEL_OF_IMAGE: Manifest = {"model": {"name": "m"}, "source": "OCI", "serving": [PROFILE]}
DEFAULT_CLASS = '"" leaves claims to the cluster\'s default class, and many of those cannot do ReadWriteMany; name one'
BOTH = (
    "claim model-cache of InferenceEnvironment east has 50Gi, and the models that share it need 60Gi: model 40Gi, "
    "other 20Gi"
)


def two_nodes(name: str, **spec: JSON) -> Manifest:
    """Return a model of a repository of its own with a profile of two nodes."""
    parallelism: Manifest = {"tensor": 8, "pipeline": 2}
    topology: Manifest = {"nodes": 2, "gpusPerNode": 8, "parallelism": parallelism}
    engine: Manifest = {"name": "vLLM", "image": "engine:1", "version": "0.20.0"}
    serving: list[JSON] = [{"name": "one", "replicaTopology": topology, "engine": engine}]
    return manifest("ClusterModel", name, {**MODEL, "huggingFace": {"repo": f"o/{name}"}, "serving": serving, **spec})


DOUBTS = (
    Case(
        id="bytes",
        reason="80 is a number of bytes, and no GPU has so few",
        given=(pools({**LABELLED, "capabilities": {"memoryPerGpu": 80}}),),
        want=("spec.nodePools[0].capabilities.memoryPerGpu: 80 is a number of bytes; was 80Gi meant?",),
    ),
    Case(
        id="bytes-as-text",
        reason="a quantity without its unit",
        given=(sized(resources={"disk": "60"}),),
        want=("spec.resources.disk: 60 is a number of bytes; was 60Gi meant?",),
    ),
    Case(
        id="weights-beyond-the-gpus",
        reason="27 billion parameters of two bytes on one GPU of 40Gi, of which engines use 36",
        given=(sized(resources={"disk": "55Gi"}),),
        want=(
            (
                "spec.serving[one].replicaTopology: 1 GPU of 40Gi can hold 36Gi of weights, "
                "and spec.resources.disk is 55Gi; if engines do not load all of it, set spec.resources.vram"
            ),
        ),
    ),
    Case(
        id="memory-beyond-the-gpus",
        reason="the model asks for more than the GPUs of its profile have",
        given=(sized(resources={"vram": "60Gi"}),),
        want=("spec.resources.vram: is 60Gi, and 1 x 40Gi of profile one are 40Gi",),
    ),
    Case(id="weights-within-the-gpus", reason="one that fits", given=(sized(resources={"disk": "30Gi"}),)),
    Case(
        id="unlabelled-pool",
        reason="nothing binds its pods to its nodes, and another pool has GPUs too",
        given=(pools(LABELLED, {"name": "b", **NODES}),),
        want=(
            (
                "spec.nodePools: pool b has no label that another pool lacks, so pods may start on its nodes, "
                "with other GPUs than are counted; give each pool labels that only its nodes have"
            ),
        ),
    ),
    Case(
        id="unlabelled-nested-pools",
        reason="the path is the author's",
        given=(nested(LABELLED, {"name": "b", **NODES}),),
        want=(
            (
                "spec.cluster.existing.nodePools: pool b has no label that another pool lacks, so pods may start on "
                "its nodes, with other GPUs than are counted; give each pool labels that only its nodes have"
            ),
        ),
    ),
    Case(id="one-pool", reason="the GPUs alone say which nodes", given=(pools({"name": "b", **NODES}),)),
    Case(
        id="shared-claim-too-small",
        reason="all models of a namespace share 50Gi, and this one takes 60",
        given=(
            manifest("ClusterModel", "model", {**MODEL, "resources": {"disk": "60Gi"}}),
            pools(LABELLED, storage=SHARED),
        ),
        want=(
            (
                "spec.resources.disk: is 60Gi, and the claim model-cache that all models share on "
                "InferenceEnvironment east has 50Gi"
            ),
        ),
    ),
    Case(
        id="empty-dir",
        reason="without a claim each start of a pod is a download",
        given=(sized(resources={"disk": "30Gi"}), deployment()),
        want=("spec.modelCache: is EmptyDir: every pod start downloads 30Gi again",),
    ),
    Case(
        id="empty-dir-of-several-replicas",
        reason="a profile without a shape gets one node of this pool, and each of four replicas downloads",
        given=(
            manifest("ClusterModel", "model", {**MODEL, "serving": [UNSHAPED], "resources": {"vram": "60Gi"}}),
            UNCLASSED,
            deployment(scaling={"fixed": {"replicas": 4}}),
        ),
        want=(("spec.modelCache: is EmptyDir: every pod start of each of 4 replicas downloads the weights again"),),
    ),
    Case(
        id="claim-sized-by-gpu-memory",
        reason="2 x 8 GPUs of 80Gi",
        given=(two_nodes("model"), pools(WIDE, storage={"storageClassName": "rwx"}), deployment()),
        want=(
            (
                "spec.modelCache: the claim asks for 1280Gi, the GPUs' memory; set spec.resources.disk of "
                "ClusterModel model"
            ),
        ),
    ),
    Case(
        id="no-class-for-several-nodes",
        reason="the only environment has no shared storage, and the model needs it",
        given=(two_nodes("model", resources={"disk": "9Gi"}), pools(WIDE), deployment()),
        want=(
            (
                "spec.modelRef: multi-node model requires shared storage on the inference environment. Set "
                "spec.storage.storageClassName of InferenceEnvironment east to a ReadWriteMany class"
            ),
        ),
    ),
    Case(
        id="unknown-accelerator",
        reason="a slip of the pen: the letter O for the digit 0",
        given=(
            manifest(
                "ClusterModel",
                "model",
                {
                    **MODEL,
                    "serving": [
                        {**PROFILE, "replicaTopology": {"gpusPerNode": 1, "requires": {"acceleratorType": "H10O"}}}
                    ],
                },
            ),
            pools({**LABELLED, "acceleratorType": "H100"}),
        ),
        want=(("spec.serving[one].replicaTopology.requires.acceleratorType: no pool has h10o; did you mean h100?"),),
    ),
    Case(
        id="default-class",
        reason="claims are ReadWriteMany unless something else is set",
        given=(
            pools(LABELLED, storage={"storageClassName": ""}),
            two_nodes("model", resources={"disk": "9Gi"}),
            deployment(modelCache={"type": "PVC", "storageClassName": "", "accessMode": "ReadWriteMany"}),
        ),
        want=(f"spec.storage.storageClassName: {DEFAULT_CLASS}", f"spec.modelCache.storageClassName: {DEFAULT_CLASS}"),
    ),
    Case(
        id="default-class-for-one-node",
        reason="any class can do ReadWriteOnce",
        given=(pools(LABELLED, storage={"storageClassName": "", "accessMode": "ReadWriteOnce"}),),
    ),
    Case(
        id="shared-claim-without-disk",
        reason="50Gi, and 2 x 8 GPUs of 80Gi bound what is kept there",
        given=(two_nodes("model"), pools(WIDE, storage=SHARED), deployment()),
        want=(
            (
                "spec.modelCache: claim model-cache of InferenceEnvironment east has 50Gi, and the weights may need "
                "up to 1280Gi; set spec.resources.disk of ClusterModel model"
            ),
        ),
    ),
    Case(
        id="shared-claim-for-two-models",
        reason="each fits 50Gi, both do not; a model that each pod downloads takes no room",
        given=(
            two_nodes("model", resources={"disk": "40Gi"}),
            two_nodes("other", resources={"disk": "20Gi"}),
            pools(WIDE, storage=SHARED),
            deployment(modelCache={"size": "45Gi"}),
            manifest("ModelDeployment", "second", {"modelRef": {"name": "other"}}, "team"),
            manifest("ModelDeployment", "elsewhere", {"modelRef": {"name": "other"}}, "else"),
        ),
        want=(
            (
                "spec.modelCache.size: has no effect, as all models of a namespace share claim model-cache; the "
                "spec.storage of InferenceEnvironment east decides"
            ),
            f"spec.modelRef: {BOTH}",
            f"spec.modelRef: {BOTH}",
        ),
    ),
    Case(
        id="claim-for-an-image",
        reason="nodes pull it",
        given=(
            manifest("ClusterModel", "model", {**MODEL_OF_IMAGE, "oci": {"image": f"example.org/m@sha256:{'0' * 64}"}}),
            deployment(modelCache={"type": "PVC"}),
        ),
        want=("spec.modelCache.type: has no effect, as there is no claim: nodes pull the model's image",),
    ),
)


@pytest.mark.parametrize("case", DOUBTS, ids=lambda case: case.id)
def test_reports_warnings(case: Case) -> None:
    found = check_items([Item(m, f"{number}.yaml") for number, m in enumerate(case.given)], Store(), "default")
    assert errors(found) == [], case.reason
    assert tuple(str(fault.problem) for fault in found) == case.want, case.reason


def test_checks_names_and_environment_configs(tmp_path: Path) -> None:
    config: Manifest = {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": "Platform_Defaults"},
        "data": {"modelplane": {"storageClas": "fast", "ttl": {"settled": "soon"}}},
    }
    done = run("validate", write(tmp_path, config), "-o", "json")
    assert done.returncode == 1
    assert [fault["path"] for fault in json.loads(done.stdout)] == [
        "data.modelplane.storageClas",
        "data.modelplane.ttl.settled",
        "metadata.name",
    ]


def test_quiet_prints_only_faults(tmp_path: Path) -> None:
    doubtful = write(tmp_path, pools({**LABELLED, "capabilities": {"memoryPerGpu": 80}}))
    assert "was 80Gi meant" in output_of("validate", doubtful)
    assert output_of("validate", doubtful, "-q") == ""
    done = run("validate", doubtful, write(tmp_path, manifest("ClusterModel", "empty", {})), "-q")
    assert done.returncode == 1
    assert all(line.startswith("error: ") for line in done.stdout.splitlines())
    assert "was 80Gi meant" in run("validate", doubtful, "-q", "--strict").stdout, "a warning is a fault there"


def test_takes_files_as_arguments_or_options(tmp_path: Path) -> None:
    file = write(tmp_path, deployment())
    assert output_of("validate", "-f", file) == output_of("validate", file) == "1 object valid\n"
    nothing = run("validate")
    assert (nothing.returncode, "FILE" in nothing.stderr) == (2, True)
