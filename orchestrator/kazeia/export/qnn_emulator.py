"""Programs for the NPU, executed on this machine by Qualcomm's emulator: slow, and bit for bit what the compiler made of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from kazeia.errors import ExportError
from kazeia.export.qnn_lowering import load_qnn
from kazeia.export.quiet import silent_libraries


class Emulator:
    """One loaded program; keep it for as long as it is needed, as loading one program twice in a process can go wrong."""

    def __init__(self, program: bytes) -> None:
        """Raises ExportError when the program cannot be loaded, for example because its methods share weights."""
        from executorch.runtime import Runtime

        load_qnn()
        self._folder = tempfile.TemporaryDirectory(prefix="kz-emulate-")
        path = Path(self._folder.name, "program.pte")
        path.write_bytes(program)
        self._program = Runtime.get().load_program(path)
        self._methods: dict[str, Any] = {}

    def run(self, method: str, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """Outputs of `method`, flat and copied; `inputs` as the module's `forward` takes them.

        Raises:
            ExportError: the emulator cannot load or run it.
        """
        with silent_libraries():
            try:
                if method not in self._methods:
                    self._methods[method] = self._program.load_method(method)
                outputs = self._methods[method].execute(tree_leaves(inputs))
            except RuntimeError as error:
                raise ExportError(
                    f"the emulator cannot run method {method} ({error}); export with --for emulator, which shares no weights"
                ) from error
        return tuple(output.clone() for output in outputs)


def emulate(program: bytes, method: str, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """`Emulator.run`, once."""
    return Emulator(program).run(method, inputs)
