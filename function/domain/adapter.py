"""LoRA adapters, which the engines of a deployment serve beside its model."""

from collections.abc import Sequence
from dataclasses import dataclass

from function.domain.model import DownloadedSource, Profile, PvcSource
from function.kube.messages import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    name: str  # of the model in requests that use the adapter
    source: DownloadedSource | PvcSource
    retry: str = ""  # the value whose change starts the download again


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAdapter:
    """An adapter that the engines of a service load when they start."""

    name: str
    claim: str
    path: str  # of the directory on the claim; empty: its root


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAdapters:
    """The adapters that a service loads which is composed now."""

    served: tuple[ServedAdapter, ...] = ()
    planned: tuple[ServedAdapter, ...] = ()  # once those are complete for which the service waits
    waits: bool = False  # a service that would change waits


def find_adapter_obstacle(adapters: Sequence[Adapter], profile: Profile, served_name: str) -> str:
    """Returns why a profile cannot serve these adapters beside a model of this name; empty if it can."""
    if not adapters:
        return ""
    if profile.lora is None:
        return f"profile {profile.name} allows no LoRA adapters, as it has no lora"
    if len(adapters) > profile.lora.max_adapters:
        allowed = format_count(profile.lora.max_adapters, "LoRA adapter")
        return f"profile {profile.name} allows {allowed} (lora.maxAdapters), and the deployment has {len(adapters)}"
    if any(adapter.name == served_name for adapter in adapters):
        return f"adapter {served_name} has the name under which the model itself is served"
    return ""
