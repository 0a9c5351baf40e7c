"""What a composite's Composition supplies to the function: its input, and a context from EnvironmentConfigs.

Steps of function-environment-configs that come before ours are followed as that function does: data of later
sources over that of earlier ones, found by name or by labels. What it refuses is an error here too, because the
controller composes nothing then.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from function.cli.errors import CliError, Code
from function.cli.store import Ref, Store
from function.exchange import Call
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, strings, text
from function.parse.settings import ENVIRONMENT_KEY

CONFIG = "EnvironmentConfig"
_OURS, _CONFIGS = "modelplane.fn.crossplane.io/", "environmentconfigs.fn.crossplane.io/"
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def first_call(store: Store, xr: Manifest) -> Call:
    """Return the first call that Crossplane would make for a composite."""
    composition = composition_of(store, xr)
    environment: Manifest = {}
    given: Manifest = {}
    for step in listing(composition, "spec.pipeline"):
        found = mapping(step, "input")
        if text(found, "apiVersion").startswith(_OURS):
            given = found
            break
        if asks_for_configs(step):
            data = mapping(found, "spec.defaultData")
            for source in _sources(store, xr, environment, mapping(found, "spec")):
                data = _merged(data, source)
            environment = _merged(environment, data)
    context: Manifest = {ENVIRONMENT_KEY: environment} if environment else {}
    return Call(xr=xr, observed=store.owned(Ref.of(xr)), input=given, context=context)


def asks_for_configs(step: Manifest) -> bool:
    """Tell whether a step of a pipeline reads EnvironmentConfigs."""
    return text(step, "input.apiVersion").startswith(_CONFIGS)


def composition_of(store: Store, xr: Manifest) -> Manifest | None:
    """Return the Composition that a composite names, else its XRD's default, else the first for its kind."""
    wanted = {"apiVersion": xr.get("apiVersion"), "kind": xr.get("kind")}
    fitting = {
        text(c, "metadata.name"): c for c in store.all("Composition") if get(c, "spec.compositeTypeRef") == wanted
    }
    names = (text(xr, "spec.crossplane.compositionRef.name"), f"{text(xr, 'kind').lower()}s", *fitting)
    return next((fitting[name] for name in names if name in fitting), None)


def _sources(store: Store, xr: Manifest, environment: Manifest, spec: Manifest) -> Iterator[Manifest]:
    """Return the data of every source in order, at the path where it goes."""
    optional = text(spec, "policy.resolution") == "Optional"
    for source in listing(spec, "environmentConfigs"):
        if text(source, "type") == "Selector":
            found = _selected(store, xr, environment, mapping(source, "selector"))
        else:
            found = _named(store, text(source, "ref.name"), optional=optional)
        for config in found:
            data: JSON = mapping(config, "data")
            for key in reversed(_path(text(source, "toFieldPath"))):
                data = {key: data}
            yield data if isinstance(data, dict) else {}


def _named(store: Store, name: str, *, optional: bool) -> Sequence[Manifest]:
    found = store.get(Ref(CONFIG, "", name))
    if found is None and not optional:
        raise _stopped(f"{CONFIG} {name}, which does not exist")
    return [] if found is None else [found]


def _selected(store: Store, xr: Manifest, environment: Manifest, selector: Manifest) -> Sequence[Manifest]:
    wanted = dict(_labels(xr, environment, selector))
    if not wanted:
        return []
    found = [c for c in store.all(CONFIG) if wanted.items() <= strings(c, "metadata.labels").items()]
    what = f"{CONFIG}s with {','.join(f'{key}={value}' for key, value in wanted.items())}"
    if text(selector, "mode") != "Multiple":
        if len(found) != 1:
            raise _stopped(f"exactly one of the {what}; there are {len(found)}")
        return found
    least = integer(selector, "minMatch")
    if len(found) < least:
        raise _stopped(f"at least {least} {what}; there are {len(found)}")
    most = selector.get("maxMatch")
    ordered = _ordered(found, text(selector, "sortByFieldPath") or "metadata.name")
    return ordered[:most] if isinstance(most, int) else ordered


def _labels(xr: Manifest, environment: Manifest, selector: Manifest) -> Iterator[tuple[str, str]]:
    read: Mapping[str, Manifest] = {"": xr, "FromCompositeFieldPath": xr, "FromEnvironmentFieldPath": environment}
    for matcher in listing(selector, "matchLabels"):
        type_, path = text(matcher, "type"), text(matcher, "valueFromFieldPath")
        value = matcher.get("value") if type_ == "Value" else _at(read.get(type_, {}), path)
        if isinstance(value, str):
            yield text(matcher, "key"), value
        elif text(matcher, "fromFieldPathPolicy") != "Optional":
            raise _stopped(f"the label {text(matcher, 'key')} of {CONFIG}s from {path}, which says nothing")


def _ordered(configs: Sequence[Manifest], path: str) -> list[Manifest]:
    """Return the configs by the value at a path, which is all text or all numbers; without one comes first."""
    values = [_at(config, path) for config in configs]
    if any(isinstance(value, str) for value in values):
        return [c for _, c in sorted(zip(values, configs, strict=True), key=lambda item: str(item[0] or ""))]
    return sorted(configs, key=lambda config: _number(_at(config, path)))


def _number(value: JSON) -> float:
    return value if isinstance(value, int | float) else 0


def _path(path: str) -> list[str]:
    """Return the keys of `spec.pools[0]` or `metadata.labels[example.org/tier]`."""
    return [bracketed or plain for bracketed, plain in _SEGMENT.findall(path)]


def _at(manifest: JSON, path: str) -> JSON:
    found = manifest
    for key in _path(path):
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _merged(weaker: Manifest, stronger: Manifest) -> Manifest:
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _stopped(what: str) -> CliError:
    return CliError(
        f"the Composition asks for {what}, and Crossplane composes nothing until that is mended. "
        f"Give the {CONFIG} with -f, or correct the Composition",
        Code.REFUSED,
    )
