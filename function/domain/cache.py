"""How the weights of one deployment or cache reach its pods: the `modelCache` block."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class CacheType(StrEnum):
    """A claim of our own, or none."""

    PVC = "PVC"
    EMPTY_DIR = "EmptyDir"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCache:
    """Weights that a ModelCache keeps."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserClaim:
    """A claim that the user owns on the remote cluster: written under models/<key>, never changed."""

    claim: str
    preload: bool = True
    retry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedCache:
    """Where nothing is said: EmptyDir on one node, a managed claim on several. `size` in bytes."""

    type: CacheType | None = None
    size: int | None = None
    class_name: str | None = None
    access_mode: str | None = None
    preload: bool = True
    retain: bool = False
    retry: str = ""


CacheChoice: TypeAlias = NamedCache | UserClaim | ManagedCache
