"""The quality report as one HTML page that needs nothing beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kazeia.export.quality_plots import Bar, Group, columns, rows
from kazeia.files import atomic_write
from kazeia.quality import Gates, MethodQuality, Quality
from kazeia.templates import render_to

TEMPLATE = "quality_report.html.j2"
HIGHEST_DB = 100.0
WORST_LAYERS = 10


@dataclass(frozen=True)
class MethodView:
    """A method and its plots, as SVG."""

    measured: MethodQuality
    lowered_gate_db: float
    outputs_plot: str
    agreement_plot: str | None
    worst_plot: str | None
    layers_plot: str | None


def write_report(path: Path, quality: Quality) -> None:
    """Write the page, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    views = [_view(method, quality.gates) for method in quality.methods]
    with atomic_write(path) as file:
        render_to(file, TEMPLATE, quality=quality, views=views)


def _view(method: MethodQuality, gates: Gates) -> MethodView:
    where = f"{method.program}.{method.method}"
    outputs = [
        Group(
            output.name,
            (Bar(output.quantized_db, "quantized"), Bar(output.lowered_db, "lowered"), Bar(output.emulated_db, "emulated")),
        )
        for output in method.outputs
    ]
    agreement = [
        Group(str(one.codebook), (Bar(one.quantized, "quantized"), Bar(one.emulated, "emulated"))) for one in method.agreement
    ]
    worst = [Group(f"{layer.name} ({layer.precision})", (Bar(layer.own_db, "own"),)) for layer in method.worst(WORST_LAYERS)]
    layers = [
        Group(str(number), (Bar(layer.own_db, "own"), Bar(layer.db, "total"))) for number, layer in enumerate(method.layers, 1)
    ]
    bound = gates.first_agreement if any(one.codebook == 0 for one in method.agreement) else gates.other_agreement
    return MethodView(
        measured=method,
        lowered_gate_db=gates.fp16_db if method.precision == "fp16" else gates.lowered_db,
        outputs_plot=rows(outputs, "dB", HIGHEST_DB, f"signal to error of the outputs of {where}"),
        agreement_plot=columns(agreement, 1.0, f"agreement of codes of {where}", bound) if agreement else None,
        worst_plot=rows(worst, "dB", HIGHEST_DB, f"worst layers of {where}") if worst else None,
        layers_plot=columns(layers, HIGHEST_DB, f"signal to error of all layers of {where}") if layers else None,
    )
