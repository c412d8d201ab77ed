"""From a `ProgramSpec` to the bytes of a `.pte` file: quantise, export each method, lower all of them into one program."""

from __future__ import annotations

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass

from kazeia.errors import ExportError
from kazeia.export.options import CpuQuant
from kazeia.export.program import ProgramSpec
from kazeia.export.progress import Progress, silent
from kazeia.export.quantize import quantize
from kazeia.export.quantized_kernel import quantize_kernels


def lower(spec: ProgramSpec, backend: str, quant: CpuQuant, progress: Progress = silent) -> bytes:
    """Bytes of the program; what `spec` names of its modules is quantised in place.

    Inputs and outputs are not memory-planned: the runner binds its own buffers to both, so KV slices are written in place.
    Weights that several methods use are stored once.

    Raises:
        ExportError: an unknown backend, or a program or layer that does not fit `quant`.
    """
    if backend != "xnnpack":
        raise ExportError(f"cannot lower for backend {backend!r}; choose xnnpack")
    if spec.quantised == "convolutions" and quant == "8da4w":
        raise ExportError(f"{spec.name}: convolutions have no kernels with 4-bit weights; choose fp32 or 8da8w")
    modules = [method.module.eval() for method in spec.methods.values()]
    with torch.no_grad():
        if quant != "fp32":
            with progress(f"{spec.name}: quantise"):
                if spec.quantised == "convolutions":
                    quantize_kernels(modules)
                else:
                    quantize(modules, quant, spec.eight_bit)
        with progress(f"{spec.name}: trace"):
            exported = {
                name: torch.export.export(method.module, method.inputs, dynamic_shapes=method.dynamic_shapes)
                for name, method in spec.methods.items()
            }
        with progress(f"{spec.name}: lower"):
            edge = to_edge_transform_and_lower(
                exported, partitioner=[XnnpackPartitioner()], constant_methods=dict(spec.constants)
            )
            del exported
        with progress(f"{spec.name}: serialise"):
            planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
            program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
            return bytes(program.buffer)
