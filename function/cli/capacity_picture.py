"""`capacity -o svg`: every pool with its GPUs, which are taken and by whom, and the largest replica that still fits."""

from collections.abc import Sequence
from itertools import groupby, islice

from function.cli.svg import BOLD, DIM, FREE, INK, MARGIN, NO, SMALL, TAKEN, Canvas, Drawn, about, document, unusable
from function.cli.usage import Usage, by_accelerator, said
from function.domain.environment import Pool
from function.report.sentences import count
from function.scheduling.holdings import take, whole

_ENVIRONMENTS_DRAWN = 40


def draw(usages: Sequence[Usage]) -> str:
    """Return the picture of pools, those of an environment one after the other."""
    canvas = Canvas()
    every = [(environment, list(group)) for environment, group in groupby(usages, lambda usage: usage.environment)]
    canvas.text(MARGIN, f"{count(len(every), 'environment')} with {_counts(usages)}", INK, BOLD)
    for kind, group in by_accelerator(usages):
        where = count(len({usage.environment.name for usage in group}), "environment")
        canvas.text(MARGIN, f"{kind}: {_counts(group)}, in {where}", DIM, SMALL)
    canvas.legend((TAKEN, "in use"), (FREE, "free GPU"), *unusable(usage.pool for usage in usages if usage.pool))
    for environment, pools in islice(every, _ENVIRONMENTS_DRAWN):
        with canvas.framed() as left:
            canvas.text(left, environment.name + ("" if environment.ready else " (not Ready)"), INK, BOLD)
            for usage in pools:
                _pool(canvas, left, usage)
    if len(every) > _ENVIRONMENTS_DRAWN:
        canvas.text(MARGIN, f"and {count(len(every) - _ENVIRONMENTS_DRAWN, 'environment')} more", DIM)
    return document(canvas)


def _counts(usages: Sequence[Usage]) -> str:
    total, used, free = sum(u.gpus for u in usages), sum(u.used for u in usages), sum(u.free for u in usages)
    lost = total - used - free
    return f"{count(total, 'GPU')}: {used} in use, {free} free" + (f", {lost} cannot be used" if lost else "")


def _pool(canvas: Canvas, left: int, usage: Usage) -> None:
    if usage.pool is None:
        canvas.text(left, f"pool {usage.invalid.name} is invalid" if usage.invalid else "no pool", NO, SMALL)
        return
    canvas.text(left, about(usage.pool), DIM, SMALL)
    canvas.nodes(left, _room(usage, usage.pool))
    users = said(usage.users) or "nobody uses it"
    canvas.text(left, f"{usage.free} of {usage.gpus} GPUs free, largest replica {usage.largest}; {users}", DIM, SMALL)


def _room(usage: Usage, pool: Pool) -> Drawn:
    """Return the pool's room with the GPUs taken as the ledger takes them."""
    lacking = pool.max_nodes - pool.usable_nodes
    room = Drawn(pool.max_nodes, pool.gpus_per_node, lost=lacking, whole=whole(pool))
    deployments = {(user.namespace, user.name): user.deployment for user in usage.users}
    for grant in usage.grants:
        room.owner = f"{grant.namespace}/{deployments.get((grant.namespace, grant.name)) or grant.name}"
        take(room, grant.share)
    return room
