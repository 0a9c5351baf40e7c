"""A composite at rest with its composed resources, of which Crossplane observes only some."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from function.composers import compose
from function.contract import Answer, Call, Outcome, RequiredResource, Requirement
from function.kube.manifests import Manifest, listing, mapping, strings, text
from tests.support.plane import only, plane

UID = "uid-of-the-composite"


class AtRest:
    """A composite of a story at rest; `objects` are its composed resources, each at resourceVersion 7."""

    def __init__(self, story: str, kind: str) -> None:
        self.control = plane(story)
        self.ref = only(self.control, kind)
        self.xr = copy.deepcopy(self.control.composites[self.ref])
        mapping(self.xr, "metadata")["uid"] = UID
        self.objects = {key: copy.deepcopy(m) for key, m in self.control.store.owned(self.ref).items()}
        for manifest in self.objects.values():
            listing(manifest, "metadata.ownerReferences")[0]["uid"] = UID
            mapping(manifest, "metadata")["resourceVersion"] = "7"

    def outcome(self, observed: Mapping[str, Manifest] | None = None, *, pending: str = "", now: float = 0) -> Outcome:
        """Returns the outcome if Crossplane observes these resources and answers all but one requirement."""
        call = Call(xr=self.xr, observed={**(observed or {})}, now=now)
        answers: dict[str, Answer] = {}
        for _ in range(4):
            required = compose(replace(call, answers=answers)).requirements
            answers = {name: self.find(requirement) for name, requirement in required.items() if name != pending}
        return compose(replace(call, answers=answers))

    def at_rest(self) -> Outcome:
        """Returns the outcome when Crossplane observes everything."""
        return self.outcome(self.objects)

    def find(self, requirement: Requirement) -> Answer:
        """Returns the resources for a requirement."""
        if requirement.kind not in {"Object", "Usage", "ProviderConfigUsage"}:
            return self.control.store.find(requirement)
        assert requirement.labels or requirement.name, "a requirement without labels and name would select every Object"
        return tuple(
            RequiredResource(b"", partial(copy.deepcopy, m))
            for m in self.objects.values()
            if (m["apiVersion"], m["kind"]) == (requirement.api_version, requirement.kind)
            and text(m, "metadata.namespace") == requirement.namespace
            and requirement.name in (None, text(m, "metadata.name"))
            and requirement.labels.items() <= strings(m, "metadata.labels").items()
        )
