"""What if: parts of objects, and single values of pools, laid over what was read."""

import re
from collections.abc import Iterable, Sequence

import yaml

from function.cli.errors import CliError, Code
from function.cli.store import Ref, Store
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.parse.fields import SPECS, unknown_fields
from function.parse.problems import nearest

_SET = re.compile(r"([^/=]+)/([^./=]+)\.([A-Za-z0-9.]+)=(.*)")


def merged(there: JSON, part: JSON) -> JSON:
    """Return a value with a part laid over it: maps and lists of named maps field by field; null takes a field away."""
    if isinstance(there, dict) and isinstance(part, dict):
        both = {**there, **{key: merged(there.get(key), value) for key, value in part.items()}}
        return {key: value for key, value in both.items() if part.get(key, value) is not None}
    if _named(there) and _named(part):
        assert isinstance(there, list)
        assert isinstance(part, list)
        return _each(there, part)
    return part


def _named(value: JSON) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)


def _each(there: Sequence[JSON], part: Sequence[JSON]) -> list[JSON]:
    parts = {text(item, "name"): item for item in part}
    kept = [merged(item, parts.pop(text(item, "name"), {})) for item in there]
    return [*kept, *parts.values()]


def set_values(store: Store, said: Iterable[str]) -> None:
    """Change values of pools, each as ENVIRONMENT/POOL.FIELD=VALUE; the value is read as YAML."""
    for each in said:
        found = _SET.fullmatch(each)
        if found is None:
            raise CliError(f"--set {each} is not ENVIRONMENT/POOL.FIELD=VALUE, such as us-east/h100.maxNodeCount=8")
        environment, pool, field, value = found.groups()
        ref = Ref("InferenceEnvironment", "", environment)
        manifest = store.get(ref)
        if manifest is None:
            raise _missing(each, str(ref), environment, [other.name for other in store.refs(ref.kind)])
        pools = [text(item, "name") for item in listing(manifest, "spec.nodePools")]
        if pool not in pools:
            raise _missing(each, f"pool {pool} of {ref}", pool, pools)
        try:
            part: JSON = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise CliError(f"--set {each}: {value} is not YAML") from error
        for key in reversed(field.split(".")):
            part = {key: part}
        changed = merged(manifest, {"spec": {"nodePools": [merged({"name": pool}, part)]}})
        assert isinstance(changed, dict)
        _check(each, manifest, changed)
        store.put(changed)


def _missing(said: str, what: str, name: str, known: Sequence[str]) -> CliError:
    close = nearest(name, known)
    advice = f"Did you mean {close}?" if close else f"There are {', '.join(known) or 'none'}"
    return CliError(f"--set {said}: there is no {what}. {advice}", Code.NOT_FOUND)


def _check(said: str, before: Manifest, after: Manifest) -> None:
    unknown = [set(unknown_fields(SPECS["InferenceEnvironment"], mapping(m, "spec"), "spec")) for m in (before, after)]
    for problem in sorted(unknown[1] - unknown[0]):
        raise CliError(f"--set {said}: {problem}")
