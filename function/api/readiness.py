"""Whether a composite is Ready, as Crossplane says."""

from function.kube.manifests import Manifest, condition, get
from function.reasons import Status


def is_ready(manifest: Manifest) -> bool:
    """Trust Ready only if it speaks of the present spec: Crossplane writes the generation that it saw."""
    return condition(manifest, "Ready").get("status") == Status.TRUE and is_current(manifest)


def is_current(manifest: Manifest, type_: str = "Ready") -> bool:
    """Tell whether a condition speaks of the present spec; where either does not say, it is believed."""
    generation = get(manifest, "metadata.generation")
    return generation is None or condition(manifest, type_).get("observedGeneration", generation) == generation
