"""Parsing ModelCaches, with their status of each environment."""

from dataclasses import dataclass

import pytest

from function.api.model_cache import parse_model_cache
from function.api.problems import Parsed
from function.domain.cache import CacheEntry, CacheType, Consumer, CreatedStorage, ModelCache, UserClaim
from function.domain.model import ModelRef, Problem
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import Manifest
from function.kube.selectors import Operator, Selector, SelectorRequirement
from function.reasons import Phase
from tests.api import manifests

GIB = 2**30


FULL = manifests.cache(
    modelRef={"kind": "Model", "name": "gemma"},
    environments=["west", "east", "west"],
    storage={"size": "1Ti", "storageClassName": "fast", "accessMode": "ReadWriteOnce", "retain": True},
    preload=False,
    retry="2",
)
FULL |= {
    "metadata": {"name": "weights", "namespace": "ml-team", "uid": "1"},
    "status": {
        "environments": [
            {
                "name": "east",
                "phase": "Ready",
                "claimName": "c",
                "path": "models/0",
                "message": "done",
                "completedAt": "2026-01-01T00:00:00Z",
                "claimUid": "u",
                "retry": "2",
                "accessMode": "ReadWriteMany",
                "unreachable": True,
            },
            {"name": "west", "phase": "Thinking"},
        ],
        "readers": [{"name": "p", "environment": "east", "uri": "pvc://c/models/0"}],
    },
}
READ = ModelCache(
    namespace="ml-team",
    name="weights",
    model=ModelRef(kind="Model", name="gemma"),
    environments=("east", "west"),
    choice=CreatedStorage(
        type=CacheType.PVC,
        size=1024 * GIB,
        class_name="fast",
        access_mode="ReadWriteOnce",
        preload=False,
        retain=True,
        retry="2",
    ),
    entries=(
        CacheEntry(
            environment="east",
            phase=Phase.READY,
            unreachable=True,
            access_mode="ReadWriteMany",
            message="done",
            download=DownloadRecord(
                claim="c", path="models/0", completed_at="2026-01-01T00:00:00Z", claim_uid="u", retry="2"
            ),
        ),
        CacheEntry(environment="west"),
    ),
    consumers=(Consumer(name="p", environment="east", uri="pvc://c/models/0"),),
)


def test_parses_every_field() -> None:
    assert parse_model_cache(FULL) == Parsed(READ)


def test_finds_the_entry_of_an_environment() -> None:
    assert READ.entry("west") == CacheEntry(environment="west")
    assert READ.entry("north") is None


def test_selects_environments_by_labels() -> None:
    cache = parse_model_cache(manifests.cache(environmentSelector={"matchLabels": {"tier": "production"}})).value
    assert cache
    assert cache.environments is None
    assert cache.selector == Selector((SelectorRequirement(key="tier", operator=Operator.IN, values=("production",)),))
    assert cache.choice == CreatedStorage(type=CacheType.PVC)


def test_accepts_an_existing_claim() -> None:
    cache = parse_model_cache(manifests.cache(environments=[], storage={"claimName": "mine"}, retry="2")).value
    assert cache
    assert cache.environments == ()
    assert cache.choice == UserClaim(claim="mine", retry="2")


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    fields: Manifest
    want: tuple[Problem, ...]


FAULTS = [
    Fault("nowhere", "a ModelCache needs environments or a selector", {},
          (Problem("spec.environments", "is required, or environmentSelector"),)),
    Fault("both", "a ModelCache takes either names or a selector", {"environments": ["a"], "environmentSelector": {}},
          (Problem("spec.environmentSelector", "{} is not allowed; must be left out together with environments"),)),
    Fault("claim-and-size", "the size of a user's claim cannot be set",
          {"environments": ["a"], "storage": {"claimName": "b", "size": "1Gi"}},
          (Problem("spec.storage.size", '"1Gi" is not allowed; must be left out together with claimName'),)),
    Fault("type", "a ModelCache always uses a claim", {"environments": ["a"], "storage": {"type": "EmptyDir"}},
          (Problem("spec.storage.type", '"EmptyDir" is not known; must be one of PVC'),)),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_reports_every_problem_of_a_cache(case: Fault) -> None:
    assert parse_model_cache(manifests.cache(**case.fields)) == Parsed(None, case.want), case.reason
