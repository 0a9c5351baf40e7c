"""Estimates the least size of weights from the number of parameters in the name of a model.

It is a lower bound, for warnings only: a model of one byte a parameter, or half a byte if its name says 4 bits.
"""

import re

from function.domain.model import HuggingFaceSource, Model
from function.kube.quantity import gib

_PARAMETERS = re.compile(r"(?<![a-z0-9.])(?:([0-9]{1,3})x)?([0-9]{1,4}(?:\.[0-9]{1,3})?)b(?![a-z0-9])", re.ASCII)
_FOUR_BITS = ("4bit", "int4", "fp4", "w4a16", "awq", "gptq", "gguf", "bnb")


def describe_small_claim(model: Model, size: int | None) -> str:
    """Returns that a claim is too small for a model that declares no sizes; empty if it may be large enough."""
    if not size or model.disk or model.vram:
        return ""
    repo = model.source.repo if isinstance(model.source, HuggingFaceSource) else ""
    name = f"{model.name} {model.served_name} {repo}".lower()
    counts = [int(experts or 1) * float(billions) for experts, billions in _PARAMETERS.findall(name)]
    is_small = any(word in name for word in _FOUR_BITS)
    least = int(max(counts, default=0) * 10**9 * (0.5 if is_small else 1))
    if least <= size:
        return ""
    per_parameter = "half a byte" if is_small else "one byte"
    weights = f"{model.name} takes at least {gib(least)} with {per_parameter} for each parameter in its name"
    return f"is {gib(size)}, and {weights}; enlarge it, and set spec.resources.disk of the model"
