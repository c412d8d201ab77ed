"""docs/serve.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

from kazeia.serve import limits
from kazeia.serve.speech_request import SpeechRequest
from tests.serve.service import Service

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()


def rows(heading: str) -> str:
    """First column of the table after a heading."""
    lines = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0].splitlines()
    return "\n".join(line.split("|")[1] for line in lines if line.startswith("| ") and "---" not in line)


def test_the_fields_are_those_of_a_request() -> None:
    assert re.findall(r"`(\w+)`", rows("## The request")) == list(SpeechRequest.__struct_fields__)


def test_the_paths_answer(service: Service) -> None:
    paths = re.findall(r"`GET (/\S*)`", rows("# A warm service") + PAGE.partition("## ")[0])
    assert len(set(paths)) == 6
    for path in set(paths):
        assert service.ask("GET", path.replace("NAME", "kazeia")).status == 200


def test_the_limits_are_those_of_the_service() -> None:
    for number, unit in ((limits.HEAD_TIMEOUT_S, "s"), (limits.BODY_TIMEOUT_S, "s"), (limits.SHUTDOWN_TIMEOUT_S, "s")):
        assert f"{number:.0f} {unit}" in PAGE
    assert f"nothing for {limits.WRITE_TIMEOUT_S:.0f} s" in PAGE
    assert f"within {limits.REQUEST_TIMEOUT_S / 60:.0f} minutes" in PAGE
    assert f"above {limits.MAX_BODY_BYTES // 1024} KiB" in PAGE
    assert f":{limits.DEFAULT_PORT}" in PAGE


def test_the_metrics_it_names_exist(service: Service) -> None:
    text = service.ask("GET", "/metrics").body.decode()
    named = re.findall(r"kazeia_[a-z_]+", PAGE)
    assert named
    assert all(name in text for name in named)
