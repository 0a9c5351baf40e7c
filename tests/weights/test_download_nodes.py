"""On which nodes a download runs: where its weights are read, if they can be read nowhere else."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage, UserClaim
from function.domain.environment import EnvironmentStorage
from function.domain.settings import Download
from function.kube.manifests import JSON, mapping
from function.weights.planner import plan_weights
from function.weights.request import WeightsRequest
from tests.support.builders import pool
from tests.support.weights_requests import CACHE, SINGLE, on_storage, with_download

POOL = replace(pool(), labels=(("pool", "h100"),), taints=({"key": "team", "value": "a", "effect": "NoSchedule"},))
LOCAL_STORAGE = EnvironmentStorage(class_name="local", access_mode="ReadWriteOnce")
LOCAL, FAST = on_storage(LOCAL_STORAGE), on_storage(EnvironmentStorage(class_name="nfs"))
ASKED = replace(SINGLE, pool=POOL, choice=CreatedStorage(type=CacheType.PVC))
ONCE, MANY = "ReadWriteOnce", "ReadWriteMany"
TOLERATED: list[JSON] = [
    {"key": "nvidia.com/gpu", "operator": "Exists"},
    {"key": "team", "value": "a", "effect": "NoSchedule", "operator": "Equal"},
]
NEAR: tuple[JSON, JSON] = ({"pool": "h100"}, TOLERATED)
ANYWHERE: tuple[JSON, JSON] = (None, None)
USERS = replace(ASKED, choice=UserClaim(claim="mine"))
DOWNLOAD = Download(node_selector={"disk": "fast"}, tolerations=({"operator": "Exists"},))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    request: WeightsRequest
    want: tuple[JSON, JSON]
    observed_mode: str = ""


CASES = (
    Case("shared",
        "a download to a shared claim does not start nodes of a GPU pool",
        replace(ASKED, environment=FAST), ANYWHERE),
    Case("local",
        "the first consumer of a claim of one node decides on which node the volume is",
        replace(ASKED, environment=LOCAL), NEAR),
    Case("local-once-pod",
        "ReadWriteOncePod binds a claim to one node as ReadWriteOnce does",
        replace(ASKED, environment=on_storage(
        replace(LOCAL_STORAGE, access_mode=f"{ONCE}Pod"))),
         NEAR),
    Case("shared-claim", "a shared claim that one node mounts is filled on a node of the pool", replace(
        ASKED, environment=on_storage(replace(LOCAL_STORAGE, is_shared=True))), NEAR),
    Case("own", "the access mode of the user's claim decides", replace(USERS, environment=FAST), NEAR, ONCE),
    Case("own-shared",
        "the user's claim can be mounted on any node",
        replace(USERS, environment=LOCAL), ANYWHERE, MANY),
    Case("own-unseen",
        "the access mode of the user's claim is not observed yet",
        replace(USERS, environment=LOCAL), ANYWHERE),
    Case("as-it-is",
        "the access mode of the observed claim decides, not the mode of the environment",
        replace(ASKED, environment=LOCAL), ANYWHERE, MANY),
    Case("cache",
        "a ModelCache has no consumer yet whose nodes could be used",
        replace(CACHE, environment=LOCAL, choice=ASKED.choice), ANYWHERE),
    Case("said", "a node selector for downloads takes precedence",
         with_download(replace(ASKED, environment=LOCAL), DOWNLOAD),
         ({"disk": "fast"}, [{"operator": "Exists"}, *TOLERATED])),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_selects_nodes_of_download(case: Case) -> None:
    model = replace(case.request.model, disk=2**30)
    found = plan_weights(replace(case.request, model=model, observed_access_mode=case.observed_mode))
    assert found.job
    pod = mapping(found.job.manifest, "spec.template.spec")
    assert (pod.get("nodeSelector"), pod.get("tolerations")) == case.want, case.reason
    resources = str(pod["containers"])
    assert "nvidia.com/gpu" not in resources, "a download requests no GPU"
