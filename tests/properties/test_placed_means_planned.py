"""What is placed can be planned, and what could be planned is placed: the composers agree about storage in any world.

The hardware of these worlds always suffices and every environment is Ready, so that storage alone decides. Whether it
can be planned is asked of a ModelPlacement written by hand, through the composer that carries placements out.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from function.contract import Call, Outcome, Requirement
from function.kube.manifests import JSON, Manifest, get, mapping, prune
from function.kube.names import VERSION
from function.reasons import ConditionType, Status
from tests.support.plane import reconciled

WORLDS = 2000
NAMESPACE = "team"
MODES = st.sampled_from([None, "ReadWriteMany", "ReadWriteOnce"])
CLASSES = st.sampled_from([None, "", "fast"])
# As cachekey.py documents it, for the first of the sources below.
HELD = "models/" + hashlib.sha256(b'["hf://a/b","main",[],[]]').hexdigest()[:16]
ACCOUNTS = st.sampled_from([None, None, prune({"serviceAccountName": "loader"})])
SIZES = st.sampled_from([None, "300Gi", "90Gi"])


# What composites of a kind asked for in an earlier world: mostly the same, and a third of the time.
_ASKED: dict[tuple[str, ...], Mapping[str, Requirement]] = {}


@dataclass(frozen=True, slots=True)
class World:
    """Manifests, and what the platform set."""

    model: Manifest
    deployment: Manifest
    environments: tuple[Manifest, ...]
    cache: Manifest | None
    defaults: Manifest

    def call(self, xr: Manifest) -> Outcome:
        """Return the outcome of a composite that sees this world."""
        there = [self.model, *self.environments, *([] if self.cache is None else [self.cache])]
        paths = ("kind", "spec.inferenceEnvironmentRef.name", "spec.modelCache.name")
        who = tuple(str(get(xr, path)) for path in paths)
        _, outcome = reconciled(Call(xr=xr, input=self.defaults), there, _ASKED.get(who))
        _ASKED[who] = outcome.requirements
        return outcome


def _object(kind: str, name: str, spec: Manifest, status: Manifest | None = None, namespace: str = "") -> Manifest:
    metadata: Manifest = prune({"name": name, "namespace": namespace or None})
    return prune({"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": status})


SOURCES: tuple[Manifest, ...] = (
    {"huggingFace": {"repo": "a/b"}},
    {"source": "URI", "uri": {"uri": "gs://bucket/model"}},
    {"source": "URI", "uri": {"uri": "s3://bucket/model"}},
    {"source": "OCI", "oci": {"image": "example/model:1"}},
    {"source": "PVC", "pvc": {"claimName": "staged"}},
)


@st.composite
def models(draw: st.DrawFn) -> Manifest:
    engine: Manifest = {"name": "vLLM", "image": "vllm/vllm-openai:v0.12.0"}
    profiles: list[JSON] = []
    vram = draw(st.sampled_from([None, "100Gi", "1000Gi"]))
    for name in draw(st.sampled_from([("a",), ("a", "b")])):
        nodes = draw(st.sampled_from([1, 2] if vram is None else [1, 2, None]))
        topology: Manifest | None = None if nodes is None else {"nodes": nodes, "gpusPerNode": 8}
        profiles.append(prune({"name": name, "engine": engine, "replicaTopology": topology}))
    resources = prune({"vram": vram, "disk": draw(SIZES)})
    spec: Manifest = {
        "model": {"name": "served"},
        **draw(st.sampled_from(SOURCES)),
        "resources": resources,
        "serving": profiles,
    }
    return _object("ClusterModel", "model", spec)


@st.composite
def choices(draw: st.DrawFn) -> Manifest | None:
    form = draw(st.sampled_from(["none", "managed", "managed", "managed", "claim", "cache"]))
    if form == "none":
        return None
    if form == "claim":
        return {"claimName": "mine"}
    if form == "cache":
        return {"name": "weights"}
    return prune(
        {
            "type": draw(st.sampled_from([None, "PVC", "EmptyDir"])),
            "size": draw(SIZES),
            "storageClassName": draw(CLASSES),
            "accessMode": draw(MODES),
            "retain": draw(st.booleans()),
        }
    )


@st.composite
def an_environment(draw: st.DrawFn, name: str) -> Manifest:
    memory = draw(st.sampled_from([None, "80Gi"]))
    pool: Manifest = {
        "name": "pool",
        "acceleratorCount": 8,
        "maxNodeCount": 64,
        "capabilities": prune({"memoryPerGpu": memory, "multiNodeCapable": True}),
    }
    storage = prune(
        {
            "mode": draw(st.sampled_from([None, "PerModel", "Shared"])),
            "storageClassName": draw(CLASSES),
            "accessMode": draw(MODES),
            "sizeEnforced": draw(st.sampled_from([None, None, False])),
        }
    )
    existing: Manifest = {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}}
    ready: list[JSON] = [{"type": "Ready", "status": "True"}]
    spec: Manifest = {"cluster": existing, "nodePools": [pool], "storage": storage}
    return _object("InferenceEnvironment", name, spec, {"conditions": ready})


@st.composite
def caches(draw: st.DrawFn, names: list[str]) -> Manifest | None:
    model = draw(st.sampled_from(["model", "model", "other", None]))
    if model is None:
        return None
    rows: list[JSON] = [
        prune(
            {
                "name": name,
                "phase": draw(st.sampled_from(["Ready", "Downloading"])),
                "claimName": "kept",
                "path": draw(st.sampled_from([None, HELD, HELD, "models/5e6f7a8b5e6f7a8b"])),
            }
        )
        for name in draw(st.lists(st.sampled_from(names), unique=True))
    ]
    selected = draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    spec: Manifest = {"modelRef": {"name": model}, "environments": list[JSON](selected)}
    return _object("ModelCache", "weights", spec, {"environments": rows}, NAMESPACE)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = draw(st.sampled_from([["east"], ["east", "west"]]))
    replicas = draw(st.sampled_from([1, 1, 2]))
    spec = prune(
        {
            "modelRef": {"name": "model"},
            "scaling": {"signal": "Fixed", "fixed": {"replicas": replicas}},
            "modelCache": draw(choices()),
        }
    )
    return World(
        model=draw(models()),
        deployment=_object("ModelDeployment", "chat", spec, namespace=NAMESPACE),
        environments=tuple(draw(an_environment(name)) for name in names),
        cache=draw(caches(names)),
        defaults=prune(
            {"storageClassName": draw(st.sampled_from([None, None, "default"])), "download": draw(ACCOUNTS)}
        ),
    )


def by_hand(world: World, environment: str, profile: Manifest) -> Manifest:
    """Return a placement as a user would write it by hand."""
    shape = mapping(profile, "replicaTopology")
    nodes, gpus = shape.get("nodes"), shape.get("gpusPerNode")
    if not shape:  # VRAM maths on nodes of 8 x 80 GiB: 100 GiB take 2 GPUs, 1000 GiB 13, so two nodes
        nodes, gpus = {"100Gi": (1, 2), "1000Gi": (2, 8)}[str(get(world.model, "spec.resources.vram"))]
    spec = prune(
        {
            "modelRef": {"name": "model"},
            "inferenceEnvironmentRef": {"name": environment},
            "profile": profile["name"],
            "pool": "pool",
            "topology": {"nodes": nodes, "gpusPerNode": gpus},
            "replicas": get(world.deployment, "spec.scaling.fixed.replicas"),
            "modelCache": get(world.deployment, "spec.modelCache"),
        }
    )
    return _object("ModelPlacement", "by-hand", spec, namespace=NAMESPACE)


def planned(outcome: Outcome) -> bool:
    """Tell whether a placement knows where its weights are: its status says so as soon as there is a plan."""
    resolved = {c.type: c for c in outcome.conditions}[ConditionType.REFERENCES_RESOLVED]
    return resolved.status == "True" and "storage" in outcome.status


@settings(max_examples=WORLDS, deadline=None, database=None)
@given(world=worlds())
def test_what_is_placed_can_be_planned_and_nothing_else_is_refused(world: World) -> None:
    outcome = world.call(world.deployment)
    assert not [c for c in outcome.conditions if c.status is Status.UNKNOWN], "everything was answered"
    placements = [item.manifest for key, item in outcome.composed.items() if key.startswith("placement-")]
    for placement in placements:
        assert planned(world.call(placement)), outcome.conditions
    if placements:
        return
    environments = {str(get(e, "metadata.name")): mapping(e, "spec") for e in world.environments}
    profiles = get(world.model, "spec.serving")
    assert isinstance(profiles, list)
    for name, spec in environments.items():
        pools = spec["nodePools"]
        assert isinstance(pools, list)
        for profile in profiles:
            assert isinstance(profile, dict)
            if "replicaTopology" not in profile and get(pools[0], "capabilities.memoryPerGpu") is None:
                continue  # VRAM maths needs to know the memory
            assert not planned(world.call(by_hand(world, name, profile))), outcome.conditions
