"""Finds slips in the platform settings of Compositions: the function's input, and settings in the wrong Composition."""

from collections.abc import Iterator

from function.api.problems import unknown_value
from function.cli.composing import INPUT, is_settings_step, reads_environment_configs
from function.cli.store import Store
from function.domain.model import Problem
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, text
from function.kube.names import VERSION

# The kinds whose Compositions read a setting. Where they are several, the setting must be equal in all of them.
_READERS = {
    "autoscaling": ("ModelDeployment",),
    "gates": ("ModelDeployment",),
    "gateway": ("ModelService",),
    "limits": ("ModelDeployment", "ModelPlacement"),
    "limits.guaranteedGpusPerNamespace": ("ModelDeployment",),
    "limits.maxPriority": ("ModelDeployment",),
    "limits.preemption": ("ModelDeployment",),
    "limits.priorities": ("ModelDeployment",),
    "remoteNamespacePrefix": ("ModelPlacement", "ModelCache"),
}


def find_settings_slips(store: Store, composition: Manifest) -> Iterator[Problem]:
    """Yields what is allowed in the settings of a Composition of this project and most likely not meant."""
    kind = _get_kind(composition)
    steps = listing(composition, "spec.pipeline")
    for index, step in enumerate(steps if kind else ()):
        input_ = mapping(step, "input")
        if not input_ or not is_settings_step(step):
            continue
        at = f"spec.pipeline[{index}].input"
        for field in ("apiVersion", "kind"):
            if input_.get(field) != INPUT[field]:
                yield unknown_value(f"{at}.{field}", input_.get(field), (INPUT[field],))
        for setting, readers in _READERS.items():
            value = _read(input_, setting)
            if value is not None and (message := _compare(store, setting, value, kind, readers)):
                yield Problem(f"{at}.{setting}", message)
        if kind == "ModelDeployment" and not any(map(reads_environment_configs, steps)):
            yield from _find_high_priorities(mapping(input_, "limits"), f"{at}.limits")


def _find_high_priorities(limits: Manifest, path: str) -> Iterator[Problem]:
    """Yields each named priority that counts in no namespace; EnvironmentConfigs could allow a higher one."""
    highest = max(integer(each, "maxPriority") for each in (limits, *mapping(limits, "namespaces").values()))
    for name, priority in mapping(limits, "priorities").items():
        if isinstance(priority, int) and priority > highest:
            message = f"{priority} counts as at most {highest} in every namespace; raise maxPriority of those that may"
            yield Problem(f"{path}.priorities.{name}", f"{message} have it")


def _compare(store: Store, setting: str, value: JSON, kind: str, readers: tuple[str, ...]) -> str:
    """Returns why a setting of the Composition of a kind has no effect, or not the same everywhere; else empty."""
    others = {_get_kind(each): _read(_get_settings(each), setting) for each in store.all("Composition")}
    if kind not in readers:
        where = f"set it in the Composition of {' and '.join(f'{reader}s' for reader in readers)}"
        is_set = any(others.get(reader) is not None for reader in readers)
        return "" if is_set else f"has no effect in the Composition of {kind}s; {where}"
    unequal = [reader for reader in readers if reader in others and others[reader] != value]
    which = " and ".join(f"{reader}s" for reader in unequal)
    return f"is not the same in the Composition of {which}; set it equally in both" if unequal else ""


def _get_kind(composition: Manifest) -> str:
    """Returns the kind of this project that a Composition composes; empty if it is of another API."""
    reference = mapping(composition, "spec.compositeTypeRef")
    return text(reference, "kind") if text(reference, "apiVersion") == VERSION else ""


def _get_settings(composition: Manifest) -> Manifest:
    steps = (step for step in listing(composition, "spec.pipeline") if is_settings_step(step))
    return mapping(next(steps, {}), "input")


def _read(settings: Manifest, setting: str) -> JSON:
    """Returns a setting; of limits without those that have readers of their own."""
    value = get(settings, setting)
    if setting != "limits" or not isinstance(value, dict):
        return value
    namespaces = {name: _list_quotas(own) for name, own in mapping(value, "namespaces").items()}
    own_quotas: Manifest = {name: own for name, own in namespaces.items() if own}
    quotas = {**_list_quotas(value), "namespaces": own_quotas}
    return {key: own for key, own in quotas.items() if own} or None


def _list_quotas(limits: JSON) -> Manifest:
    found = limits if isinstance(limits, dict) else {}
    return {key: own for key, own in found.items() if f"limits.{key}" not in _READERS and key != "guaranteedGpus"}
