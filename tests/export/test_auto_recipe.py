"""`--auto`: the recipe it finds, and when it gives up."""

from __future__ import annotations

from kazeia.export.auto_recipe import find_recipe, widen
from kazeia.export.qnn_quantize import Recipe
from kazeia.export.quality_case import measure, trace
from kazeia.quality import Gates, LayerQuality
from tests.export.quality_modules import small_case


def test_layers_are_widened_until_the_gates_hold() -> None:
    gates = Gates(quantized_db=22.0)
    recipe, case, rounds = find_recipe(small_case, Recipe("16a4w"), gates)
    assert rounds[0].widened == []
    assert rounds[0].failures != []
    assert rounds[-1].failures == []
    assert 1 <= len(recipe.overrides) < 3
    assert recipe.precision == "16a4w"
    assert [step.quantized_db for step in rounds] == sorted(step.quantized_db for step in rounds)
    widened = {name.split(":")[0] for step in rounds for name in step.widened}
    assert {pattern for pattern, _ in recipe.overrides} == {f"^{name}$" for name in widened}
    # The recipe it tells is the one that holds: quantised with it from scratch, the result is the same.
    again = small_case(recipe)
    assert measure(again, trace(again)).outputs == measure(case, trace(case)).outputs


def test_it_stops_when_nothing_is_left_to_widen() -> None:
    recipe, _, rounds = find_recipe(small_case, Recipe("16a4w"), Gates(quantized_db=150.0))
    assert dict(recipe.overrides) == {"^up$": "16a16w", "^mix$": "16a16w", "^head$": "16a16w"}
    assert rounds[-1].failures != []
    assert len(rounds) == 7


def test_it_stops_after_so_many_rounds() -> None:
    _, _, rounds = find_recipe(small_case, Recipe("16a4w"), Gates(quantized_db=150.0), rounds=2)
    assert len(rounds) == 3


def test_a_good_recipe_is_left_alone() -> None:
    recipe, _, rounds = find_recipe(small_case, Recipe("16a8w"), Gates())
    assert recipe == Recipe("16a8w")
    assert len(rounds) == 1


def test_a_layers_own_pattern_comes_first() -> None:
    layer = LayerQuality("layers.0.down", "16a4w", 3.0, 3.0, True)
    recipe = widen(Recipe("16a4w", (("down", "16a4w"),)), [layer])
    assert recipe.overrides == ((r"^layers\.0\.down$", "16a8w"), ("down", "16a4w"))
    again = widen(recipe, [LayerQuality("layers.0.down", "16a8w", 3.0, 3.0, True)])
    assert again.overrides == ((r"^layers\.0\.down$", "16a16w"), ("down", "16a4w"))
