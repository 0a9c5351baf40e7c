"""Labels of what is composed are stripped or changed, also while an input of its composite is missing or invalid.

Any user who may edit an object may change its labels, and tools that label what they find do so. Nothing follows from
them.
"""

from collections.abc import Callable

from bench.histories.governance import Governance
from bench.histories.words import lists
from bench.simulator.objects import Version
from function.cli.store import Ref
from function.kube.manifests import Manifest, get, mapping, prune, strings, text
from function.kube.names import MANAGED_BY

_RELABELLED = 0.5  # how many composed resources change their labels where all may
# What a spec cannot have, by kind; no user edits these fields otherwise. Each is corrected a while later.
_INVALID: dict[str, Manifest] = {
    "ModelDeployment": {"rollout": "odd"},
    "ModelPlacement": {"rollout": "odd"},
    "ModelService": {"hostnames": "odd"},
}
_BROKEN_SECONDS = 5.0, 200.0


class Labels(Governance):
    """Those who change labels."""

    def relabel(self) -> None:
        """Strips or changes the labels of a composed resource."""
        if found := self._composed():
            kind = self.random.choice(sorted({version.ref.kind for version in found}))
            self._relabel(self.random.choice([version for version in found if version.ref.kind == kind]))

    def relabel_many(self) -> None:
        """Strips or changes the labels of half of all that is composed."""
        for version in self._composed():
            if self.random.random() < _RELABELLED:
                self._relabel(version)

    def relabel_unsettled(self) -> None:
        """Changes labels while a setting is invalid."""
        self.random.choice((self.mistype_settings, self.mistype_gateway))()
        self.relabel_many()

    def relabel_broken(self) -> None:
        """Changes labels while the spec of their composite is invalid."""
        self.break_spec()
        self.relabel_many()

    def break_spec(self) -> None:
        """Gives a deployment, a placement or a ModelService an invalid spec, and corrects it a while later."""
        found = self.any(self.random.choice(sorted(_INVALID)), composed=False)
        if found is None or found.ref in self.broken:
            return
        invalid = _INVALID[found.ref.kind]
        kept: Manifest = {key: get(found.manifest, f"spec.{key}") for key in invalid}
        self.tell(f"break {found.ref} {invalid}")
        self.broken.add(found.ref)
        self.lay(found.ref, invalid)
        self.words.set_valid(str(found.ref), self.plane.kernel.now, valid=False)
        seconds = self.random.uniform(*_BROKEN_SECONDS)
        self.plane.kernel.at(seconds, lambda: self._correct_spec(found.ref, kept), lazy=True)

    def _correct_spec(self, ref: Ref, kept: Manifest) -> None:
        self.broken.discard(ref)
        self.words.set_valid(str(ref), self.plane.kernel.now, valid=True)
        if ref in self.plane.server.latest:
            self.tell(f"correct {ref}")
            self.lay(ref, kept)
            self.plane.edit(ref, lambda m: m.update(spec=prune(mapping(m, "spec"))))

    def _composed(self) -> list[Version]:
        return [v for _, v in sorted(self.plane.server.latest.items()) if v.controller and v.key and not v.deleting]

    def _relabel(self, version: Version) -> None:
        changed = {**strings(version.manifest, "metadata.labels"), **dict.fromkeys(MANAGED_BY, "helm")}
        labels: Manifest = {**changed} if self.random.random() < 0.7 else {}
        self.tell(f"{'change' if labels else 'strip'} the labels of {version.ref}")
        owner = Ref(text(version.controller, "kind"), version.ref.namespace, text(version.controller, "name"))
        there = self.plane.server.latest.get(owner)
        if there and not labels and not lists(there, version.ref):
            # Two writers that know older lists have left it out, and its owner was about to look for it by its label.
            self.words.hidden.add(version.uid)
        self.plane.edit(version.ref, lambda m: mapping(m, "metadata").update({"labels": labels}))


RELABEL: tuple[Callable[[Labels], None], ...] = (
    Labels.relabel,
    Labels.relabel_many,
    Labels.relabel_unsettled,
    Labels.relabel_broken,
    Labels.break_spec,
    Labels.pull_with_secret,
)
