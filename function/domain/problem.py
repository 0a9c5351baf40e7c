"""A fault in an object's fields, with where it is, what was found and what is allowed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault. `path` is the field (`spec.serving[0].engine.image`), `message` the rest of the sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
