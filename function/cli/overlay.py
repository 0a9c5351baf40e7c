"""Applies single values of pools over what was read (`plan --set`)."""

import re
from collections.abc import Iterable, Sequence

import yaml

from function.cli.errors import CliError, Code
from function.cli.store import Ref, Store
from function.kube.manifests import JSON, Manifest, copied, listing, mapping, text
from function.parse.fields import SPECS, unknown_fields
from function.parse.problems import nearest

_SET = re.compile(r"([^/=]+)/([^./=]+)\.([A-Za-z0-9.]+)=(.*)")


def set_values(store: Store, values: Iterable[str]) -> frozenset[Ref]:
    """Change values of pools, each as ENVIRONMENT/POOL.FIELD=VALUE with YAML as its value; return the environments."""
    changed = set[Ref]()
    for each in values:
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
            parsed: JSON = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise CliError(f"--set {each}: {value} is not YAML") from error
        edited = copied(manifest)
        (target,) = (item for item in listing(edited, "spec.nodePools") if text(item, "name") == pool)
        *path, last = field.split(".")
        for key in path:
            inner = mapping(target, key)
            target[key] = inner
            target = inner
        if parsed is None:
            target.pop(last, None)
        else:
            target[last] = parsed
        _check(each, manifest, edited)
        store.put(edited)
        changed.add(ref)
    return frozenset(changed)


def _missing(said: str, what: str, name: str, known: Sequence[str]) -> CliError:
    close = nearest(name, known)
    advice = f"Did you mean {close}?" if close else f"There are {', '.join(known) or 'none'}"
    return CliError(f"--set {said}: there is no {what}. {advice}", Code.NOT_FOUND)


def _check(said: str, before: Manifest, after: Manifest) -> None:
    unknown = [set(unknown_fields(SPECS["InferenceEnvironment"], mapping(m, "spec"), "spec")) for m in (before, after)]
    for problem in sorted(unknown[1] - unknown[0]):
        raise CliError(f"--set {said}: {problem}")
