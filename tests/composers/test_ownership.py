"""What this function composed is its own whatever its labels say, and whichever input is missing meanwhile."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct, struct_to_dict

from function.composers import COMPOSERS, inference_environment, model_cache, model_placement, model_service
from function.kube.manifests import Manifest, mapping
from function.parts.part import Part
from function.remote.adoption import is_own
from function.remote.composed_kinds import NamePatterns
from tests import test_cases
from tests.support.ownership import CASES, STORIES, collect_by_composite, collect_composed, example_requests
from tests.support.plane import call

MANAGER = "app.kubernetes.io/managed-by"
Labels: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]
RELABELLED: Mapping[str, Labels] = {"stripped": lambda _: {}, "changed": lambda labels: {**labels, MANAGER: "helm"}}


@pytest.mark.parametrize("relabelled", RELABELLED.values(), ids=RELABELLED)
def test_recognises_everything_that_any_composer_composes(relabelled: Labels) -> None:
    unrecognised = []
    for kind, name, manifest in collect_by_composite():
        labels = {str(k): str(v) for k, v in mapping(manifest, "metadata.labels").items()}
        metadata: Manifest = {**mapping(manifest, "metadata"), "labels": {**relabelled(labels)}}
        if not is_own(name, {**manifest, "metadata": metadata}, COMPOSERS[kind].names):
            unrecognised.append((manifest["kind"], name))
    assert not unrecognised


def test_every_name_belongs_to_one_part() -> None:
    """A part may drop every resource with one of its names."""
    lists: Mapping[str, Sequence[Part[Any, Any]]] = {
        "InferenceEnvironment": inference_environment.PARTS,
        "ModelPlacement": model_placement.PARTS,
        "ModelCache": model_cache.PARTS,
        "ModelService": model_service.PARTS,
    }
    for kind, name, manifest in collect_by_composite():
        own_name = name.rpartition("/")[2] if kind == "ModelCache" else name  # of one environment
        if kind in lists and manifest["kind"] != "ProviderConfigUsage":  # which follow from the Objects
            owners = [part for part in lists[kind] if NamePatterns(part.names).include(own_name, manifest)]
            assert len(owners) == 1, (kind, name)


def test_corpus_contains_every_kind_of_name() -> None:
    """The test above proves nothing of a name that no story composes."""
    kinds = {(str(m["kind"]), name.rpartition("/")[2].partition("-")[0]) for name, m in collect_composed()}
    assert kinds == {
        ("Object", "namespace"),
        ("Object", "adapter"),
        ("Object", "claim"),
        ("Object", "kept"),
        ("Object", "job"),
        ("Object", "scripts"),
        ("Object", "token"),
        ("Object", "pull"),
        ("Object", "service"),
        ("Object", "workload"),
        ("Object", "local"),
        ("Object", "cluster"),
        ("Object", "storage"),
        ("Object", "pipeline"),
        ("Object", "monitor"),
        ("Object", "pod"),
        ("Object", "route"),
        ("ClusterProviderConfig", "provider"),
        ("ObservedObjectCollection", "nodes"),
        ("ProviderConfigUsage", "provider"),
        ("Usage", "cache"),
        ("Usage", "kubeconfig"),
        ("Cluster", "gke"),
        ("NodePool", "gke"),
        ("ModelPlacement", "placement"),
        ("ModelService", "model"),
        ("ScaledObject", "autoscaler"),
        ("HTTPRoute", "route"),
        ("Service", "service"),
        ("EndpointSlice", "slice"),
        ("BackendTLSPolicy", "tls"),
    }


@pytest.mark.parametrize("name", CASES)
def test_labels_decide_nothing_in_cases(name: str) -> None:
    check_labels_decide_nothing(test_cases.request_of(test_cases.load(name)))


@pytest.mark.parametrize("story", STORIES)
def test_labels_decide_nothing_in_examples(story: str) -> None:
    for request in example_requests(story):
        check_labels_decide_nothing(request)


def check_labels_decide_nothing(request: fnv1.RunFunctionRequest) -> None:
    """Relabels each observed resource alone, with every input and with any one of them missing."""
    for missing, broken in list_broken_requests(request):
        expected = compose_without_labels(broken)
        for name in broken.observed.resources:
            for change, relabelled in RELABELLED.items():
                edited = copy.deepcopy(broken)
                relabel(edited.observed.resources[name], relabelled)
                assert compose_without_labels(edited) == expected, f"{name} {change} while {missing} is missing"


def list_broken_requests(request: fnv1.RunFunctionRequest) -> Iterator[tuple[str, fnv1.RunFunctionRequest]]:
    """Yields the request as it is, and without one of its inputs: not answered, answered with nothing, or invalid."""
    yield "nothing", request
    for name in request.required_resources:
        unanswered = copy.deepcopy(request)
        del unanswered.required_resources[name]
        yield f"the answer for {name}", unanswered
        absent = copy.deepcopy(request)
        absent.required_resources[name].Clear()
        yield name, absent
    unset = copy.deepcopy(request)
    unset.observed.composite.resource.update({"spec": {}})
    yield "the spec", unset
    unsettled = copy.deepcopy(request)
    unsettled.input.CopyFrom(dict_to_struct({"gateway": "odd", "limits": "odd"}))
    yield "a valid setting", unsettled


def relabel(resource: fnv1.Resource, relabelled: Labels) -> None:
    metadata = resource.resource.fields["metadata"].struct_value
    labels = {key: value.string_value for key, value in metadata.fields["labels"].struct_value.fields.items()}
    metadata.update({"labels": {**relabelled(labels)}})


def compose_without_labels(request: fnv1.RunFunctionRequest) -> dict[str, Manifest]:
    """Returns the desired resources, less the labels that carrying over repeats."""
    composed = {}
    for name, item in call(request).desired.resources.items():
        manifest = struct_to_dict(item.resource)
        manifest["metadata"].pop("labels", None)
        composed[name] = manifest
    return composed
