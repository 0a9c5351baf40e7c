"""Two plans of a world side by side: every deployment of which they say something else, and services that restart."""

from collections.abc import Iterable
from dataclasses import dataclass

from function.cli.planning import Plan
from function.cli.restarts import restarts
from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT, paint
from function.kube.manifests import JSON
from function.reasons import Status
from function.report.sentences import count


@dataclass(frozen=True, slots=True)
class Changed:
    """A deployment that is decided otherwise. None: there is none of that name."""

    ref: Ref
    before: Plan | None
    after: Plan | None

    @property
    def restarts(self) -> list[str]:
        """The services that it keeps and whose pods restart."""
        return restarts(self.before.services, self.after.services) if self.before and self.after else []

    @property
    def decided(self) -> bool:
        """Whether it is decided otherwise."""
        return _said(self.before) != _said(self.after)

    @property
    def sign(self) -> str:
        """`+` for what comes or is placed now, `-` for what goes or is not any more, `~` for the others."""
        stood, stands = (_stands(plan) for plan in (self.before, self.after))
        return "~" if stood == stands else "+" if stands else "-"


def compare(before: Iterable[Plan], after: Iterable[Plan]) -> list[Changed]:
    """Return the deployments whose decision, placements or services differ, by namespace and name."""
    old, new = ({plan.ref: plan for plan in plans} for plans in (before, after))
    every = (Changed(ref, old.get(ref), new.get(ref)) for ref in sorted(old.keys() | new.keys()))
    return [changed for changed in every if changed.decided or changed.restarts]


def told(changed: list[Changed]) -> str:
    """Return a block for each deployment that changes."""
    if not changed:
        return "nothing changes"
    blocks = []
    for each in changed:
        colour = {"+": GOOD, "-": BAD, "~": WAIT}[each.sign]
        lines = [f"    {_line(each.before)}", f" -> {_line(each.after)}"] if each.decided else []
        lines += [f"    restarts {service}: pod template changes" for service in each.restarts]
        blocks.append("\n".join((paint(f"{each.sign} {each.ref}", colour), *lines)))
    decided, restarted = sum(each.decided for each in changed), sum(len(each.restarts) for each in changed)
    sums = [f"{count(decided, 'deployment')} of another decision"] if decided else []
    sums += [f"{count(restarted, 'service')} to restart"] if restarted else []
    return "\n".join((*blocks, "", ", ".join(sums)))


def as_data(changed: list[Changed]) -> JSON:
    """Return the same as data."""
    return [
        {
            "namespace": each.ref.namespace,
            "name": each.ref.name,
            "before": _data(each.before),
            "after": _data(each.after),
            "restarts": [*each.restarts],
        }
        for each in changed
    ]


def _stands(plan: Plan | None) -> bool:
    return plan is not None and plan.decision.status is Status.TRUE


def _said(plan: Plan | None) -> JSON:
    """Return what is decided: the placements by environment, and where it is not placed the reason."""
    if plan is None:
        return None
    placements: list[JSON] = [placement["spec"] for placement in plan.placements]
    return [plan.decision.reason, placements]


def _line(plan: Plan | None) -> str:
    return f"{plan.decision.reason}: {plan.decision.message.partition(chr(10))[0]}" if plan else "not there"


def _data(plan: Plan | None) -> JSON:
    return None if plan is None else {"reason": str(plan.decision.reason), "message": plan.decision.message}
