"""`kz speak` through a tablet: the codes of this machine, and every way in which it can end early."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kazeia import runner_client
from kazeia.bundle import read_manifest
from kazeia.devices import remote_channel
from kazeia.devices.adb import AdbDevice
from kazeia.devices.choice import choose_remote
from kazeia.devices.shell import quote
from kazeia.runner_client import RunnerClient
from tests.devices.test_deployment import ROOT, deployed
from tests.support.adbd import FEATURES_V1, Adbd, Config, Faults, Trip
from tests.support.bundles import BABBLE
from tests.support.command import Kz
from tests.support.sandbox import Sandbox
from tests.support.sshd import Sshd

PHRASES = ["Bonjour.", "a; touch pwned", "$(id)", "`id`", "it's", "%s \\n !", "-face", "声音 😄 hello", "word " * 1000]
OLD = Config(features=FEATURES_V1, version=0x01000000, max_payload=4096)


class Speaker:
    """Speaks with a fixed seed and returns the codes."""

    def __init__(self, kz: Kz, folder: Path, voice: Path) -> None:
        self.kz = kz
        self.folder = folder
        self.options = ["--voice", voice, "--seed", 7, "--max-frames", 30]

    def codes(self, text: str, *options: object) -> np.ndarray | str:
        """The codes, or the line of error where there are none."""
        output, codes = self.folder / "x.wav", self.folder / "x.npy"
        for path in (output, codes):
            path.unlink(missing_ok=True)
        outcome = self.kz("speak", *self.options, *options, "-o", output, "--codes-out", codes, "--", text)
        assert output.exists() == codes.exists() == (outcome.status in (0, 12)), outcome
        return np.load(codes) if codes.exists() else outcome.err.splitlines()[-1]

    def fails(self, *options: object) -> str:
        """Speak, which must fail without leaving a file; the line of error."""
        before = sorted(self.folder.iterdir())
        message = self.kz.fails("speak", "Bonjour.", *self.options, "-o", self.folder / "y.wav", *options)
        assert sorted(self.folder.iterdir()) == before
        return message


@pytest.fixture
def speaker(kz: Kz, tmp_path: Path, voice: Path) -> Speaker:
    folder = tmp_path / "out"
    folder.mkdir()
    return Speaker(kz, folder, voice)


def test_every_phrase_gives_the_codes_of_this_machine(speaker: Speaker, kz: Kz, device_name: str, sandbox: Sandbox) -> None:
    deployed(kz, "--device", device_name)
    for phrase in PHRASES:
        there, here = speaker.codes(phrase), speaker.codes(phrase, "--device", "local")
        if isinstance(here, str):
            assert there == here, phrase
        else:
            np.testing.assert_array_equal(there, here, phrase)
    assert not list(sandbox.path("/data").rglob("pwned"))
    assert "touch" not in str(sandbox.processes())


@pytest.mark.parametrize("adbd", [OLD], indirect=True)
def test_an_old_device_speaks_too(speaker: Speaker, kz: Kz, adbd: Adbd) -> None:
    adbd.faults = Faults(line_end="\r\n", stderr_noise="WARNING: linker: \xff\n")
    deployed(kz)
    np.testing.assert_array_equal(speaker.codes("Bonjour."), speaker.codes("Bonjour.", "--device", "local"))


def test_the_text_is_on_no_command_line(speaker: Speaker, kz: Kz, adbd: Adbd) -> None:
    deployed(kz)
    speaker.codes("Anticonstitutionnellement.")
    assert all("nticonstitution" not in str(event) for event in adbd.events())
    (launch,) = [event["service"] for event in adbd.events("open") if "launch.sh" in event["service"]]
    assert launch.startswith(f"exec:sh {ROOT}/deployments/")
    assert launch.endswith(" --role generate")


@pytest.mark.parametrize("name", ["my kz (1);'x'", 'a"b & $(touch pwned)'])
def test_speaking_from_a_folder_with_any_name(speaker: Speaker, kz: Kz, device_name: str, name: str, sandbox: Sandbox) -> None:
    above = "/data/local/tmp/" if device_name.startswith("adb") else ""
    deployed(kz, "--device", device_name, "--folder", above + name)
    np.testing.assert_array_equal(speaker.codes("Bonjour."), speaker.codes("Bonjour.", "--device", "local"))
    assert not list(sandbox.path("/data").rglob("pwned"))


def test_the_sound_is_the_same_wherever_it_is_decoded(speaker: Speaker, kz: Kz, device_name: str, tmp_path: Path) -> None:
    deployed(kz, "--device", device_name)
    sounds = []
    for options in (["--device", "local"], ["--decode-on", "pc"], ["--decode-on", "device"]):
        assert kz("speak", "Bonjour.", *speaker.options, "-o", tmp_path / "x.wav", *options).status in (0, 12)
        sounds.append((tmp_path / "x.wav").read_bytes())
    assert sounds[0] == sounds[1] == sounds[2]


def test_the_result_names_the_device(speaker: Speaker, kz: Kz, device_name: str, tmp_path: Path) -> None:
    deployed(kz, "--device", device_name)
    result = kz("speak", "Bonjour.", *speaker.options, "-o", tmp_path / "x.wav", "--json").json
    assert result["device"] == device_name
    assert kz("bench", "--frames", 3, "--runs", 1, "--json").json["device"] == device_name


def test_nothing_is_left_running_and_the_logs_stay(
    speaker: Speaker, kz: Kz, either: object, device_name: str, sandbox: Sandbox
) -> None:
    deployed(kz, "--device", device_name)
    device = choose_remote(device_name)
    for _ in range(10):
        speaker.codes("Bonjour.")
    assert not [arguments for _, arguments in sandbox.processes() if "kz_runner" in str(arguments)]
    runs = device.run(f"cd {quote(device.folder)}/runs && cat */status && ls").stdout.split()
    assert runs[:8] == ["0"] * 8
    assert len(runs) == 16, "eight runs are kept"
    assert device.describe().busy_pids == []


def test_a_bundle_that_is_not_deployed(speaker: Speaker, kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    name = f"adb:{adbd.serial}"
    assert speaker.fails("--device", "adb") == (
        f"kz: {name}: {BABBLE.name} is not deployed there; run kz deploy {BABBLE} --device {name}"
    )
    deployed(kz, fake_bundle)
    assert "is not deployed there; run kz deploy" in speaker.fails()


def test_a_device_of_the_last_deploy_that_has_gone(speaker: Speaker, kz: Kz, adbd: Adbd, adb: object) -> None:
    deployed(kz)
    adb("disconnect", adbd.serial)  # type: ignore[operator]
    message = speaker.fails()
    assert message.startswith(f"kz: adb:{adbd.serial} is not connected; plug it in")
    assert message.endswith("(it is the device of the last deploy; --device local speaks on this machine)")
    assert not isinstance(speaker.codes("Bonjour.", "--device", "local"), str)


def test_files_changed_on_the_device_are_noticed(speaker: Speaker, kz: Kz, device_name: str) -> None:
    deployed(kz, "--device", device_name)
    device = choose_remote(device_name)
    file = next(file for file in read_manifest(BABBLE).files if file.name == "talker.pte")
    device.run(f"cd {device.folder}/blobs && cp {file.sha256} x && mv -f x {file.sha256}")
    message = speaker.fails()
    assert f"files of {BABBLE.name} were changed after the deployment; run kz deploy" in message
    assert deployed(kz)["sent"] == [], "the content is right after all"
    assert not isinstance(speaker.codes("Bonjour."), str)
    device.run(f"rm {device.folder}/blobs/{file.sha256}")
    assert "were changed after the deployment" in speaker.fails()
    device.run(f"rm -r {device.folder}/deployments")
    assert "is not whole; run kz deploy" in speaker.fails()


def when_speaking(sandbox: Sandbox, action: Callable[[int], object]) -> threading.Thread:
    """Do something with the runner's process once it is in the middle of its work: it is stopped, so that it cannot finish."""

    def wait() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for pid, arguments in sandbox.processes():
                if arguments[0].endswith("kz_runner") and "generate" in arguments:
                    sandbox.request({"op": "kill", "pid": pid, "signal": int(signal.SIGSTOP)})
                    action(pid)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_runner_killed_for_memory_is_said_to_be_that(speaker: Speaker, kz: Kz, device_name: str, sandbox: Sandbox) -> None:
    deployed(kz, "--device", device_name)
    killer = when_speaking(sandbox, lambda pid: sandbox.request({"op": "kill", "pid": pid, "signal": int(signal.SIGKILL)}))
    assert speaker.fails() == (
        f"kz: the runner on {device_name} was killed (signal 9), most likely for memory; "
        "close other programs or use a smaller or more quantised bundle"
    )
    killer.join()


def test_a_runner_that_crashes_says_its_status(speaker: Speaker, kz: Kz, device_name: str, sandbox: Sandbox) -> None:
    deployed(kz, "--device", device_name)
    killer = when_speaking(sandbox, lambda pid: crash(sandbox, pid))
    message = speaker.fails()
    assert f"the runner on {device_name} ended early (status 139)" in message
    killer.join()


def crash(sandbox: Sandbox, pid: int) -> None:
    for number in (signal.SIGSEGV, signal.SIGCONT):
        sandbox.request({"op": "kill", "pid": pid, "signal": int(number)})


@pytest.mark.parametrize("loss", ["cut", "lose", "die"])
def test_a_device_lost_while_it_speaks(speaker: Speaker, kz: Kz, adbd: Adbd, loss: str, sandbox: Sandbox) -> None:
    deployed(kz)
    adbd.faults = Faults(trips=(Trip("shell", loss, after_bytes=900, name="launch.sh"),))  # type: ignore[arg-type]
    message = speaker.fails()
    assert message.startswith(f"kz: adb:{adbd.serial} ")
    cut_off = "cut the connection to the runner, which ended with it; check that it is on, unlocked and connected, then try again"
    assert message.endswith(("(it was lost while the runner worked)", cut_off))
    assert sandbox.wait_gone("kz_runner"), "a runner without a client ends"


def test_a_device_that_dies_takes_its_runner_along_and_speaks_again(
    speaker: Speaker, kz: Kz, adbd: Adbd, adb: object, sandbox: Sandbox
) -> None:
    deployed(kz)
    adbd.faults = Faults(trips=(Trip("shell", "die", after_bytes=900, name="launch.sh"),))
    assert speaker.fails("--device", f"adb:{adbd.serial}")
    adbd.come_back()
    adb("disconnect", adbd.serial)  # type: ignore[operator]
    adb.connect(adbd)  # type: ignore[attr-defined]
    assert AdbDevice.describe(choose_remote("adb")).busy_pids == [], "its process number is not taken for a living runner"  # type: ignore[arg-type]
    assert not isinstance(speaker.codes("Bonjour."), str)


def test_an_ssh_session_lost_while_it_speaks(speaker: Speaker, kz: Kz, sshd: Sshd, ssh_name: str, sandbox: Sandbox) -> None:
    deployed(kz, "--device", ssh_name)
    dropper = when_speaking(sandbox, lambda _: sshd.drop_sessions())
    message = speaker.fails()
    assert message.startswith(f"kz: {ssh_name} cut the connection to the runner, which ended with it; check that it is on")
    dropper.join()
    assert sandbox.wait_gone("kz_runner")


def test_a_runner_that_hangs_is_ended_after_the_time_limit(
    speaker: Speaker, kz: Kz, device_name: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(kz, "--device", device_name)
    monkeypatch.setattr(runner_client, "START_TIMEOUT_S", 2.0)
    monkeypatch.setattr(runner_client.RunnerClient.receive, "__defaults__", (2.0,))
    stopper = when_speaking(sandbox, lambda _: None)
    message = speaker.fails()
    assert f"the runner on {device_name} did not answer for 2 s and was stopped; try again" in message
    stopper.join()
    assert sandbox.wait_gone("kz_runner")


def test_a_device_that_hangs_is_given_up_after_the_time_limit(
    speaker: Speaker, kz: Kz, adbd: Adbd, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(kz)
    monkeypatch.setattr(runner_client, "START_TIMEOUT_S", 2.0)
    monkeypatch.setattr(runner_client.RunnerClient.receive, "__defaults__", (2.0,))
    monkeypatch.setattr(remote_channel, "KILL_TIMEOUT_S", 1.0)
    monkeypatch.setattr("kazeia.devices.adb_server.OPEN_TIMEOUT_S", 1.0)
    adbd.faults = Faults(trips=(Trip("shell", "hang", after_bytes=900, name="launch.sh", times=0), Trip("link", "hang", 3500)))
    started = time.monotonic()
    message = speaker.fails()
    assert message.startswith(f"kz: adb:{adbd.serial} does not answer (waited ")
    assert time.monotonic() - started < 15


def test_a_launch_script_that_fails_says_so(speaker: Speaker, kz: Kz, device_name: str) -> None:
    deployed(kz, "--device", device_name)
    device = choose_remote(device_name)
    device.run(f"cd {device.folder} && rm -rf runs && echo x >runs")
    message = speaker.fails()
    assert message.startswith(f"kz: the runner on {device_name} did not start (")
    assert message.endswith("; run kz deploy again")


def test_an_interrupt_while_speaking_ends_the_runner(kz: Kz, adbd: Adbd, tablet: AdbDevice, sandbox: Sandbox) -> None:
    deployed(kz)
    client = RunnerClient(tablet, BABBLE, "generate")

    def interrupted() -> None:
        with client:
            client.wait_ready()
            assert [pid for pid, arguments in sandbox.processes() if "kz_runner" in arguments[0]]
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert sandbox.wait_gone("kz_runner", 1)


def test_two_runners_on_one_device_do_not_mix(kz: Kz, adbd: Adbd, tablet: AdbDevice) -> None:
    deployed(kz)
    clients = [RunnerClient(tablet, BABBLE, "generate") for _ in range(2)]
    assert [client.wait_ready().protocol for client in clients] == [1, 1]
    assert len(tablet.describe().busy_pids) == 2
    clients[0].close()
    assert len(tablet.describe().busy_pids) == 1
    clients[1].close()
    assert tablet.describe().busy_pids == []
