"""The table of composed kinds, held against what is composed, and against the programs that define the kinds."""

import pytest

from function.kube.manifests import Manifest, mapping, text
from function.remote.composed_kinds import (
    CONTROL_PLANE_KINDS,
    GPU_CLUSTER_KINDS,
    NamePatterns,
    assess,
    find_control_plane_kind,
    find_gpu_cluster_kind,
)
from tests.support.ownership import collect_composed


def test_every_composed_resource_has_a_row() -> None:
    for name, manifest in collect_composed():
        row = find_control_plane_kind(manifest)
        assert row, name
        assert row.version == manifest["apiVersion"], name
        assert row.namespaced == bool(text(manifest, "metadata.namespace")), name
        remote = mapping(manifest, "spec.forProvider.manifest")
        if remote:
            remote_row = find_gpu_cluster_kind(remote)
            assert remote_row, name
            assert remote_row.version == remote["apiVersion"], name
            assert remote_row.namespaced == bool(text(remote, "metadata.namespace")), name


def test_every_row_is_composed() -> None:
    composed = [manifest for _, manifest in collect_composed()]
    remote = [mapping(manifest, "spec.forProvider.manifest") for manifest in composed]
    assert {row.kind for row in CONTROL_PLANE_KINDS} == {text(manifest, "kind") for manifest in composed}
    observed = {"Node"}  # by a collection, without an Object of ours
    assert {row.kind for row in GPU_CLUSTER_KINDS} == {
        text(manifest, "kind") for manifest in remote if manifest
    } | observed


def test_what_the_command_line_reports_is_up() -> None:
    for row in GPU_CLUSTER_KINDS:
        manifest: Manifest = {"apiVersion": row.version, "kind": row.kind, "metadata": {"generation": 1}, "spec": {}}
        if row.kind not in {
            "Deployment",
            "Node",
            "LocalQueue",
            "ClusterQueue",
            "Pod",
        }:  # which are only observed, and never judged
            assert assess({**manifest, **row.report_up(manifest)}).up, row.kind


def test_refuses_names_of_a_kind_without_a_row() -> None:
    with pytest.raises(ValueError, match=r"no row in CONTROL_PLANE_KINDS for \[\('', 'ConfigMap'\)\]"):
        NamePatterns({("v1", "ConfigMap"): "note"})
