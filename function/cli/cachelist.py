"""ModelCaches as one line for each environment."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from function.cli.asked import Form
from function.cli.store import Ref, Store
from function.cli.tables import BAD, GOOD, WAIT, age, paint, structured, table
from function.cli.users import users
from function.kube.manifests import Manifest, listing, text
from function.reasons import Phase

_COLOURS = {Phase.READY: GOOD, Phase.FAILED: BAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A ModelCache on one environment; no environment: it has not reported any."""

    ref: Ref
    model: str
    size: str
    created: str
    users: tuple[str, ...]
    environment: str = ""
    phase: str = ""
    claim: str = ""
    path: str = ""
    message: str = ""


def entries(store: Store, namespace: str) -> list[Entry]:
    """Return the caches of a namespace, of all where it is empty."""
    found = (store.get(ref) for ref in store.refs("ModelCache") if namespace in ("", ref.namespace))
    return [entry for cache in found if cache for entry in _of(store, cache)]


def _of(store: Store, cache: Manifest) -> Iterator[Entry]:
    ref = Ref.of(cache)
    whole = Entry(
        ref=ref,
        model=text(cache, "spec.modelRef.name"),
        size=text(cache, "status.size"),
        created=text(cache, "metadata.creationTimestamp"),
        users=tuple(users(store, ref, bytes_too=False)),
    )
    rows = listing(cache, "status.environments")
    for row in rows:
        yield replace(
            whole,
            environment=text(row, "name"),
            phase=text(row, "phase"),
            claim=text(row, "claimName"),
            path=text(row, "path"),
            message=text(row, "message"),
        )
    if not rows:
        yield whole


def listed(found: list[Entry], form: Form) -> str:
    """Return the lines."""
    match form:
        case Form.NAME:
            return "\n".join(dict.fromkeys(f"modelcache.modelplane.ai/{entry.ref.name}" for entry in found))
        case Form.TABLE | Form.WIDE:
            return _table(found, wide=form is Form.WIDE) if found else "There is no ModelCache"
        case _:
            return structured(form, [_structured(entry) for entry in found])


def _table(found: list[Entry], *, wide: bool) -> str:
    headers = ["NAMESPACE", "NAME", "MODEL", "ENVIRONMENT", "STATE", "SIZE", "USED BY", "AGE"]
    if wide:
        headers += ["CLAIM", "PATH", "MESSAGE"]
    rows = []
    for e in found:
        names = ", ".join(user.rpartition("/")[2] for user in e.users)
        state = paint(e.phase, _COLOURS.get(Phase(e.phase), WAIT)) if e.phase in tuple(Phase) else e.phase
        row = [e.ref.namespace, e.ref.name, e.model, e.environment, state, e.size, names, age(e.created)]
        rows.append([*row, e.claim, e.path, e.message] if wide else row)
    return table(headers, rows)


def _structured(entry: Entry) -> Manifest:
    return {
        "namespace": entry.ref.namespace,
        "name": entry.ref.name,
        "model": entry.model,
        "size": entry.size,
        "created": entry.created,
        "usedBy": list(entry.users),
        "environment": entry.environment,
        "phase": entry.phase,
        "claim": entry.claim,
        "path": entry.path,
        "message": entry.message,
    }
