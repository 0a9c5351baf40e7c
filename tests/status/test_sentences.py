"""One sentence for each refusal, as it appears in the message of the condition."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage, ModelCache, ModelCacheChoice
from function.domain.environment import Environment
from function.domain.model import EngineName, ModelRef
from function.domain.placement import Placement
from function.reasons import Refused, Scheduled, Status
from function.scheduling.verdicts import SchedulingRequest
from tests.support.builders import engine, model, placement, pool, profile, requires, selector, shape
from tests.support.decisions import FRONTIER, KIMI, MINE, SMALL, explained, request, site


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    reason: str
    want: Scheduled | Refused
    says: tuple[str, ...]
    request: SchedulingRequest = request()
    environments: tuple[Environment, ...] = ()
    placements: tuple[Placement, ...] = ()


EMPTY_DIR = CreatedStorage(type=CacheType.EMPTY_DIR)
RWO = "ReadWriteOnce"
ELSEWHERE = ModelCache(
    namespace="team", name="weights", model=ModelRef(kind=KIMI.kind, name=KIMI.name), environments=("b",)
)
CASES = (
    Case(
        id="placed",
        reason="the message has the environment, the profile and the shape",
        want=Scheduled.PLACED,
        environments=(site("a", FRONTIER),),
        says=("Placed on a (profile multinode, pool frontier, 1 replica of 2 nodes x 8 GPUs)",),
    ),
    Case(
        id="placed-though-others-were-refused",
        reason="refusals are not reported once enough placements exist",
        want=Scheduled.PLACED,
        environments=(site("a"), site("b", FRONTIER)),
        says=("Placed on b (profile multinode, pool frontier, 1 replica of 2 nodes x 8 GPUs)",),
    ),
    Case(
        id="placed-while-the-old-stays",
        reason="the message names both placements during a move",
        want=Scheduled.PLACED,
        environments=(site("b", FRONTIER),),
        placements=(MINE,),
        says=(
            (
                "Placed on b (profile multinode, pool frontier, 1 replica of 2 nodes x 8 GPUs); "
                "kept on a until the replacements are Ready"
            ),
        ),
    ),
    Case(
        id="unreadable-placement",
        reason="an unreadable placement counts, but has no details",
        want=Scheduled.PLACED,
        environments=(site("a", FRONTIER),),
        placements=(replace(MINE, shape=None),),
        says=("Placed on a",),
    ),
    Case(
        id="partially-placed",
        reason="some of the desired environments have placements",
        want=Scheduled.PARTIALLY_PLACED,
        request=request(2),
        environments=(site("a", FRONTIER), site("b", pool("medium", multi_node=False, memory="141Gi"))),
        says=(
            "1/2 environments can run kimi-k2-instruct (2 desired): 1 has no pool that satisfies the requirements.",
            "b: profile multinode: pool medium is not multiNodeCapable, 2 nodes required",
            (
                "If a network connects its nodes, set capabilities.multiNodeCapable to true on pool medium of "
                "InferenceEnvironment b"
            ),
        ),
    ),
    Case(
        id="partially-placed-for-want-of-environments",
        reason="no environment refuses, but there are too few environments",
        want=Scheduled.PARTIALLY_PLACED,
        request=request(2),
        environments=(site("a", FRONTIER),),
        says=(
            "1/1 environments can run kimi-k2-instruct (2 desired).",
            "No further environments exist: create an InferenceEnvironment, or lower spec.environments",
        ),
    ),
    Case(
        id="no-environments",
        reason="the message names the running placements and the next step",
        want=Refused.NO_ENVIRONMENTS,
        placements=(MINE,),
        says=(
            "There is no InferenceEnvironment to run on",
            "Kept on a until the replacements are Ready",
            "Create an InferenceEnvironment",
        ),
    ),
    Case(
        id="storage-for-one-node",
        reason="the deployment's own spec; the message starts with the field",
        want=Refused.INVALID_DEPLOYMENT,
        request=request(choice=EMPTY_DIR),
        environments=(site("a", FRONTIER),),
        says=("spec.modelCache.type: EmptyDir belongs to one pod; use PVC for several nodes",),
    ),
    Case(
        id="claim-for-one-pod",
        reason="the deployment's own spec; the message starts with the field",
        want=Refused.INVALID_DEPLOYMENT,
        request=request(replicas=2, choice=CreatedStorage(type=CacheType.PVC, access_mode=RWO), of=SMALL),
        environments=(site("a", FRONTIER),),
        says=(
            ("spec.modelCache.accessMode: ReadWriteOnce serves one replica on one node; 2 replicas need ReadWriteMany"),
        ),
    ),
    Case(
        id="label-absent",
        reason="a missing label has another message than a label with another value",
        want=Refused.NO_ENVIRONMENT_MATCHES,
        environments=(site("a", FRONTIER, labels={}),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 is not selected.",
            "a: the model's environmentSelector requires tier=production (found no such label)",
            "Change the model's environmentSelector to match InferenceEnvironment a, which has no label tier",
        ),
    ),
    Case(
        id="profile-selector",
        reason="the message names the profile",
        want=Refused.NO_ENVIRONMENT_MATCHES,
        request=request(of=model(profile("eu", shape(), selector=selector(region="eu")), name="m")),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run m: 1 is not selected.",
            "a: profile eu: the profile's environmentSelector requires region=eu (found no such label)",
            "Change the profile's environmentSelector to match InferenceEnvironment a, which has no label region",
        ),
    ),
    Case(
        id="flags-against-the-maths",
        reason="640Gi need 5, rounded up to 8, GPUs of 141Gi, and the flag says 4",
        want=Refused.INVALID_PROFILE,
        request=request(of=model(profile(engine=engine(EngineName.VLLM, "-tp=4")), name="m", vram="640Gi")),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run m: 1 has no valid profile.",
            (
                "a: profile default: on pool frontier spec.serving[default].engine.args[0]: "
                "-tp=4 disagrees with the shape of the replica; must be 8"
            ),
        ),
    ),
    Case(
        id="no-size",
        reason="the profile has no shape and the model no vram",
        want=Refused.INVALID_PROFILE,
        request=request(of=model(profile(), name="m")),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run m: 1 has no valid profile.",
            "a: profile default: no replicaTopology, and the model has no spec.resources.vram",
        ),
    ),
    Case(
        id="not-declared",
        reason="with a single cause, the message has advice",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        environments=(site("a", pool("x", memory=None)),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 has no pool that satisfies the requirements.",
            "a: profile multinode: pool x does not declare memoryPerGpu, 141Gi required",
            "If its nodes have it, declare memoryPerGpu on pool x of InferenceEnvironment a",
        ),
    ),
    Case(
        id="memory-for-the-maths",
        reason="the message does not ask to declare the memory of a replica as memory per GPU",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        request=request(of=model(profile(), name="m", vram="810Gi")),
        environments=(site("a", pool("x", memory=None)),),
        says=(
            "0/1 environments can run m: 1 has no pool that satisfies the requirements.",
            "a: profile default: pool x does not declare memoryPerGpu, which spec.resources.vram is divided by",
            "If its nodes have it, declare memoryPerGpu on pool x of InferenceEnvironment a",
        ),
    ),
    Case(
        id="both-values-and-what-is-missing",
        reason="with several faults, the message lists all of them without advice",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        environments=(site("a", pool("x", bandwidth="eth-100g", precision=("bf16",), nvlink_domain=4, gpus=4)),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 has no pool that satisfies the requirements.",
            (
                "a: profile multinode: pool x has acceleratorCount 4, 8 required (4 missing); "
                "pool x has memoryPerGpu 80Gi, 141Gi required (61Gi missing); "
                "pool x has nvlinkDomainSize 4, 8 required (4 missing); "
                "pool x has interNodeBandwidth eth-100g, ib-400g-or-better required; "
                "pool x lacks precisionSupport fp8; it has bf16"
            ),
        ),
    ),
    Case(
        id="memory-in-the-unit-of-its-author",
        reason="141G and 80000Mi are not whole numbers of Gi",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        request=request(of=model(profile("p", shape(), requires=requires(memory="141G")), name="m")),
        environments=(site("a", pool("x", memory="80000Mi")),),
        says=(
            "0/1 environments can run m: 1 has no pool that satisfies the requirements.",
            # 141 x 10^9 - 80000 x 2^20 = 57113920000 = 54468.1 x 2^20, rounded up
            "a: profile p: pool x has memoryPerGpu 80000Mi, 141G required (54469Mi missing)",
            (
                "If the model runs with it, set memoryPerGpu of profile p to 80000Mi, "
                "as pool x of InferenceEnvironment a has"
            ),
        ),
    ),
    Case(
        id="less-than-one-gi-is-missing",
        reason="80Gi are 81920Mi, so that the message does not round 361Mi up to 1Gi",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        request=request(of=model(profile("p", shape(), requires=requires(memory="80Gi")), name="m")),
        environments=(site("a", pool("x", memory="81559Mi")),),
        says=(
            "0/1 environments can run m: 1 has no pool that satisfies the requirements.",
            "a: profile p: pool x has memoryPerGpu 81559Mi, 80Gi required (361Mi missing)",
            (
                "If the model runs with it, set memoryPerGpu of profile p to 81559Mi, "
                "as pool x of InferenceEnvironment a has"
            ),
        ),
    ),
    Case(
        id="several-nodes-with-storage-for-one",
        reason="2000Gi on 8 x 141Gi are 2 nodes",
        want=Refused.INVALID_DEPLOYMENT,
        request=request(of=model(profile(), name="m", vram="2000Gi"), choice=EMPTY_DIR),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run m: 1 rejects the settings of the deployment.",
            ("a: profile default: spec.modelCache.type: EmptyDir belongs to one pod; use PVC for several nodes"),
        ),
    ),
    Case(
        id="no-pools",
        reason="the environment has no valid pools",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        environments=(site("a"), site("b", broken_pools=("x", "y")), site("c", broken=True)),
        says=(
            "0/3 environments can run kimi-k2-instruct: 3 have no pool that satisfies the requirements.",
            "a: it has no GPU node pools",
            "b: node pools are invalid: x, y, see its condition PoolsValid",
            "c: its spec is invalid, see its conditions",
        ),
    ),
    Case(
        id="shared-storage-missing",
        reason="the design specifies the sentence",
        want=Refused.SHARED_STORAGE_MISSING,
        environments=(site("a", FRONTIER, storage_class=None),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 has no shared storage.",
            "a: profile multinode: multi-node model requires shared storage on the inference environment.",
            "Set spec.storage.storageClassName of InferenceEnvironment a to a ReadWriteMany class",
        ),
    ),
    Case(
        id="shared-storage-missing-and-not-ready",
        reason="the next sentence follows the specified one",
        want=Refused.SHARED_STORAGE_MISSING,
        environments=(site("a", FRONTIER, storage_class=None, ready=False),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 has no shared storage.",
            (
                "a: profile multinode: multi-node model requires shared storage on the inference environment. "
                "the environment has not reported Ready yet"
            ),
        ),
    ),
    Case(
        id="storage-of-one-pod-for-several-nodes",
        reason="the specified sentence is followed by the actual access mode",
        want=Refused.SHARED_STORAGE_MISSING,
        environments=(site("a", FRONTIER, access_mode=RWO),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 has no shared storage.",
            (
                "a: profile multinode: multi-node model requires shared storage on the inference environment. "
                "Its accessMode is ReadWriteOnce, ReadWriteMany required"
            ),
            (
                "Set spec.storage.accessMode of InferenceEnvironment a to ReadWriteMany, "
                "which its storage class must support"
            ),
        ),
    ),
    Case(
        id="storage-of-one-pod-for-several-replicas",
        reason="one node has its own sentence",
        want=Refused.SHARED_STORAGE_MISSING,
        request=request(replicas=2, choice=CreatedStorage(type=CacheType.PVC), of=SMALL),
        environments=(site("a", FRONTIER, access_mode=RWO),),
        says=(
            "0/1 environments can run gemma: 1 has no shared storage.",
            "a: profile small: several replicas share a claim; accessMode is ReadWriteOnce, ReadWriteMany required",
            (
                "Set spec.storage.accessMode of InferenceEnvironment a to ReadWriteMany, "
                "which its storage class must support"
            ),
        ),
    ),
    Case(
        id="no-class-for-one-node",
        reason="one node has its own sentence",
        want=Refused.SHARED_STORAGE_MISSING,
        request=request(choice=CreatedStorage(type=CacheType.PVC), of=SMALL),
        environments=(site("a", FRONTIER, storage_class=None),),
        says=(
            "0/1 environments can run gemma: 1 has no shared storage.",
            (
                "a: profile small: a claim is required, "
                "and neither deployment, environment nor defaults name a storage class"
            ),
            "Set spec.storage.storageClassName of InferenceEnvironment a to a ReadWriteMany class",
        ),
    ),
    Case(
        id="no-such-cache",
        reason="without the ModelCache, the message does not advise to add an environment",
        want=Refused.CACHE_NOT_ON_ENVIRONMENT,
        request=request(choice=ModelCacheChoice(name="weights")),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 lacks the cache.",
            "a: profile multinode: ModelCache weights does not exist or is invalid",
            "Create ModelCache weights in the deployment's namespace, or correct the fault in its conditions",
        ),
    ),
    Case(
        id="cache-elsewhere",
        reason="the message names the ModelCache",
        want=Refused.CACHE_NOT_ON_ENVIRONMENT,
        request=request(choice=ModelCacheChoice(name="weights"), cache=ELSEWHERE),
        environments=(site("a", FRONTIER),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 lacks the cache.",
            "a: profile multinode: ModelCache weights does not keep the weights there",
            "Add a to ModelCache weights",
        ),
    ),
    Case(
        id="nothing-says-how-large",
        reason="the size is unknown, because the pool does not declare the memory of its GPUs",
        want=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        request=request(of=model(profile("two", shape(2)), name="m")),
        environments=(site("a", pool("dark", memory=None)),),
        says=(
            "0/1 environments can run m: 1 has no pool that satisfies the requirements.",
            (
                "a: profile two: pool dark does not declare memoryPerGpu, and neither modelCache.size "
                "nor the model's disk or vram says how large a claim to create"
            ),
        ),
    ),
    Case(
        id="pool-too-small",
        reason="the replicas would not fit even if the pool were empty",
        want=Refused.POOL_TOO_SMALL,
        environments=(site("a", pool("tiny", memory="141Gi", nodes=1)),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 is too small.",
            (
                "a: profile multinode: pool tiny is too small: 1 replica of 2 nodes x 8 GPUs required, "
                "the whole pool (1 node) holds 0"
            ),
            "Add 1 node to pool tiny of InferenceEnvironment a (maxNodeCount 2)",
        ),
    ),
    Case(
        id="pool-of-node-count-too-small",
        reason="the message names the field that the pool sets",
        want=Refused.POOL_TOO_SMALL,
        environments=(site("a", replace(pool("tiny", memory="141Gi", nodes=1), count_field="nodeCount")),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 is too small.",
            (
                "a: profile multinode: pool tiny is too small: 1 replica of 2 nodes x 8 GPUs required, "
                "the whole pool (1 node) holds 0"
            ),
            "Add 1 node to pool tiny of InferenceEnvironment a (nodeCount 2)",
        ),
    ),
    Case(
        id="not-ready",
        reason="the message includes the message of the environment",
        want=Refused.ENVIRONMENT_NOT_READY,
        environments=(site("a", FRONTIER, ready=False, ready_message="KubeconfigMissing"),),
        says=(
            "0/1 environments can run kimi-k2-instruct: 1 is not Ready.",
            "a: the environment is not Ready: KubeconfigMissing",
            "Wait until InferenceEnvironment a is Ready",
        ),
    ),
    Case(
        id="cannot-grow",
        reason="running replicas are kept, but Scheduled is False",
        want=Refused.INSUFFICIENT_CAPACITY,
        request=request(replicas=2),
        environments=(site("a", FRONTIER),),
        placements=(MINE, placement("a", "frontier", deployment="other")),
        says=(
            "1/1 environments can run kimi-k2-instruct: 1 cannot be scaled up to 2 replicas.",
            (
                "a: has 1 replica; profile multinode: pool frontier has no capacity now: "
                "2 replicas of 2 nodes x 8 GPUs required, "
                "1 fit: 1 of 4 nodes in use by 1 other placement"
            ),
            "Add 1 node to pool frontier of InferenceEnvironment a (maxNodeCount 5)",
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_words_the_condition(case: Case) -> None:
    found = explained(case.request, case.environments, case.placements)
    assert found.reason is case.want, case.reason
    assert found.status is (Status.TRUE if case.want is Scheduled.PLACED else Status.FALSE), case.reason
    assert found.message.splitlines() == list(case.says), case.reason
