"""What is written back is what a function may desire, and never more than was there."""

from function.kube.manifests import Manifest, get, mapping
from function.lifecycle.carry_over import carried
from function.lifecycle.object_writer import Lifetime, ObjectWriter

CONFIG: Manifest = {
    "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
    "kind": "ClusterProviderConfig",
    "metadata": {"name": "east", "uid": "1", "annotations": {"crossplane.io/composition-resource-name": "a"}},
}


def test_what_has_no_spec_gets_none() -> None:
    kept = carried(CONFIG)
    assert kept.manifest == {**CONFIG, "metadata": {"name": "east"}}
    assert kept.ready, "a ClusterProviderConfig has no conditions"


def test_the_data_of_a_secret_is_never_written_back() -> None:
    secret: Manifest = {"kind": "Secret", "data": {"token": "eA=="}, "type": "Opaque"}
    observed = ObjectWriter(owner="a", namespace="b", provider_config="east", watch=True, observed={}).compose(
        "token-a", secret, Lifetime.OWNED
    )
    assert get(observed.manifest, "spec.watch") is True
    kept = mapping(carried(observed.manifest).manifest, "spec.forProvider.manifest")
    assert kept == {"kind": "Secret", "type": "Opaque"}
