"""What is said of a namespace that is beyond its quota: both numbers, and who holds them."""

from function.domain.allocation import QuotaUsage
from function.kube.messages import join_with_more


def exceeded(found: QuotaUsage) -> str:
    """Say what is allowed, what is taken and by whom."""
    limits = found.limits
    allowed = (
        (found.placements, limits.placements, "placements"),
        (found.gpus, limits.gpus, "GPUs"),
    )
    numbers = " and ".join(f"{has} of {most} {what}" for has, most, what in allowed if most)
    holders = join_with_more([f"{name} ({_gpus(gpus)})" for name, gpus in found.holders])
    held = f", held by {holders}" if holders else ""
    return f"namespace {found.namespace} has {numbers} that the platform allows it{held}"


def _gpus(number: int) -> str:
    return f"{number} GPU" if number == 1 else f"{number} GPUs"
