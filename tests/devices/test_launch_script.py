"""The launch script's template, and runners that loaded something else than this side's bundle."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from kazeia.bundle import read_manifest
from kazeia.devices.base import Channel, Device
from kazeia.errors import RunnerError
from kazeia.runner_client import RunnerClient
from kazeia.templates import render

VALUES = {"kept_runs": 8, "performance_mask": None, "log_level": "warning"}


@pytest.mark.parametrize("missing", list(VALUES))
def test_a_missing_value_is_an_error(missing: str) -> None:
    with pytest.raises(UndefinedError, match=missing):
        render("launch.sh.j2", **{name: value for name, value in VALUES.items() if name != missing})


@pytest.mark.parametrize("shell", ["sh", "mksh", "bash"])
def test_a_run_leaves_its_process_its_log_and_its_status(tmp_path: Path, shell: str) -> None:
    if subprocess.run(["which", shell], capture_output=True, check=False).returncode:
        pytest.skip(f"no {shell} here")
    folder = tmp_path / "root (1);'x' \"y" / "deployments" / "id"
    folder.mkdir(parents=True)
    (folder / "launch.sh").write_text(render("launch.sh.j2", **{**VALUES, "performance_mask": 1, "log_level": "$(id); 'x"}))
    (folder / "kz_runner").write_text(
        '#!/bin/sh\necho "$LD_LIBRARY_PATH|$ADSP_LIBRARY_PATH"\nfor a in "$@"; do echo "<$a>"; done\n'
        "cat\necho oops >&2\nkill -9 $$\n"
    )
    (folder / "kz_runner").chmod(0o755)
    done = subprocess.run(
        [shell, folder / "launch.sh", "run-1", "--role", "generate"],
        input=b"\x00\xff\r\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/theirs"},
        check=False,
    )
    expected = [
        b"run-1",
        b"lib:/theirs|" + os.fsencode(folder.resolve() / "lib"),
        b"<--bundle>",
        b"<bundle>",
        b"<--log-level>",
        b"<$(id); 'x>",
        b"<--role>",
        b"<generate>",
        b"\x00\xff\r",
        b"",
    ]
    assert done.stdout.split(b"\n") == expected
    run = folder.parents[1] / "runs" / "run-1"
    assert (run / "status").read_text() == "137\n"
    assert (run / "log").read_text() == "oops\n"
    assert (run / "pid").read_text().strip().isdigit()
    assert done.returncode == 137


class ReadyOnly(Channel):
    """A runner that says one line."""

    def __init__(self, line: bytes) -> None:
        self.left = line

    def write(self, data: bytes) -> None:
        pass

    def read(self, size: int, timeout_s: float) -> bytes:
        data, self.left = self.left[:size], self.left[size:]
        return data

    def ready(self) -> bool:
        return bool(self.left)

    def close(self, timeout_s: float = 5.0) -> int | None:
        return 0

    def kill(self) -> None:
        pass

    def log_tail(self) -> str:
        return ""


class OneRunner(Device):
    name = "adb:X"

    def __init__(self, files: dict[str, str]) -> None:
        versions = {"protocol": 1, "contract": 1, "version": "0.1.0", "executorch": "1.5.1", "backends": ["xnnpack"]}
        ready = {"type": "ready", **versions, "threads": 1, "load_ms": 1.0, "payload_bytes": 0, "files": files}
        self.line = json.dumps(ready).encode() + b"\n"

    def open_runner(self, bundle: Path, arguments: Sequence[str]) -> Channel:
        return ReadyOnly(self.line)


def test_what_a_runner_loaded_is_compared(fake_bundle: Path) -> None:
    hashes = {file.name: file.sha256 for file in read_manifest(fake_bundle).files}
    assert RunnerClient(OneRunner(hashes), fake_bundle, "generate").wait_ready().files == hashes
    assert RunnerClient(OneRunner({}), fake_bundle, "generate").wait_ready().files == {}
    for wrong in ({**hashes, "talker.pte": "0" * 64}, {"other.pte": "0" * 64}):
        with pytest.raises(RunnerError, match=r"the runner on adb:X loaded another \w+\.pte than this bundle has; run kz deploy"):
            RunnerClient(OneRunner(wrong), fake_bundle, "generate").wait_ready()
