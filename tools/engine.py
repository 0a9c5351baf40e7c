"""What Crossplane does around a composition function, in small: for the demo and for tests without its binaries.

It answers requirements until they repeat, six calls at most, names composed resources as core does, and derives the
composite's Ready and its conditions from the response. What this leaves out (admission, defaults of schemas,
server-side apply) is what `make conformance` and `make e2e` have the real programs for.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.kube.manifests import Manifest, listing, mapping, text
from function.kube.names import COMPOSITION_KEY
from tools.control_plane import Reconcile, Rendered

Function = Callable[[fnv1.RunFunctionRequest], fnv1.RunFunctionResponse]
_CALLS = 6
_STATUS = {
    fnv1.STATUS_CONDITION_TRUE: "True",
    fnv1.STATUS_CONDITION_FALSE: "False",
    fnv1.STATUS_CONDITION_UNKNOWN: "Unknown",
}


class FatalResultError(Exception):
    """The function refused; core would apply nothing and try again."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Reconciles composites with one function."""

    function: Function
    input: Manifest | None = None

    def render(self, given: Reconcile) -> Rendered:
        """Return what a reconcile makes of a composite.

        Raises:
            FatalResultError: The function answered with a fatal result.
        """
        composite = given.composite
        response = self._call(composite, {_key(o): o for o in given.observed}, given.required)
        composed = {
            name: _named(composite, name, resource.struct_to_dict(item.resource))
            for name, item in sorted(response.desired.resources.items())
        }
        rendered = {**composite, "status": _status(composite, response)}
        text_ = json.dumps([rendered, composed], sort_keys=True)
        results = tuple({"severity": r.severity, "reason": r.reason, "message": r.message} for r in response.results)
        return Rendered(text=text_, composite=rendered, composed=composed, results=results)

    def _call(
        self, composite: Manifest, observed: Mapping[str, Manifest], required: tuple[Manifest, ...]
    ) -> fnv1.RunFunctionResponse:
        request = fnv1.RunFunctionRequest()
        resource.update(request.observed.composite, composite)
        for name, manifest in observed.items():
            resource.update(request.observed.resources[name], manifest)
        if self.input:
            request.input.update(self.input)
        for _ in range(_CALLS):
            response = self.function(request)
            _refuse_fatal(response)
            wanted = response.requirements.resources
            if set(wanted) == set(request.required_resources):
                break
            request.ClearField("required_resources")
            for name, selector in wanted.items():
                answer = request.required_resources[name]
                for manifest in required:
                    if _matches(selector, manifest):
                        resource.update(answer.items.add(), manifest)
        return response


def _refuse_fatal(response: fnv1.RunFunctionResponse) -> None:
    for result in response.results:
        if result.severity == fnv1.SEVERITY_FATAL:
            raise FatalResultError(result.message)


def _matches(selector: fnv1.ResourceSelector, manifest: Manifest) -> bool:
    if (selector.api_version, selector.kind) != (text(manifest, "apiVersion"), text(manifest, "kind")):
        return False
    if selector.HasField("namespace") and selector.namespace != text(manifest, "metadata.namespace"):
        return False
    return not selector.HasField("match_name") or selector.match_name == text(manifest, "metadata.name")


def _key(observed: Manifest) -> str:
    return str(mapping(observed, "metadata.annotations")[COMPOSITION_KEY])


def _named(composite: Manifest, key: str, manifest: Manifest) -> Manifest:
    owner, metadata = text(composite, "metadata.name"), mapping(manifest, "metadata")
    generated = f"{owner}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    namespace = text(composite, "metadata.namespace") or text(metadata, "namespace")
    return {
        **manifest,
        "metadata": {
            "name": generated,
            **metadata,
            **({"namespace": namespace} if namespace else {}),
            "annotations": {**mapping(metadata, "annotations"), COMPOSITION_KEY: key},
            "ownerReferences": [_controller(composite)],
        },
    }


def _controller(composite: Manifest) -> Manifest:
    return {
        "apiVersion": text(composite, "apiVersion"),
        "kind": text(composite, "kind"),
        "name": text(composite, "metadata.name"),
        "uid": text(composite, "metadata.uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _status(composite: Manifest, response: fnv1.RunFunctionResponse) -> Manifest:
    desired = response.desired
    unready = [name for name, item in sorted(desired.resources.items()) if item.ready != fnv1.READY_TRUE]
    ready = not unready and desired.composite.ready != fnv1.READY_FALSE
    ours = [
        {"type": c.type, "status": _STATUS[c.status], "reason": c.reason, "message": c.message}
        for c in response.conditions
    ]
    own = {c["type"] for c in ours} | {"Ready", "Synced"}
    kept = [c for c in listing(composite, "status.conditions") if c.get("type") not in own]
    return {
        **mapping(resource.struct_to_dict(desired.composite.resource), "status"),
        "conditions": [
            *kept,
            *ours,
            {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
            {
                "type": "Ready",
                "status": str(ready),
                "reason": "Available" if ready else "Creating",
                "message": f"Unready resources: {', '.join(unready)}" if unready else "",
            },
        ],
    }
