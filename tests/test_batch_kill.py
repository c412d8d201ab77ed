"""Kill -9 at random moments of a batch: after a rerun every phrase is there exactly once, with an undisturbed run's bytes.

Small by default. The whole proof, with its figures on stdout:

    KZ_KILLS=15 KZ_KILL_PHRASES=200 pytest -s tests/test_batch_kill.py
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kazeia.files import sha256
from tests.support.adb import Adb
from tests.support.adbd import Adbd
from tests.support.bundles import BABBLE
from tests.support.command import Kz
from tests.support.fixtures import MakeSandbox, adb, adbd, client_home, devices_end, make_adbd, make_sandbox
from tests.support.sandbox import HOST_CPU, Sandbox

__all__ = ["adb", "adbd", "client_home", "devices_end", "make_adbd", "make_sandbox"]

KILLS = int(os.environ.get("KZ_KILLS", "3"))
PHRASES = int(os.environ.get("KZ_KILL_PHRASES", "30"))
SEED = int(os.environ.get("KZ_KILL_SEED", "1"))
LONGEST_RUN_S = 300


@pytest.fixture
def sandbox(make_sandbox: MakeSandbox) -> Sandbox:
    """A tablet that runs the runner built here."""
    return make_sandbox(HOST_CPU)


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    """As a person's list: short and longer ones, one of them twice."""
    path = tmp_path / "list.txt"
    words = random.Random(SEED)
    lines = [f"{number} {' '.join(words.choices(['uno', 'dos', 'tres'], k=words.randint(1, 9)))}." for number in range(PHRASES)]
    path.write_text("\n".join([*lines[:-1], lines[0]]) + "\n")
    return path


Kill = Callable[[subprocess.Popen[bytes]], bool]
"""Kills something of a running batch, or finds nothing to kill."""


class Batch:
    """`kz batch` in a process of its own."""

    def __init__(self, phrases: Path, folder: Path, *options: str) -> None:
        self.folder = folder
        arguments = ["batch", str(phrases), "-o", str(folder), "--bundle", str(BABBLE), "--json", *options]
        self._log = folder.with_suffix(".log").open("ab")
        self._command = [sys.executable, "-c", "from kazeia.cli import main; main()", *arguments]

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)

    def run(self) -> float:
        """Run it to a good end; the seconds it took."""
        started = time.monotonic()
        assert self.start().wait(LONGEST_RUN_S) == 0, self.log()
        return time.monotonic() - started

    def log(self) -> str:
        return self.folder.with_suffix(".log").read_text()[-2000:]

    def results(self) -> dict[str, str]:
        """What is in the folder, by SHA-256; checked against the index."""
        files = {path.name: sha256(path) for path in self.folder.iterdir() if path.name not in ("index.jsonl", ".lock")}
        records = [json.loads(line) for line in (self.folder / "index.jsonl").read_text().splitlines()]
        assert [record["number"] for record in records] == list(range(1, PHRASES + 1))
        assert {record["output"]: record["sha256"] for record in records} == files
        assert len(files) == PHRASES
        return files


def kill_runner(batch: subprocess.Popen[bytes]) -> bool:
    """One of the batch's runners, here or on the device."""
    runners = [pid for pid in _descendants(os.getpid()) if "kz_runner" in _command(pid)[:1024]]
    victims = [pid for pid in runners if "--role" in _command(pid)]
    return _kill(random.Random(time.monotonic_ns()).choice(victims)) if victims else False


def kill_kz(batch: subprocess.Popen[bytes]) -> bool:
    batch.kill()
    return True


def disturb(batch: Batch, kinds: dict[str, Kill], reference: dict[str, str], took_s: float) -> None:
    """Kill `KILLS` times, each kind in turn, and finish; every time a folder is complete, look at it and begin anew."""
    chance = random.Random(SEED)
    done: Counter[str] = Counter()
    completions = reruns = 0
    names = list(kinds)
    while sum(done.values()) < KILLS or batch.folder.exists():
        running = batch.start()
        killed = False
        if sum(done.values()) < KILLS:
            name = names[sum(done.values()) % len(names)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0.3, 0.7 * took_s))
            if running.poll() is None and (killed := kinds[name](running)):
                done[name] += 1
        status = running.wait(LONGEST_RUN_S)
        reruns += 1
        assert killed or status == 0, batch.log()
        if status == 0:
            assert batch.results() == reference
            shutil.rmtree(batch.folder)
            completions += 1
    kills = ", ".join(f"{count} of {name}" for name, count in done.items())
    print(f"\n{PHRASES} phrases, kills: {kills}; {reruns} runs, {completions} complete folders, all as the undisturbed one")


def test_kills_here(phrases: Path, tmp_path: Path) -> None:
    undisturbed = Batch(phrases, tmp_path / "whole", "--devices", "local")
    took_s = undisturbed.run()
    disturbed = Batch(phrases, tmp_path / "disturbed", "--devices", "local")
    disturb(disturbed, {"kz": kill_kz, "runner": kill_runner}, undisturbed.results(), took_s)


def test_kills_with_a_tablet(kz: Kz, adb: Adb, adbd: Adbd, phrases: Path, tmp_path: Path) -> None:
    name = f"adb:{adbd.serial}"
    assert kz("deploy", BABBLE, "--device", name).status == 0
    undisturbed = Batch(phrases, tmp_path / "whole", "--devices", "local")
    undisturbed.run()

    def kill_adb_server(batch: subprocess.Popen[bytes]) -> bool:
        # Not only the test's own child: a server that a client started is nobody's child. The port is only this test's.
        servers = [pid for pid in _processes() if str(adb.port) in _command(pid) and "server" in _command(pid)]
        killed = [_kill(pid) for pid in servers]
        time.sleep(0.3)
        adb.connect(adbd)  # a device on a cable comes back by itself, one on the network must be called
        return bool(killed)

    disturbed = Batch(phrases, tmp_path / "disturbed", "--devices", name)
    took_s = disturbed.run()
    assert disturbed.results() == undisturbed.results()
    shutil.rmtree(disturbed.folder)
    kinds = {"adb server": kill_adb_server, "kz": kill_kz, "runner": kill_runner}
    disturb(disturbed, kinds, undisturbed.results(), took_s)


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
