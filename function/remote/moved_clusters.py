"""On which cluster the Objects of a placement are.

An Object that is pointed at another cluster leaves behind what it made on the first one, with nobody to delete it. So
the environment of a placement never changes, and where it did all the same everything stays as it is observed.
"""

from collections.abc import Mapping

from function.api.inference_environment import name_provider_config
from function.domain.environment import Environment
from function.kube.manifests import Manifest, text


def elsewhere(observed: Mapping[str, Manifest], environment: Environment) -> str:
    """Return the ClusterProviderConfig of what is on another cluster than the environment's; empty if nothing is.

    An environment that was made again has its name by the same rule, whatever an earlier one had in its status.
    """
    known = {"", environment.provider_config, name_provider_config(environment.name)}
    configs = (text(observed[key], "spec.providerConfigRef.name") for key in sorted(observed))
    return next((name for name in configs if name not in known), "")
