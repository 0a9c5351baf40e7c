"""What would be read as more than text on its way to a container.

KServe sends the merged spec of a service through a Go template, where `{{` begins an expression, and gives the address
of the weights to a container as an argument, where the kubelet replaces `$(NAME)` by a variable, a credential's too.
"""

from collections.abc import Iterator

from function.api.block import Block
from function.api.problems import join, wrong
from function.kube.manifests import JSON

_TEMPLATE, _EXPANSION = "{{", "$("


def refuse_templates(block: Block, key: str = "") -> None:
    """Note every text of a block, or of one of its fields, that KServe would read as a template; keys of maps too."""
    value = block.fields.get(key) if key else block.fields
    # Written by Python a map begins with {' and a list with [, so that {{ stands there only where it stands in a text.
    for path, text in _texts(value, block.at(key)) if _TEMPLATE in str(value) else ():
        if _TEMPLATE in text:
            block.faults.add(wrong(path, text, "without {{, which KServe reads as a template"))


def refuse_expansions(block: Block, key: str) -> None:
    """Note an address that a container would not get as it is written."""
    found = block.fields.get(key)
    if isinstance(found, str) and _EXPANSION in found:
        block.deny(key, "without $(, which names a variable of the container that reads it")


def _texts(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text within a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _texts(item, join(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, join(path, index))
