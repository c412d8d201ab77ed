"""The HTML page: complete, well-formed, and in need of nothing beside it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from kazeia.export.quality_plots import Bar, Group, columns, rows
from kazeia.export.quality_report import write_report
from kazeia.quality import Agreement, AutoRound, DecoderQuality, Fault, OutputQuality, Quality, SpeechQuality, Stage, judge
from tests.test_quality import method, quality


@pytest.fixture
def full() -> Quality:
    decode = method(agreement=[Agreement(0, 0.95, None)])
    frame = method(
        "fp16",
        program="code_predictor",
        method="frame",
        outputs=[OutputQuality("embedding <sum>", None, 55.0, 55.0)],
        agreement=[Agreement(n, None, 0.9) for n in range(1, 16)],
        layers=[],
    )
    made = quality(
        decode,
        frame,
        decoder=[DecoderQuality("Ça & <là>", 20, 30.0, -0.1, 0.5)],
        speech=[
            SpeechQuality("Да.", 1, 20, 21, 3, 1, 0.5, 4.0, 1.0),
            SpeechQuality("Ja.", 1, 20, 20, None, None, 0.0, 0.0, 0.0),
        ],
        stages=[Stage("quantizer", "xnnpack", 0.1), Stage("decoder stack", "qnn", None)],
        recipes={"talker": {"*": "16a4w", "^layers\\.3$": "16a8w"}},
        auto=[AutoRound("talker", [], 12.0, ["x"]), AutoRound("talker", ["layers.3: 16a4w to 16a8w"], 31.0, [])],
        faults=[Fault("lowering", "talker.decode logits", "a wrong scale (times 2)")],
        notes=["The speech encoder was not measured."],
    )
    made.failures = judge(made)
    return made


def test_the_page_has_everything_and_loads_nothing(full: Quality, tmp_path: Path) -> None:
    path = tmp_path / "quality.html"
    write_report(path, full)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    for part in (
        "Below the gates.",
        "<b>lowering fault</b> in talker.decode logits: a wrong scale (times 2)",
        "talker, decode (16a8w)",
        "code_predictor, frame (fp16)",
        "layers.19 (16a8w)",
        "Ça &amp; &lt;là&gt;",
        "embedding &lt;sum&gt;",
        "<td>+1</td>",
        "decoder stack",
        "talker ^layers\\.3$",
        "layers.3: 16a4w to 16a8w",
        "The speech encoder was not measured.",
    ):
        assert part in page, part
    plots = re.findall(r"<svg.*?</svg>", page)
    assert len(plots) == 6
    for plot in plots:
        ET.fromstring(plot)


def test_a_good_bundle_says_so(tmp_path: Path) -> None:
    write_report(tmp_path / "q.html", quality(method()))
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    assert "All gates hold." in page
    assert "Below the gates" not in page


def test_a_missing_value_is_an_error_not_a_gap(full: Quality, tmp_path: Path) -> None:
    import jinja2

    from kazeia.templates import render

    with pytest.raises(jinja2.UndefinedError):
        render("quality_report.html.j2", quality=full)


def test_the_report_survives_json(full: Quality) -> None:
    assert msgspec.json.decode(msgspec.json.encode(full), type=Quality) == full


def test_bars_have_lengths_in_proportion_and_stay_inside() -> None:
    groups = [Group("a", (Bar(25.0, "quantized"),)), Group("b", (Bar(50.0, "quantized"),)), Group("c", (Bar(900.0, "x"),))]
    root = ET.fromstring(rows(groups, "dB", 100.0, "t"))
    a, b, c = (float(rect.get("width", "")) for rect in root.iter("rect"))
    assert b == pytest.approx(2 * a)
    assert c == pytest.approx(4 * a)
    tall = ET.fromstring(columns([Group("1", (Bar(0.5, "q"), Bar(None, "e"))), Group("2", (Bar(1.0, "q"),))], 1.0, "t", 0.8))
    heights = [float(rect.get("height", "")) for rect in tall.iter("rect")]
    assert heights[1] == pytest.approx(2 * heights[0])
    assert len(heights) == 2
