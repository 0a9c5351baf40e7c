"""What makes two required resources the same: content, or, from an API server, its word for one."""

import random
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1.run_function_pb2 import Resource
from crossplane.function.resource import dict_to_struct

from bench import wire
from function.contract import RequiredResource
from function.kube.manifests import JSON, Manifest
from function.wire.requests import identify_items


def sent(manifest: Manifest, seed: int = 0) -> bytes:
    """Return a required resource as core sends it, with maps in some order."""
    return wire.resource(manifest, random.Random(seed))


def by_content(item: bytes) -> RequiredResource:
    (found,) = identify_items([item])
    return found


def by_version(item: bytes) -> RequiredResource:
    (found,) = identify_items([item], trust_versions=True)
    return found


def pool(nodes: int, **metadata: JSON) -> Manifest:
    return {"kind": "InferenceEnvironment", "metadata": {"name": "east", **metadata}, "spec": {"maxNodeCount": nodes}}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    one: Manifest
    other: Manifest
    same: bool


LIVE: Manifest = {"uid": "u-1", "resourceVersion": "100"}
FORGED = b"\x0a\x0fresourceVersion\x12\x05\x1a\x03100".decode()
CASES = (
    Case("same", "nothing changed", pool(8, **LIVE), pool(8, **LIVE), same=True),
    Case("version", "written again", pool(8, **LIVE), pool(9, **{**LIVE, "resourceVersion": "101"}), same=False),
    Case("uid", "made anew under its name", pool(8, **LIVE), pool(8, **{**LIVE, "uid": "u-2"}), same=False),
    Case(
        "defaulted",
        "a new schema gives it a field without a new version",
        pool(8, **LIVE),
        {**pool(8, **LIVE), "more": "x"},
        same=False,
    ),
    Case("no-version", "a file: content counts", pool(8, uid="u-1"), pool(9, uid="u-1"), same=False),
    Case("no-uid", "likewise", pool(8, resourceVersion="1"), pool(9, resourceVersion="1"), same=False),
    Case(
        "emptied", "says nothing", pool(8, uid="", resourceVersion=""), pool(9, uid="", resourceVersion=""), same=False
    ),
    Case(
        "no-text",
        "a version is text",
        pool(8, uid=True, resourceVersion=True),
        pool(9, uid=True, resourceVersion=True),
        same=False,
    ),
    Case(
        "labels-named-so",
        "a tenant's labels are no metadata of the server's",
        pool(8, labels=LIVE),
        pool(9, labels=LIVE),
        same=False,
    ),
    Case(
        "forged",
        "nor is text that looks like the wire",
        pool(8, **{**LIVE, "resourceVersion": "101"}, annotations={"a": FORGED}),
        pool(9, **{**LIVE, "resourceVersion": "102"}, annotations={"a": FORGED}),
        same=False,
    ),
    Case(
        "owner",
        "the uid of an owner is another's",
        pool(8, ownerReferences=[LIVE]),
        pool(9, ownerReferences=[LIVE]),
        same=False,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_versions(case: Case) -> None:
    for seed in range(10):
        one, other = by_version(sent(case.one, seed)), by_version(sent(case.other, seed + 1))
        assert (one.digest == other.digest) is case.same, case.reason
        assert (one.load(), other.load()) == (case.one, case.other)


def test_identifies_edited_file_by_content() -> None:
    one, other = sent(pool(8, **LIVE)), sent(pool(9, **LIVE))
    assert len(one) == len(other), "numbers are eight bytes, so that size tells nothing"
    assert by_content(one).digest != by_content(other).digest
    assert by_version(one).digest == by_version(other).digest, "hence not for callers that may read files"


def test_returns_uid_of_items_from_api_server() -> None:
    live = {"uid": "0f1d5a3e-6b0c-4f57-9d3a-2c8f7b1e4a90", "resourceVersion": "7"}
    assert by_version(sent(pool(8, **live))).uid == live["uid"]
    assert by_content(sent(pool(8, **live))).uid == "", "nobody asks"


def test_content_digest_differs_from_version_digest() -> None:
    assert by_content(sent(pool(8, **LIVE))).digest != by_version(sent(pool(8, **LIVE))).digest


def test_ignores_managed_fields() -> None:
    signed = pool(8, **LIVE, managedFields=[{"manager": "kubectl"}])
    assert by_version(sent(signed)).load() == pool(8, **LIVE)
    assert by_content(sent(signed)).digest == by_content(sent(pool(8, **LIVE))).digest


def test_encoder_agrees_with_protobuf() -> None:
    found = Resource.FromString(sent(pool(8, **LIVE)))
    assert found == Resource(resource=dict_to_struct(pool(8, **LIVE)))
