"""The platform team changes settings: limits of namespaces and their costs, and fields that it mistypes for a while.

New settings reach every composite at once, as a new revision of the Composition does.
"""

from collections.abc import Callable
from decimal import Decimal

from bench.histories.auditor import Auditor
from bench.histories.gateways import SETTINGS as GATEWAY
from bench.histories.plane import Plane
from bench.histories.routing import Routing
from function.composers import COMPOSERS
from function.domain.allocation import Cost, Limits
from function.kube.manifests import JSON, Manifest

_USD = "USD"
# Settings with which nothing is decided, and those with which ModelServices stay as they are.
_INVALID: Manifest = {"kserve": "odd"}
_INVALID_GATEWAY: Manifest = {"gateway": {"name": "models", "url": "odd"}}
_INVALID_LIMITS: Manifest = {"limits": {"gpusPerNamespace": "8"}}
# The kinds that keep all that they have composed while a setting is invalid.
_KEPT = {
    "kserve": ("InferenceEnvironment", "ModelCache", "ModelDeployment", "ModelPlacement"),
    "gateway": ("ModelService",),
}
MISTYPED_SECONDS = 5.0, 60.0


class PlatformSettings:
    """The input of the pipeline step: `limits`, the gateway where there is one, and what is `mistyped` now."""

    def __init__(self, plane: Plane, auditor: Auditor) -> None:
        self._plane, self._auditor = plane, auditor
        self.limits = Limits()
        self._mistyped: Manifest = {}

    def limit(self, limits: Limits) -> None:
        """Sets the limits of each namespace."""
        self.limits = limits
        self._apply()

    def mistype(self, fields: Manifest) -> None:
        """Sets fields that are invalid; none: all are corrected."""
        self._mistyped = fields
        self._apply()

    def _apply(self) -> None:
        plane, limits = self._plane, self.limits
        cost: JSON = {"amount": str(limits.cost.amount), "currency": limits.cost.currency} if limits.cost else None
        written: Manifest = {"placementsPerNamespace": limits.placements, "gpusPerNamespace": limits.gpus}
        if limits.preempts:
            written["preemption"] = "LowerPriority"
        if limits.guaranteed_gpus is not None:
            written["guaranteedGpusPerNamespace"] = limits.guaranteed_gpus
        gateway = GATEWAY if plane.provider.gateways.playing else {}
        fields: Manifest = {
            "limits": {**written, **({"costPerHour": cost} if cost else {})},
            **gateway,
            **self._mistyped,
        }
        plane.core.function.configure(fields)
        self._auditor.set_limits(Limits(invalid=True) if "limits" in self._mistyped else limits)
        for setting, kinds in _KEPT.items():
            for kind in kinds:
                self._auditor.words.set_valid(kind, plane.kernel.now, valid=setting not in self._mistyped)
        for kind in COMPOSERS:
            for version in plane.all(kind):
                plane.core.wake(version.ref)


class Governance(Routing):
    """Those who decide what namespaces may have. `settings` are those of the platform."""

    settings: PlatformSettings

    def lower_limits(self) -> None:
        """Gives namespaces fewer GPUs than some have, which takes nothing from any that serves."""
        self._limit(Limits(gpus=self.random.choice((1, 4, 8, 16))))

    def lift_limits(self) -> None:
        """Gives namespaces more, or whatever they ask for."""
        self._limit(self.random.choice((Limits(), Limits(gpus=40), Limits(placements=3, gpus=64))))

    def limit_costs(self) -> None:
        """Gives namespaces an amount of money for each hour, which some spend already."""
        amount = Decimal(self.random.choice(("0.50", "8", "20.00", "100")))
        self._limit(Limits(cost=Cost(_USD, amount), gpus=self.random.choice((0, 0, 40))))

    def _limit(self, limits: Limits) -> None:
        self.tell(f"limit each namespace to {limits}")
        self.settings.limit(limits)

    def mistype_limits(self) -> None:
        """Mistypes a limit, and corrects it a while later: nothing grows meanwhile."""
        self.mistype(_INVALID_LIMITS)

    def mistype_settings(self) -> None:
        """Mistypes a setting that decides what runs, and corrects it a while later: nothing changes meanwhile."""
        self.mistype(_INVALID)

    def mistype_gateway(self) -> None:
        """Mistypes the Gateway of the control plane, and corrects it a while later: no request goes elsewhere."""
        if self.routed:
            self.mistype(_INVALID_GATEWAY)

    def mistype(self, fields: Manifest) -> None:
        """Sets invalid fields for a while."""
        self.tell(f"mistype {fields}")
        self.settings.mistype(fields)
        self.plane.kernel.at(self.random.uniform(*MISTYPED_SECONDS), self._correct, lazy=True)

    def _correct(self) -> None:
        self.tell("correct the settings")
        self.settings.mistype({})


GOVERN: tuple[Callable[[Governance], None], ...] = (
    Governance.lower_limits,
    Governance.lower_limits,
    Governance.lift_limits,
    Governance.limit_costs,
    Governance.limit_costs,
    Governance.mistype_limits,
    Governance.mistype_settings,
    Governance.mistype_gateway,
    Governance.replace_when_full,
    Governance.edit_model,
    Governance.edit_model,
    Governance.reprice,
)
