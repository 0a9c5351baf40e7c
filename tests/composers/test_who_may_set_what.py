"""The table "who may set what" of the reference holds: whatever an author writes reaches no field that is not theirs.

Every field of every kind that authors write is set, one after the other, on placements that serve. New fields are
picked up from the XRDs by themselves.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tests.api.fields import KINDS, is_quantity, sample, values
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, composed_service, edit_model, edit_placement, load_scene

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
STORIES = (ONE_NODE, SEVERAL_NODES)
PODS = ("template", "worker")
# Fields that no author can set, independent of the table.
PLATFORM = {
    "serviceAccountName", "hostNetwork", "hostPID", "hostIPC", "dnsPolicy", "schedulerName", "priorityClassName",
    "runtimeClassName", "resourceClaims", "securityContext", "main.resources.claims",
    "automountServiceAccountToken",
}  # fmt: skip
RIGHTS = ({"runAsNonRoot": False}, {"capabilities": {"add": ["IPC_LOCK"]}}, None)


def test_the_table_gives_authors_nothing_that_is_the_platforms() -> None:
    authors, platform = table()
    assert authors & PLATFORM == set()
    assert platform > {"serviceAccountName", "hostNetwork", "schedulerName", "main.securityContext", "volumes"}


def table() -> tuple[set[str], set[str]]:
    """Return the fields of pods that authors reach, and those that the platform does."""
    section = REFERENCE.read_text().split("## Who may set what\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    found: tuple[set[str], set[str]] = (set(), set())
    for fields, *whose in rows:
        for side, said in zip(found, whose, strict=True):
            side.update(re.findall(r"`([^`]+)`", fields) if said.strip() else ())
    return found


def fields(service: Manifest) -> dict[str, JSON]:
    """Return the pods of a service by the names that the table has."""
    found: dict[str, JSON] = {}
    for part in PODS:
        pod = mapping(service, f"spec.{part}")
        for container in (*listing(pod, "containers"), *listing(pod, "initContainers")):
            name = text(container, "name")
            if name != "main":
                found[f"{part}:{name}"] = container
                continue
            found |= {
                f"{part}:main.{key}": value for key, value in container.items() if key not in ("name", "resources")
            }
            found |= {f"{part}:main.resources.{k}": v for k, v in mapping(container, "resources").items()}
        rest = {key: value for key, value in pod.items() if key not in ("containers", "initContainers")}
        found |= {f"{part}:{key}": value for key, value in rest.items()}
        found |= {f"{part}:{key}": get(service, f"spec.{key}") for key in ("labels", "annotations")}
    return found


def changed(before: Manifest, after: Manifest) -> set[str]:
    old, new = fields(before), fields(after)
    return {key.partition(":")[2] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _edits(kind: str) -> Iterator[tuple[str, JSON]]:
    (schema,) = (k.schema for k in KINDS if k.name == kind)
    yield from _below(schema, "")


def _below(schema: Manifest, path: str) -> Iterator[tuple[str, JSON]]:
    if path:
        several = values(schema) if not is_quantity(schema) and schema.get("type") == "string" else ()
        yield from ((path, value) for value in several or (sample(schema),))
    if path == "serving":
        yield from _below(mapping(schema, "items"), "serving.0")
    for key, child in mapping(schema, "properties").items():
        yield from _below(mapping({"of": child}, "of"), f"{path}.{key}".strip("."))


SECRET: JSON = {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}
AUTHORS = [
    # The sample of the schema would be refused, because it has two values.
    (
        "engine.env",
        edit_model("serving.0.engine.env", [{"name": "A", "valueFrom": SECRET}, {"name": "B", "value": "b"}]),
    ),
    *((f"ClusterModel.{path}", edit_model(path, value)) for path, value in _edits("ClusterModel")),
    *((f"ModelPlacement.{path}", edit_placement(path, value)) for path, value in _edits("ModelPlacement")),
]


@pytest.mark.parametrize("story", STORIES)
def test_no_author_reaches_more_than_the_table_says(story: str) -> None:
    """A deployment and a cache reach pods through placements alone, whose every field is among these."""
    authors, _ = table()
    before = composed_service(load_scene(story))
    reached: set[str] = set()
    for name, edit in AUTHORS:
        for service in load_scene(story).edited(edit).composed().values():
            assert changed(before, service) <= authors, name
            reached |= changed(before, service)
            for part in PODS:
                # An author's Secret is of the control plane, and its copy has a name of ours.
                secrets = listing(service, f"spec.{part}.imagePullSecrets")
                assert all(text(secret, "name").startswith(text(service, "metadata.name")[:20]) for secret in secrets)
                for container in listing(service, f"spec.{part}.containers"):
                    assert container.get("securityContext") in RIGHTS, name
                sources = [{*volume} - {"name"} for volume in listing(service, f"spec.{part}.volumes")]
                assert all(source == {"emptyDir"} for source in sources), name
    assert {"main.args", "main.env", "main.image", "main.resources.requests", "affinity"} <= reached, (
        "the test must reach at least these fields"
    )
