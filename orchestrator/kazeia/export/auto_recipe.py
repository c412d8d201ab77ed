"""`--auto`: give more bits to the layers that lose most, until the gates hold."""

from __future__ import annotations

import re
from collections.abc import Callable

from kazeia.export.qnn_quantize import Precision, Recipe
from kazeia.export.quality_case import Case, measure, trace
from kazeia.quality import AutoRound, Gates, LayerQuality, MethodQuality, judge_method

WIDER: dict[str, Precision] = {"16a4w": "16a8w", "16a8w": "16a16w"}
"""The next step up for weights: 4 bits to 8, 8 to 16."""

WIDENED_PART = 8
"""A round widens the worst eighth of the layers that can still be widened."""
MOST_ROUNDS = 12


def find_recipe(
    build: Callable[[Recipe], Case], recipe: Recipe, gates: Gates, rounds: int = MOST_ROUNDS
) -> tuple[Recipe, Case, list[AutoRound]]:
    """Widen `recipe` until the quantised graph holds the gates, or nothing is left to widen.

    Args:
        build: quantises with a recipe; nothing needs to be emulated.

    Returns:
        The recipe, its case, and what each round did; the first round widens nothing.
    """
    history: list[AutoRound] = []
    widened: list[str] = []
    while True:
        case = build(recipe)
        measured = measure(case, trace(case))
        failures = list(judge_method(measured, gates))
        history.append(AutoRound(case.program, widened, _lowest(measured), failures))
        worst = _widenable(measured)
        if not failures or not worst or len(history) > rounds:
            return recipe, case, history
        chosen = worst[: max(1, len(worst) // WIDENED_PART)]
        recipe = widen(recipe, chosen)
        widened = [f"{layer.name}: {layer.precision} to {WIDER[layer.precision]}" for layer in chosen]


def widen(recipe: Recipe, layers: list[LayerQuality]) -> Recipe:
    """`recipe` with the next precision up for each of `layers`; a layer's own pattern comes before any other."""
    new = {f"^{re.escape(layer.name)}$": WIDER[layer.precision] for layer in layers}
    kept = [(pattern, precision) for pattern, precision in recipe.overrides if pattern not in new]
    return Recipe(recipe.precision, (*new.items(), *kept))


def _widenable(measured: MethodQuality) -> list[LayerQuality]:
    """Layers with weights that have not all the bits yet, the worst first."""
    return [layer for layer in measured.worst(len(measured.layers)) if layer.weighted and layer.precision in WIDER]


def _lowest(measured: MethodQuality) -> float:
    return min((output.quantized_db for output in measured.outputs if output.quantized_db is not None), default=0.0)
