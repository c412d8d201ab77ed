"""From modules to a program for the NPU: one delegate a method, or an error that names what is left over.

Qualcomm's compiler runs in this process. It writes a binary for one kind of chip, which the emulator of this machine can execute
too, but for one thing: methods that share their weights in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from executorch.backends.qualcomm._passes import TagQuantIO
from executorch.backends.qualcomm._passes.build_quant_io import BuildQuantIo
from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset, QnnExecuTorchBackendType
from executorch.backends.qualcomm.utils.constants import QCOM_PASS_ACTIVATE_KEY, QCOM_PASS_ARGS_KWARGS_DEFAULTS_KEY
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from torch import nn

from kazeia.errors import ExportError
from kazeia.export.qnn_quantize import Inputs, Recipe
from kazeia.export.quiet import silent_libraries
from kazeia.export.soc_profiles import soc_profile
from kazeia.qnn_sdk import HTP_LIBRARY, PACKAGE, PACKAGE_VERSION, find_qnn_sdk, keep_executorch_offline


@dataclass(frozen=True)
class QnnTarget:
    """What a program is made for.

    Raises:
        UsageError: the chip is unknown.
    """

    soc: str
    """Id of a profile in `deploy/socs`."""
    for_emulator: bool
    """Each method then has its own copy of the weights: the emulator cannot load methods that share them."""

    def __post_init__(self) -> None:
        soc_profile(self.soc)


@dataclass(frozen=True)
class QuantizedIo:
    """Inputs and outputs that stay as the NPU stores them, without a conversion at the border."""

    dtype: torch.dtype
    inputs: re.Pattern[str]
    """Names of inputs; a list `past_k` of tensors has the names `past_k_0`, `past_k_1`, ..."""
    outputs: Collection[int]
    """Positions among the flat outputs."""
    methods: Collection[str] = field(default_factory=frozenset)
    """Methods this holds for; empty means all."""


@cache
def load_qnn() -> str:
    """Load the QNN libraries into this process, once; returns QNN's version.

    ExecuTorch opens `libQnnHtp.so` by name: a library of that name which is loaded already is taken, whatever the search path.
    They must come after PyTorch, which brings another C++ runtime.

    Raises:
        UsageError: see `find_qnn_sdk`.
        ExportError: they cannot be loaded.
    """
    sdk = find_qnn_sdk()
    keep_executorch_offline()
    try:
        with silent_libraries():
            for library in ("libQnnSystem.so", HTP_LIBRARY):
                ctypes.CDLL(str(sdk.folder / library))
    except OSError as error:
        raise ExportError(
            f"cannot load the QNN libraries of {sdk.source} ({error}); install {PACKAGE}=={PACKAGE_VERSION}"
        ) from error
    return sdk.version


def lower(
    methods: Mapping[str, tuple[nn.Module, Inputs]],
    constants: Mapping[str, int | float],
    target: QnnTarget,
    recipe: Recipe,
    quantized_io: QuantizedIo | None = None,
) -> bytes:
    """One program with all `methods`, each wholly on the NPU. Inputs and outputs are not memory-planned.

    Args:
        methods: module and example inputs by name. For a quantised recipe the modules are graphs of `qnn_quantize`.
        constants: become methods that return them.
        quantized_io: what crosses the border unconverted; everything else is float32 (or an integer) there.

    Raises:
        ExportError: names every operator outside of its method's one delegate, or tells why the compiler refused.
    """
    load_qnn()
    with torch.no_grad(), silent_libraries(), _compiler_faults(target):
        edge = to_edge_transform_and_lower_to_qnn(
            {
                name: module if isinstance(module, torch.fx.GraphModule) else module.eval()
                for name, (module, _) in methods.items()
            },
            {name: inputs for name, (_, inputs) in methods.items()},
            {name: _compiler_spec(target, recipe, len(methods)) for name in methods},
            constant_methods=dict(constants),
            passes_job={name: _passes(name, quantized_io) for name in methods},
        )
        _check_delegates({name: edge.exported_program(name) for name in methods})
        config = ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
            passes=[BuildQuantIo()] if quantized_io else [],
        )
        return bytes(edge.to_executorch(config).buffer)


def _compiler_spec(target: QnnTarget, recipe: Recipe, method_count: int) -> list[Any]:
    shares_weights = method_count > 1 and not target.for_emulator
    options = generate_htp_compiler_spec(use_fp16=recipe.precision == "fp16", use_weight_sharing=shares_weights)
    spec: list[Any] = generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset[target.soc], backend_options=options, shared_buffer=not target.for_emulator
    )
    return spec


def _passes(method: str, quantized_io: QuantizedIo | None) -> Any:
    """ExecuTorch's passes for the HTP, with the one switched on that leaves inputs and outputs quantised."""
    passes = get_qnn_pass_manager_cls(QnnExecuTorchBackendType.kHtpBackend)().get_capture_program_passes()
    if quantized_io is not None and (not quantized_io.methods or method in quantized_io.methods):
        passes[TagQuantIO][QCOM_PASS_ACTIVATE_KEY] = True
        passes[TagQuantIO][QCOM_PASS_ARGS_KWARGS_DEFAULTS_KEY]["get_quant_io_dtype_fn"] = _tagger(quantized_io)
    return passes


def _tagger(quantized_io: QuantizedIo) -> Callable[[torch.fx.Node], torch.dtype | None]:
    def dtype_of(node: torch.fx.Node) -> torch.dtype | None:
        if node.op == "placeholder":
            return quantized_io.dtype if quantized_io.inputs.fullmatch(node.name) else None
        outputs = list(node.graph.output_node().args[0])  # type: ignore[arg-type]
        is_kept = any(output is node and index in quantized_io.outputs for index, output in enumerate(outputs))
        return quantized_io.dtype if is_kept else None

    return dtype_of


def _check_delegates(programs: Mapping[str, Any]) -> None:
    """ExportError unless each method is one delegate and nothing else."""
    faults = []
    for name, program in programs.items():
        called = Counter(_operator_name(node.target) for node in program.graph.nodes if node.op == "call_function")
        delegates = called.pop("executorch_call_delegate", 0)
        left = sorted(called.keys() - {"getitem"})
        if left:
            faults.append(f"method {name} leaves {', '.join(left)} to the CPU")
        elif delegates != 1:
            faults.append(f"method {name} has {delegates} delegates instead of one")
    if faults:
        raise ExportError(f"not all of the model lowers to the NPU: {'; '.join(faults)}; run these models with --backend xnnpack")


def _operator_name(target: Any) -> str:
    """`aten.sin.default` of an operator, `getitem` of a function."""
    return getattr(target, "_name", None) or getattr(target, "__name__", None) or str(target)


@contextlib.contextmanager
def _compiler_faults(target: QnnTarget) -> Iterator[None]:
    """The compiler's failures come as RuntimeErrors and assertions."""
    try:
        yield
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExportError(f"Qualcomm's compiler refused the model for {target.soc} ({reason}); try another --quant") from error
