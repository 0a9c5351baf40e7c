"""What must never go while an input of its composite is invalid: anything that was composed for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.simulator.objects import Event, Version
from function.cli.store import CLUSTER_SCOPED, Ref
from function.kube.manifests import text
from function.remote.provider_usage import PROVIDER_USAGE

if TYPE_CHECKING:
    from bench.histories.auditor import Auditor

# A reconcile that has read the last valid input may end so much later, beside what no controller may have seen.
_UNDER_WAY_SECONDS = 2.0


class KeptAuditor:
    """Finds composed resources that go although nothing is decided for their composite."""

    def __init__(self, auditor: "Auditor", say: Callable[[str], None]) -> None:
        self._auditor, self._say = auditor, say

    def watch(self, event: Event) -> None:
        """Looks at a write."""
        before, now = event.before, event.now
        if before is None or before.deleting or not before.key or (now is not None and not now.deleting):
            return
        plane, words = self._auditor.plane, self._auditor.words
        owner = _find_owner(before)
        composite = plane.server.latest.get(owner)
        if composite is None or composite.deleting or composite.uid != text(before.controller, "uid"):
            return
        settings = plane.settings
        margin = settings.passing_seconds + settings.unheard_seconds + _UNDER_WAY_SECONDS
        if before.ref in words.deleted or self._is_unneeded_usage(before):
            return
        if plane.kernel.now > words.invalid_since(owner) + margin:
            self._say(f"{before.ref} goes although an input of {owner} is invalid")

    def _is_unneeded_usage(self, usage: Version) -> bool:
        """Whether it is a ProviderConfigUsage of a composite that has nothing on the cluster any more (decision 37)."""
        if usage.ref.kind != "ProviderConfigUsage":
            return False
        kind, path, value = "Object", "spec.providerConfigRef.name", text(usage.manifest, "providerConfigRef.name")
        if text(usage.controller, "kind") == "ModelDeployment":
            environment = usage.key.removeprefix(f"{PROVIDER_USAGE}-")
            kind, path, value = "ModelPlacement", "spec.inferenceEnvironmentRef.name", environment
        own = (v for v in self._auditor.plane.all(kind) if text(v.controller, "uid") == text(usage.controller, "uid"))
        return not any(text(version.manifest, path) == value for version in own)


def _find_owner(version: Version) -> Ref:
    kind = text(version.controller, "kind")
    return Ref(kind, "" if kind in CLUSTER_SCOPED else version.ref.namespace, text(version.controller, "name"))
