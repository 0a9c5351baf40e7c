"""On which line of a file a field stands."""

import re

import yaml

_STEPS = re.compile(r"([^.\[\]]+)|\[(\d+)\]", re.ASCII)


def line_of(node: yaml.Node, path: str) -> int:
    """Return the line of a field such as `spec.serving[0].engine`, from 1; else of what is around it."""
    return _last(node, path)[0] + 1


def at(node: yaml.Node, path: str) -> yaml.Node:
    """Return the node of a field, else that of what is around it."""
    return _last(node, path)[1]


def _last(node: yaml.Node, path: str) -> tuple[int, yaml.Node]:
    line = node.start_mark.line
    for step in _STEPS.finditer(path):
        found = _entry(node, step[1]) if step[1] else _item(node, int(step[2]))
        if found is None:
            break
        line, node = found
    return line, node


def _entry(node: yaml.Node, name: str) -> tuple[int, yaml.Node] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next(((key.start_mark.line, value) for key, value in pairs if key.value == name), None)


def _item(node: yaml.Node, index: int) -> tuple[int, yaml.Node] | None:
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    return (items[index].start_mark.line, items[index]) if index < len(items) else None
