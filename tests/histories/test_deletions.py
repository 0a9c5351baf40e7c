"""Remote objects go while the provider knows their cluster; what stays behind is found, unless it was to be kept."""

from random import Random

import pytest

from bench.histories.clusters import Clusters
from bench.simulator.kernel import Kernel
from bench.simulator.objects import Version
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest
from function.remote.object_writer import ManagementPolicy

CONFIG = Ref("ClusterProviderConfig", "", "east")


class ControlPlane:
    """An API server with the provider and the cluster east, where remote objects go slowly."""

    def __init__(self) -> None:
        self.kernel, settings = Kernel(), Settings()
        self.server = ApiServer(self.kernel, settings)
        self.clusters = Clusters(self.kernel, settings, Random(1), self.server)
        self.clusters.deletions.slow_down()
        self.connect()

    def connect(self) -> None:
        self.server.create({"kind": CONFIG.kind, "metadata": {"name": CONFIG.name}})

    def create(self, policy: ManagementPolicy = ManagementPolicy.FULL) -> Version:
        owner: Manifest = {"kind": "ModelPlacement", "name": "chat", "uid": "owner", "controller": True}
        policies: list[JSON] = [*policy.value]
        made = self.server.create(
            {
                "kind": "Object",
                "metadata": {"name": "secret", "namespace": "team", "ownerReferences": [owner]},
                "spec": {
                    "managementPolicies": policies,
                    "providerConfigRef": {"name": CONFIG.name},
                    "forProvider": {"manifest": {"kind": "Secret", "metadata": {"name": "token", "namespace": "x"}}},
                },
            }
        )
        self.kernel.run(60.0)
        return made

    def delete(self, ref: Ref, *, foreground: bool = False) -> None:
        self.server.delete(ref, foreground=foreground)
        self.kernel.run(600.0)

    @property
    def left(self) -> list[str]:
        return [remote.name for remote, _ in self.clusters.deletions.find_left()]


@pytest.fixture
def plane() -> ControlPlane:
    return ControlPlane()


def test_config_waits_until_object_is_gone(plane: ControlPlane) -> None:
    made = plane.create()
    plane.delete(CONFIG)
    assert plane.server.latest[CONFIG].deleting
    plane.delete(made.ref)
    assert not {CONFIG, made.ref} & plane.server.latest.keys()
    assert plane.left == []


def test_config_goes_before_object_that_is_deleted_in_the_foreground(plane: ControlPlane) -> None:
    """Garbage collection removes the ProviderConfigUsage of such an Object at once (docs/facts.md)."""
    made = plane.create()
    plane.server.delete(CONFIG)
    plane.delete(made.ref, foreground=True)
    assert CONFIG not in plane.server.latest
    assert plane.server.latest[made.ref].deleting
    assert plane.left == ["token"]


def test_object_goes_once_its_config_is_back(plane: ControlPlane) -> None:
    made = plane.create()
    plane.server.delete(CONFIG)
    plane.delete(made.ref, foreground=True)
    plane.connect()
    plane.kernel.run(600.0)
    assert made.ref not in plane.server.latest
    assert plane.left == []


def test_what_is_retained_is_not_left(plane: ControlPlane) -> None:
    plane.delete(plane.create(ManagementPolicy.RETAIN).ref)
    assert plane.clusters.deletions.remote
    assert plane.left == []


def test_what_is_only_observed_was_never_created(plane: ControlPlane) -> None:
    plane.delete(plane.create(ManagementPolicy.OBSERVE_ONLY).ref)
    assert not plane.clusters.deletions.remote
