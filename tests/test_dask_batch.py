"""`kz batch --dask` on a real cluster of two workers on loopback: a scheduler and workers as a person starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kazeia import dask_batch
from kazeia.bundle import Bundle
from kazeia.errors import BundleError
from kazeia.phrase_tasks import Preparer
from kazeia.phrases import Phrase
from kazeia.voices import read_voice, save_voice
from tests.support.adb import free_port
from tests.support.bundles import BABBLE
from tests.support.command import Kz

START_TIMEOUT_S = 90
LINES = [f"{number}, encore une fois." for number in range(12)]


@dataclass(frozen=True)
class Cluster:
    """A running scheduler and its workers."""

    address: str
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    address = f"tcp://127.0.0.1:{free_port()}"
    environment = {**os.environ, "KZ_HOME": str(folder / "home"), "KZ_BUNDLE": str(BABBLE)}
    environment["DASK_DISTRIBUTED__WORKER__DAEMON"] = "False"
    for name in ("KZ_DEVICE", "KZ_RUNNER"):
        environment.pop(name, None)

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    started = [start("dask_scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard")]
    started += [start("dask_worker", address, "--nthreads", str(threads), "--no-dashboard") for threads in (1, 2)]
    try:
        _wait_for_workers(address, 2)
        yield Cluster(address, started[1:])
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, timeout=START_TIMEOUT_S, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=START_TIMEOUT_S)


@pytest.fixture
def phrases(tmp_path: Path) -> Path:
    path = tmp_path / "list.txt"
    path.write_text("\n".join(LINES))
    return path


def sounds(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.wav"))}


def index_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


def test_a_cluster_gives_what_this_machine_gives(kz: Kz, cluster: Cluster, phrases: Path, tmp_path: Path) -> None:
    assert kz("batch", phrases, "-o", tmp_path / "here").status == 0
    outcome = kz("batch", phrases, "-o", tmp_path / "there", "--dask", cluster.address, "--json")
    assert outcome.status == 0, outcome.err
    assert sounds(tmp_path / "there") == sounds(tmp_path / "here")
    here, there = index_of(tmp_path / "here"), index_of(tmp_path / "there")
    for one, other in zip(here, there, strict=True):
        same = set(one) - {"rtf", "total_ms", "first_audio_ms", "device", "finished"}
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
    assert len({record["device"] for record in there}) == 2, "both workers had work"
    again = kz("batch", phrases, "-o", tmp_path / "there", "--json")
    assert (again.json["done_before"], again.json["ok"]) == (12, 0), "a folder does not care what filled it"


def test_voices_of_this_machine_and_failures_travel(kz: Kz, cluster: Cluster, tmp_path: Path) -> None:
    voice = next(iter(BABBLE.glob("*.voice")))
    save_voice(read_voice(voice))
    name = read_voice(voice).name
    lines = [{"text": "Un.", "voice": name}, {"text": "..."}, {"text": "Deux.", "voice": "nobody"}, {"text": "x" * 9000}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    outcome = kz("batch", tmp_path / "a.jsonl", "-o", tmp_path / "out", "--dask", cluster.address)
    assert outcome.status == 13
    assert [record["status"] for record in index_of(tmp_path / "out")] == ["ok", "nothing_to_say", "failed", "failed"]


def test_runners_stay_warm_from_batch_to_batch(kz: Kz, cluster: Cluster, phrases: Path, tmp_path: Path) -> None:
    kz("batch", phrases, "-o", tmp_path / "one", "--dask", cluster.address)
    before = _runners(cluster)
    kz("batch", phrases, "-o", tmp_path / "two", "--dask", cluster.address)
    assert _runners(cluster) == before
    assert len(before) == 4, "two a worker, whatever its threads"


def test_a_worker_that_is_killed_loses_nothing(kz: Kz, cluster: Cluster, phrases: Path, tmp_path: Path) -> None:
    assert kz("batch", phrases, "-o", tmp_path / "here").status == 0
    phrases.write_text("\n".join([*LINES, *(f"{number} {'encore ' * 8}" for number in range(20))]))
    command = [sys.executable, "-c", "from kazeia.cli import main; main()", "batch", str(phrases), "-o", str(tmp_path / "out")]
    process = subprocess.Popen([*command, "--bundle", str(BABBLE), "--dask", cluster.address], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(sounds(tmp_path / "out")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    (victim,) = _children(cluster.workers[0].pid)[:1]  # the nanny starts another
    os.kill(victim, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found = sounds(tmp_path / "out")
    assert len(found) == 32
    assert sounds(tmp_path / "here").items() <= found.items()


def test_another_bundle_on_the_workers_is_refused(cluster: Cluster) -> None:
    task = Preparer(Bundle.open(BABBLE)).task(Phrase(text="Un."))
    with pytest.raises(BundleError, match="has another bundle at"):
        list(dask_batch.Cluster(cluster.address, None, "0" * 64).speak(iter([task])))


def test_no_scheduler_at_the_address_is_said(kz: Kz, phrases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_batch, "CONNECT_TIMEOUT_S", 1)
    address = f"tcp://127.0.0.1:{free_port()}"
    outcome = kz("batch", phrases, "-o", tmp_path / "out", "--dask", address)
    assert outcome.status == 11
    assert f"no Dask scheduler answers at {address}" in outcome.err
    assert "Traceback" not in outcome.err


def test_without_the_extra_its_name_is_said(kz: Kz, phrases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "kazeia.dask_batch", raising=False)
    assert "pip install 'kazeia[dask]'" in kz.fails("batch", phrases, "-o", tmp_path / "out", "--dask", "tcp://127.0.0.1:1")


def _runners(cluster: Cluster) -> set[int]:
    found = set()
    for worker in cluster.workers:
        for process in _children(worker.pid):
            found |= {child for child in _children(process) if "kz_runner" in Path(f"/proc/{child}/cmdline").read_text()}
    return found


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
