"""What a model file is made of before lowering: its methods, its constants, and what quantisation must leave alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torch import nn


class Method(NamedTuple):
    """One method of a program. Methods that share a module share its weights in the file."""

    module: nn.Module
    inputs: tuple[Any, ...]
    """Example inputs of `module.forward`; nested lists are flattened in order into the method's inputs."""
    dynamic_shapes: Any | None = None
    """As `torch.export.export` takes it; None when every shape is fixed."""


@dataclass(frozen=True)
class ProgramSpec:
    """A `.pte` file to be. The runner reads `constants` as methods of the same names."""

    name: str
    methods: dict[str, Method]
    constants: dict[str, int | float]
    eight_bit: frozenset[str] = field(default_factory=frozenset)
    """Names (last part) of linear layers that stay at 8 bits when the rest has 4."""
    quantised: Literal["linear layers", "convolutions"] = "linear layers"
    """What quantisation touches; the rest stays in float32."""
