"""What each composer asks Crossplane for, under names that depend on no order and on no answer in one reconcile."""

from function.domain.model import ModelRef
from function.exchange import Requirement
from function.kube.names import VERSION
from function.lifecycle.object_writer import API_VERSION as OBJECT_VERSION

MODEL = "model"
ENVIRONMENT = "environment"
ENVIRONMENTS = "environments"
PLACEMENTS = "placements"
CACHE = "cache"
_READER = "reader-"
_ORPHAN = "object-"


def model(ref: ModelRef, namespace: str) -> Requirement:
    """Ask for the model; a Model is of the asker's own namespace."""
    if ref.kind == "Model":
        return Requirement(api_version=VERSION, kind="Model", name=ref.name, namespace=namespace)
    return Requirement(api_version=VERSION, kind="ClusterModel", name=ref.name)


def environment(name: str) -> Requirement:
    """Ask for one environment."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", name=name)


def environments() -> Requirement:
    """Ask for every environment."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment")


def placements() -> Requirement:
    """Ask for every placement of every namespace: what the ledger charges."""
    return Requirement(api_version=VERSION, kind="ModelPlacement")


def reader(name: str) -> str:
    """Return the requirement's name for one placement that is known to read."""
    return f"{_READER}{name}"


def placement(name: str, namespace: str) -> Requirement:
    """Ask for one placement."""
    return Requirement(api_version=VERSION, kind="ModelPlacement", name=name, namespace=namespace)


def orphan(name: str) -> str:
    """Return the requirement's name for one Object that may be there unobserved."""
    return f"{_ORPHAN}{name}"


def remote_object(name: str, namespace: str) -> Requirement:
    """Ask for one Object."""
    return Requirement(api_version=OBJECT_VERSION, kind="Object", name=name, namespace=namespace)


def cache(name: str, namespace: str) -> Requirement:
    """Ask for one ModelCache."""
    return Requirement(api_version=VERSION, kind="ModelCache", name=name, namespace=namespace)
