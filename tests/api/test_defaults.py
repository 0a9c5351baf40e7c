"""Absent fields have the same defaults in the function as in the API server.

`crossplane render` without `--xrd`, and objects from before a default was added, lack fields that a cluster sets. Both
must be parsed alike. CEL rules list the same words as the function.
"""

from collections.abc import Callable

import pytest

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment, parse_placement
from function.api.model_service import parse_model_service
from function.api.problems import Parsed
from function.domain.model import INTERCONNECTS, LADDER, OR_BETTER, PRECISIONS
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, mapping
from tests.api import manifests
from tests.api.fields import KINDS, Kind, values, walk

READERS: dict[str, Callable[[Manifest], Parsed[object]]] = {
    "ClusterModel": parse_model,
    "Model": parse_model,
    "InferenceEnvironment": lambda manifest: parse_environment(manifest, BUILT_IN),
    "ModelDeployment": parse_deployment,
    "ModelPlacement": parse_placement,
    "ModelCache": parse_model_cache,
    "ModelService": parse_model_service,
}
SECRET: JSON = {"name": "a"}
GIVEN: dict[str, Manifest] = {
    "ClusterModel": manifests.model(
        manifests.profile(replicaTopology={"gpusPerNode": 1, "placement": {}}),
        huggingFace={"repo": "a/b", "secretRef": SECRET},
    ),
    "Model": manifests.model(kind="Model"),
    "InferenceEnvironment": manifests.environment(
        {"name": "a", "capabilities": {}},
        cluster={"source": "Existing", "existing": {"secretRef": SECRET, "identitySecretRef": SECRET}},
        storage={"sharedClaim": {}},
    ),
    "ModelDeployment": manifests.deployment(modelCache={}),
    "ModelPlacement": manifests.placement(topology={"gpusPerNode": 8}, modelCache={}),
    "ModelCache": manifests.cache(environments=["a"], storage={}),
    "ModelService": {"kind": "ModelService", "metadata": {"name": "a"}, "spec": {"backends": [{"deployment": "a"}]}},
}


def _defaulted(value: JSON, schema: Manifest) -> JSON:
    """Return a value with every default of its schema, as an API server fills them in."""
    if isinstance(value, list):
        return [_defaulted(item, mapping(schema, "items")) for item in value]
    if not isinstance(value, dict):
        return value
    properties = mapping(schema, "properties")
    filled = dict(value)
    for key in properties:
        sub = mapping({"of": properties[key]}, "of")
        if key not in filled and "default" in sub:
            filled[key] = sub["default"]
        if key in filled:
            filled[key] = _defaulted(filled[key], sub)
    return filled


@pytest.mark.parametrize("kind", [k for k in KINDS if k.name in READERS], ids=lambda k: k.name)
def test_defaults_are_those_of_the_schema(kind: Kind) -> None:
    given, read = GIVEN[kind.name], READERS[kind.name]
    filled = given | {"spec": _defaulted(given["spec"], kind.schema)}
    assert filled != given
    assert read(filled) == read(given)
    assert read(given).value


WORDS = {
    "interconnect": tuple(INTERCONNECTS),
    "precisionSupport[0]": PRECISIONS,
    "interNodeBandwidth": LADDER,
    "multiNodeBandwidth": LADDER,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_cel_lists_the_words_that_the_function_knows(kind: Kind) -> None:
    for field in walk(kind.schema, (kind.root,), required=False):
        for word, known in WORDS.items():
            if field.path.endswith(f".{word}"):
                assert values(field.schema)[: len(known)] == known, field.path
                assert all(OR_BETTER in more for more in values(field.schema)[len(known) :])
