"""What is wrong, by name: told from how the three paths of a method differ."""

from __future__ import annotations

import numpy as np

from kazeia.export.quality_case import Case, Output, Traces, compared, input_faults
from kazeia.export.quality_measures import fit_line, sqnr_db
from kazeia.quality import Fault, Gates, MethodQuality, OutputQuality

EXPLAINED_DB = 15.0
"""A line explains an error when undoing it gains this much."""
VISIBLE_SCALE, VISIBLE_OFFSET = 0.005, 0.02
"""What is off by less is rounding; offsets in parts of the signal's root mean square."""


def find_faults(case: Case, traces: Traces, measured: MethodQuality, gates: Gates) -> list[Fault]:
    """Faults of calibration and of lowering; empty when the gates hold and the inputs are as calibrated."""
    faults = input_faults(case, traces.seen)
    for output in measured.outputs:
        if output.quantized_db is not None and output.quantized_db < gates.quantized_db:
            faults.append(_calibration_fault(case, measured, output))
        if (fault := _lowering_fault(case, traces, output, gates)) is not None:
            faults.append(fault)
    return faults


def _calibration_fault(case: Case, measured: MethodQuality, output: OutputQuality) -> Fault:
    follows = "" if output.lowered_db is None else f", while the NPU follows the quantised model at {output.lowered_db:.1f} dB"
    worst = ", ".join(f"{layer.name} ({layer.own_db:.0f} dB)" for layer in measured.worst(3))
    return Fault(
        "calibration",
        f"{case.where} {output.name}",
        f"quantising leaves {output.quantized_db:.1f} dB{follows}; worst layers: {worst}",
    )


def _lowering_fault(case: Case, traces: Traces, output: OutputQuality, gates: Gates) -> Fault | None:
    gate = gates.fp16_db if case.graph is None else gates.lowered_db
    if output.lowered_db is None or output.lowered_db >= gate:
        return None
    before = "float" if case.graph is None else "quantised"
    of = next(one for one in case.outputs if one.name == output.name)
    reason = _explained(of, traces, output.lowered_db) or "and no scale or offset explains it"
    return Fault(
        "lowering",
        f"{case.where} {output.name}",
        f"the NPU's result is {output.lowered_db:.1f} dB from the {before} model, {reason}",
    )


def _explained(output: Output, traces: Traces, lowered_db: float) -> str | None:
    """Wrong scales or zero points, if undoing them makes the error go away. Each tensor of an output may have its own."""
    emulated, wanted = compared(output, traces.emulated, traces.quantized or traces.float)
    lines, corrected = [], []
    for position in range(len(emulated[0])):
        got = np.concatenate([call[position] for call in emulated])
        x = np.concatenate([call[position] for call in wanted])
        line = fit_line(got, x)
        if line is None:
            return None
        lines.append(line)
        corrected.append((got - line.offset) / line.gain)
    x = np.concatenate([call[position] for position in range(len(lines)) for call in wanted])
    corrected_db = sqnr_db(np.concatenate(corrected), x)
    if corrected_db < lowered_db + EXPLAINED_DB:
        return None
    offsets = [line.offset for line in lines]
    parts = []
    if any(abs(line.gain - 1) > VISIBLE_SCALE for line in lines):
        parts.append(f"a wrong scale (times {_span([line.gain for line in lines])})")
    if max(map(abs, offsets)) > VISIBLE_OFFSET * float(np.sqrt(np.square(x).mean())):
        parts.append(f"a wrong zero point (off by {_span(offsets)})")
    return f"by {' and '.join(parts)}: without, it would be {corrected_db:.1f} dB" if parts else None


def _span(values: list[float]) -> str:
    """One number, or the least and the greatest."""
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"
