"""Two plans of a world side by side: every deployment of which they say something else, before -> after."""

from collections.abc import Iterable
from dataclasses import dataclass

from function.cli.planning import Plan
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
    def sign(self) -> str:
        """`+` for what comes or is placed now, `-` for what goes or is not any more, `~` for the others."""
        stood, stands = (_stands(plan) for plan in (self.before, self.after))
        return "~" if stood == stands else "+" if stands else "-"


def compare(before: Iterable[Plan], after: Iterable[Plan]) -> list[Changed]:
    """Return the deployments whose decision or placements differ, by namespace and name."""
    old, new = ({plan.ref: plan for plan in plans} for plans in (before, after))
    every = (Changed(ref, old.get(ref), new.get(ref)) for ref in sorted(old.keys() | new.keys()))
    return [changed for changed in every if _said(changed.before) != _said(changed.after)]


def told(changed: list[Changed]) -> str:
    """Return a block for each deployment that changes."""
    if not changed:
        return "nothing changes"
    blocks = []
    for each in changed:
        colour = {"+": GOOD, "-": BAD, "~": WAIT}[each.sign]
        lines = [f"    {_line(each.before)}", f" -> {_line(each.after)}"]
        blocks.append("\n".join((paint(f"{each.sign} {each.ref}", colour), *lines)))
    return "\n".join((*blocks, "", f"{count(len(changed), 'deployment')} of another decision"))


def as_data(changed: list[Changed]) -> JSON:
    """Return the same as data."""
    return [
        {
            "namespace": each.ref.namespace,
            "name": each.ref.name,
            "before": _data(each.before),
            "after": _data(each.after),
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
