"""References from one object of ours to another."""

from function.api.block import Block
from function.domain.model import ModelRef


def read_model_ref(spec: Block) -> ModelRef:
    """Return which model is meant: a ClusterModel unless another kind is named."""
    reference = spec.block("modelRef")
    return ModelRef(kind=reference.text("kind", "ClusterModel"), name=reference.text("name"))
