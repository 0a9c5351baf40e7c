"""LabelSelector blocks, refused where apimachinery would refuse them.

Keys are `[prefix/]name`, values have at most 63 characters; In and NotIn need values, Exists and DoesNotExist
take none.
"""

import re

from function.api.block import Block
from function.api.problems import join, wrong
from function.kube.selectors import Operator, Requirement, Selector

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/"
_KEY = re.compile(rf"({_PREFIX})?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_A_KEY = "the key of a label, [prefix/]name"
_A_VALUE = "the value of a label, at most 63 letters, digits, dots, dashes and underscores"


def read_selector(block: Block) -> Selector:
    """Return the selector that a block stands for; without requirements it admits everything."""
    equal = [_equality(block.block("matchLabels"), key, value) for key, value in block.strings("matchLabels")]
    expressions = [_expression(item) for item in block.blocks("matchExpressions")]
    requirements = {requirement for requirement in equal + expressions if requirement is not None}
    return Selector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))


def _equality(labels: Block, key: str, value: str) -> Requirement | None:
    if not _KEY.fullmatch(key):
        labels.faults.add(wrong(labels.at(key), key, _A_KEY))
    elif not _VALUE.fullmatch(value):
        labels.deny(key, _A_VALUE)
    else:
        return Requirement(key=key, operator=Operator.IN, values=(value,))
    return None


def _expression(block: Block) -> Requirement | None:
    key, operator, values = block.fields.get("key"), block.text("operator"), block.texts("values")
    if isinstance(key, str) and not _KEY.fullmatch(key):
        block.deny("key", _A_KEY)
    for index, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            block.faults.add(wrong(block.at(join("values", index)), value, _A_VALUE))
    if operator in {Operator.IN, Operator.NOT_IN} and not values and not block.problems("values"):
        block.deny("values", f"at least one value for operator {operator}")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST} and values:
        block.deny("values", f"left out for operator {operator}")
    # The schema says nothing of what is in a list that is too long.
    if block.problems() or operator not in set(Operator):
        return None
    return Requirement(key=block.text("key"), operator=Operator(operator), values=tuple(sorted(set(values))))
