"""Replicas on exclusive nodes: each replica uses a node that no other replica of the placement shares."""

import copy

from function.kube.manifests import condition, get, listing, mapping, text
from tests.support.plane import change, only, plane, said


def test_spread_replicas_keep_their_nodes() -> None:
    control = plane("gemma-one-gpu")
    model, deployment = only(control, "ClusterModel"), only(control, "ModelDeployment")
    environment, placement = only(control, "InferenceEnvironment"), only(control, "ModelPlacement")
    (pool,) = listing(control.composites[environment], "spec.nodePools")
    change(control, environment, "spec.nodePools", [pool | {"acceleratorCount": 2, "maxNodeCount": 3}])
    (profile,) = listing(control.composites[model], "spec.serving")
    topology = mapping(profile, "replicaTopology")
    apart = profile | {"replicaTopology": topology | {"placement": {"replicasAcrossNodes": "required"}}}
    change(control, model, "spec.serving", [apart])
    control.settle()
    assert get(control.composites[placement], "spec.replicas") == 3, "each of three nodes has one replica"
    whole = copy.deepcopy(control.composites[model])
    whole["metadata"] = {"name": "whole"}
    mapping(whole, "spec")["serving"] = [profile | {"replicaTopology": topology | {"gpusPerNode": 2}}]
    other = copy.deepcopy(control.composites[deployment])
    other["metadata"], spec = {"name": "whole", "namespace": "chat"}, mapping(other, "spec")
    other["spec"] = spec | {"modelRef": {"name": "whole"}, "scaling": {"fixed": {"replicas": 1}}}
    del whole["status"], other["status"]
    control.apply([whole, other])
    control.settle()
    (ref,) = (r for r in control.all("ModelDeployment") if r.name == "whole")
    assert said(control, ref, "Scheduled") == ("False", "InsufficientCapacity")
    assert "0 fit: 3 of 3 nodes in use" in text(condition(control.composites[ref], "Scheduled"), "message")
