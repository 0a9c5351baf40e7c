"""The digest of the service that a placement would get, computed before the service is written."""

import pytest

from function.composers.model_placement import compute_service_identity
from function.domain.settings import BUILT_IN
from function.kube.manifests import strings, text
from function.kube.names import ANNOTATION_SPEC_DIGEST
from function.wire import read_call, split_request
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    edit_environment,
    edit_placement,
    load_scene,
    observed_service,
)


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
def test_name_and_digest_are_those_of_the_running_service(story: str) -> None:
    rest = load_scene(story)
    observed = observed_service(rest)
    digest = strings(observed, "metadata.annotations")[ANNOTATION_SPEC_DIGEST]
    call = read_call(split_request(rest.request().SerializeToString()))
    assert compute_service_identity(call, BUILT_IN) == (text(observed, "metadata.name"), digest)


def test_no_digest_without_plan() -> None:
    without = load_scene(SEVERAL_NODES).edited(edit_placement("modelCache", {"type": "EmptyDir"}))
    call = read_call(split_request(without.request().SerializeToString()))
    assert compute_service_identity(call, BUILT_IN) is None


def test_existing_claim_suffices_where_the_environment_would_refuse_a_new_one() -> None:
    rest = load_scene(SEVERAL_NODES)
    without = rest.edited(edit_environment("storage", None))
    calls = [read_call(split_request(found.request().SerializeToString())) for found in (rest, without)]
    digests = [compute_service_identity(call, BUILT_IN) for call in calls]
    assert digests[1] == digests[0] is not None
