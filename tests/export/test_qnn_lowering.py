"""Lowering for the NPU: what does not go there is named, and what is wrong with a calibration too."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from kazeia.errors import ExportError, UsageError
from kazeia.export.qnn_lowering import QnnTarget, lower
from kazeia.export.qnn_quantize import Recipe, input_encodings, quantized, quantized_methods
from kazeia.export.soc_profiles import soc_ids, soc_profile

FP16, STATIC = Recipe("fp16"), Recipe("16a8w")
TARGET = QnnTarget("SM8750", for_emulator=True)


class Strange(nn.Module):
    """Two operators the NPU has not got, around one it has."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(torch.digamma(x) * 2)


class Gate(nn.Module):
    """A linear layer named twice in a recipe."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.tanh(self.first(x)))
        return y


def test_every_operator_that_is_left_over_is_named() -> None:
    with pytest.raises(ExportError) as caught:
        lower({"decode": (Strange(), (torch.rand(2, 3),))}, {}, TARGET, FP16)
    assert "method decode leaves aten::digamma, aten::special_bessel_j0 to the CPU" in str(caught.value)


def test_an_unknown_chip_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown SoC 'SM1'; choose one of SM8650, SM8750, SM8850"):
        QnnTarget("SM1", for_emulator=True)


def test_every_chip_has_a_profile_and_a_compiler() -> None:
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    assert {"SM8650", "SM8750", "SM8850"} <= set(soc_ids())
    for soc in soc_ids():
        profile = soc_profile(soc)
        assert soc in QcomChipset.__members__
        assert 0 < profile.memory_gb_per_s[0] <= profile.memory_gb_per_s[1]


def test_no_samples_and_samples_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ExportError, match="there is no calibration sample for method forward; run kz calibrate first"):
        quantized(Gate(), [], STATIC)
    with pytest.raises(ExportError, match="a calibration sample for forward has values that are not finite"):
        quantized(Gate(), [(torch.tensor([[float("nan")] * 16]),)], STATIC)


def test_methods_share_what_any_of_them_saw() -> None:
    module = Gate().eval()
    samples = {"small": [(torch.rand(1, 16),)], "large": [(torch.rand(3, 16) * 50,)]}
    graphs = quantized_methods(dict.fromkeys(samples, module), samples, STATIC)
    scales = [input_encodings(graph, re.compile("x"))["x"].scale for graph in graphs.values()]
    assert scales[0] == scales[1]
    assert scales[0] == pytest.approx(50 / 65535, rel=0.1)


def test_a_recipe_widens_the_layers_it_names() -> None:
    def levels(recipe: Recipe) -> list[int]:
        """Distinct weights of each layer."""
        graph = quantized(Gate().eval(), [(torch.rand(4, 16),)], recipe)
        weights = [value for name, value in graph.named_buffers() if value.dim() == 2]
        return [len(torch.unique(weight)) for weight in weights]

    narrow, wide = levels(Recipe("16a4w")), levels(Recipe("16a4w", (("second", "16a8w"),)))
    assert max(narrow) <= 16
    assert wide[0] <= 16 < wide[1]
