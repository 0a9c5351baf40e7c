"""How long weights take to load, in words."""

from function.kube.manifests import Manifest, prune
from function.kube.quantity import gib
from function.weights.loading import Loading

_HOUR, _MINUTE = 3600, 60


def status(loading: Loading | None) -> Manifest:
    """Return what the status of a placement's storage says of it."""
    return prune({"loadTime": duration(loading.seconds), "loadAdvice": advice(loading) or None}) if loading else {}


def sentence(loading: Loading) -> str:
    """Say how long it takes, and what would help."""
    speed = f"{loading.bandwidth / 10**9:g} GB/s"
    said = f"weights of at most {gib(loading.weights)} load in {duration(loading.seconds)} at {speed}"
    return "; ".join(part for part in (said, advice(loading)) if part)


def advice(loading: Loading) -> str:
    """Say which flags of the engine would make it shorter, empty where none would."""
    if not loading.flags:
        return ""
    return f"engine.args {' or '.join(loading.flags)} may read several times as fast (docs/storage.md)"


def duration(seconds: int) -> str:
    """Return a time as people write it: 1h5m, 17m20s, 45s."""
    if seconds >= _HOUR:
        minutes = -(-seconds // _MINUTE)
        return f"{minutes // _MINUTE}h{minutes % _MINUTE}m"
    return f"{seconds // _MINUTE}m{seconds % _MINUTE}s" if seconds >= _MINUTE else f"{seconds}s"
