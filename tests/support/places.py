"""Every place in a JSON value, and the value with something else in one place."""

from function.kube.manifests import JSON

Place = tuple[str | int, ...]


def list_places(value: JSON, path: Place = ()) -> list[Place]:
    """Returns the path of everything below a value, each before what is below it; keys are sorted."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [p for key in sorted(value) for p in list_places(value[key], (*path, key))]
    if isinstance(value, list):
        return found + [p for index, item in enumerate(value) for p in list_places(item, (*path, index))]
    return found


def replace_place(value: JSON, path: Place, new: JSON) -> JSON:
    """Returns the value with something else at a path."""
    if not path:
        return new
    first, *rest = path
    if isinstance(value, dict):
        return {k: replace_place(v, tuple(rest), new) if k == first else v for k, v in value.items()}
    assert isinstance(value, list)
    return [replace_place(v, tuple(rest), new) if i == first else v for i, v in enumerate(value)]
