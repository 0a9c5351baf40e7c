"""What would change against what exists, one line for each field, as `+`, `-` and `~`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT
from function.exchange import Composed
from function.kube.manifests import JSON, Manifest, text

_COLOURS = {"+": GOOD, "-": BAD, "~": WAIT}


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a difference."""

    sign: str
    text: str

    @property
    def colour(self) -> str:
        """The colour of its sign."""
        return _COLOURS[self.sign]

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


def changes(before: Mapping[str, Manifest], after: Mapping[str, Composed]) -> tuple[Change, ...]:
    """Return how what is composed differs from what exists."""
    return tuple(_changes(before, {key: item.manifest for key, item in after.items()}))


def _changes(before: Mapping[str, Manifest], after: Mapping[str, Manifest]) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield Change("+", _title(new))
        elif new is None and old is not None:
            yield Change("-", _title(old))
        elif old is not None and new is not None:
            was, becomes = dict(_flat(old.get("spec"), "spec")), dict(_flat(new.get("spec"), "spec"))
            for path in sorted(was.keys() | becomes.keys()):
                if was.get(path) != becomes.get(path) and not path.startswith("spec.crossplane"):
                    yield Change("~", f"{_title(new)} {path}: {was.get(path, 'unset')} -> {becomes.get(path, 'unset')}")


def _title(manifest: Manifest) -> str:
    where = text(manifest, "spec.inferenceEnvironmentRef.name")
    return (
        f"{Ref.of(manifest)} on {where} (profile {text(manifest, 'spec.profile')}, pool {text(manifest, 'spec.pool')})"
    )


def _flat(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}")
    else:
        yield path, value
