"""`kz deploy` to a tablet over the real adb and the real ssh."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kazeia import deployment, device_store
from kazeia.bundle import read_manifest
from kazeia.devices.adb import AdbDevice
from kazeia.devices.choice import choose_remote
from kazeia.devices.local import runner_path
from kazeia.files import sha256
from kazeia.home import load_state
from kazeia.voices import Voice, save_voice
from tests.support.adbd import Adbd
from tests.support.bundles import edit_manifest, fake_model, write_fake_bundle
from tests.support.command import Kz, Outcome
from tests.support.runners import copied_runner
from tests.support.sandbox import TABLET, Sandbox

ROOT = "/data/local/tmp/kazeia"


def deployed(kz: Kz, *arguments: object) -> dict[str, object]:
    outcome = kz("deploy", *arguments, "--json")
    assert outcome.status == 0, outcome
    result: dict[str, object] = outcome.json
    return result


def pad(bundle: Path, files: int, size: int = 1000) -> None:
    """Add voices of random bytes to a bundle until it has `files` files with its manifest."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    for index in range(files - 1 - len(manifest["files"])):
        data = random.Random(index).randbytes(size)
        name = f"voice{index}.voice"
        (bundle / name).write_bytes(data)
        manifest["files"].append({"name": name, "bytes": size, "sha256": sha256(bundle / name)})
    edit_manifest(bundle, files=manifest["files"])


def rewrite(bundle: Path, name: str, data: bytes) -> None:
    """Give a file of a bundle other content, as another export would."""
    (bundle / name).write_bytes(data)
    files = json.loads((bundle / "manifest.json").read_text())["files"]
    for file in files:
        if file["name"] == name:
            file.update(bytes=len(data), sha256=sha256(bundle / name))
    edit_manifest(bundle, files=files)


def test_everything_arrives_and_runs(kz: Kz, device_name: str, fake_bundle: Path, sandbox: Sandbox) -> None:
    result = deployed(kz, fake_bundle, "--device", device_name)
    device = choose_remote(device_name)
    home = device.run(f"cd {device.folder} && pwd -P").stdout.strip()
    folder = f"{home}/deployments/{result['deployment']}"
    links = {path: sandbox.path(f"{folder}/{path}") for path in result["sent"]}  # type: ignore[attr-defined]
    assert {path.removeprefix("bundle/") for path in links if path.startswith("bundle/")} == {
        path.name for path in fake_bundle.iterdir()
    }
    for path, link in links.items():
        if path.startswith("bundle/"):
            assert (
                sandbox.path(f"{home}/blobs/{link.readlink().name}").read_bytes()
                == (fake_bundle / path.removeprefix("bundle/")).read_bytes()
            )
    version = device.run(f"cd {folder} && LD_LIBRARY_PATH=$PWD/lib ./kz_runner --version").stdout
    assert json.loads(version)["contract"] == read_manifest(fake_bundle).contract
    listing = json.loads(links["deployment.json"].read_text())
    assert listing["model"] == "fake"
    assert {file["path"] for file in listing["files"]} == set(links) - {"deployment.json"}
    assert load_state().last_device == device_name
    assert result["sent_bytes"] == result["total_bytes"] > 0  # type: ignore[operator]


def test_the_second_deploy_of_forty_files_sends_none_and_is_quick(
    kz: Kz, device_name: str, fake_bundle: Path, request: pytest.FixtureRequest
) -> None:
    pad(fake_bundle, 40)
    assert len(list(fake_bundle.iterdir())) == 40
    deployed(kz, fake_bundle, "--device", device_name)
    pushes = pushed(request, device_name)
    started = time.perf_counter()
    result = deployed(kz, fake_bundle)
    elapsed_s = time.perf_counter() - started
    assert (result["sent"], result["sent_bytes"]) == ([], 0)
    assert pushed(request, device_name) == pushes
    assert elapsed_s < 2, f"{elapsed_s:.2f} s"
    print(f"no-op deploy of 40 files: {elapsed_s:.2f} s", file=sys.stderr)


def pushed(request: pytest.FixtureRequest, device_name: str) -> int:
    """Files that adb's device received."""
    return len(request.getfixturevalue("adbd").events("push")) if device_name.startswith("adb") else 0


def test_only_a_changed_file_travels_though_its_size_is_the_same(kz: Kz, device_name: str, fake_bundle: Path) -> None:
    deployed(kz, fake_bundle, "--device", device_name)
    data = bytearray((fake_bundle / "codec_embeddings.bin").read_bytes())
    data[100] ^= 1
    rewrite(fake_bundle, "codec_embeddings.bin", bytes(data))
    assert deployed(kz, fake_bundle)["sent"] == ["bundle/codec_embeddings.bin", "bundle/manifest.json", "deployment.json"]


def test_a_file_changed_on_the_device_is_sent_again(kz: Kz, adbd: Adbd, tablet: AdbDevice, fake_bundle: Path) -> None:
    deployed(kz, fake_bundle)
    digest = sha256(fake_bundle / "talker.pte")
    tablet.run(f"cd {ROOT}/blobs && n=$(wc -c <{digest}) && head -c $n /dev/zero >{digest}")
    assert deployed(kz, fake_bundle)["sent"] == ["bundle/talker.pte"]
    tablet.run(f"rm {ROOT}/blobs/{digest}")
    assert deployed(kz, fake_bundle)["sent"] == ["bundle/talker.pte"]


def test_a_damaged_deployment_folder_is_put_together_again(
    kz: Kz, adbd: Adbd, tablet: AdbDevice, fake_bundle: Path, files_in: Callable[[str], list[str]]
) -> None:
    result = deployed(kz, fake_bundle)
    folder = f"{ROOT}/deployments/{result['deployment']}"
    before = files_in(folder)
    tablet.run(f"rm {folder}/bundle/talker.pte {folder}/deployment.json")
    assert deployed(kz, fake_bundle)["sent"] == []
    assert files_in(folder) == before


def test_deploying_twice_leaves_the_same_tree(
    kz: Kz, device_name: str, tmp_path: Path, files_in: Callable[[str], list[str]]
) -> None:
    bundle = write_fake_bundle(tmp_path / "kz.v1.2")
    deployed(kz, bundle, "--device", device_name)
    device = choose_remote(device_name)
    home = device.run(f"cd {device.folder} && pwd -P").stdout.strip()
    before = files_in(home)
    deployed(kz, bundle)
    shutil.copytree(bundle, tmp_path / "copy")
    deployed(kz, tmp_path / "copy")
    assert files_in(home) == before


@pytest.mark.parametrize(
    "name", ["my kz (1);'x'", "a & touch pwned", "$(touch pwned)`touch pwned`", 'a"b\\c%s', "-rf", "ärger 声*"]
)
def test_a_folder_with_any_name(kz: Kz, device_name: str, fake_bundle: Path, name: str, sandbox: Sandbox) -> None:
    above = "/data/local/tmp/" if device_name.startswith("adb") else ""
    result = deployed(kz, fake_bundle, "--device", device_name, "--folder", above + name)
    device = choose_remote(device_name)
    assert device.folder == (name if above + name != "-rf" else "./-rf") or device.folder == above + name
    where = sandbox.path(device.run("pwd -P" if not above else f"cd {above} && pwd -P").stdout.strip())
    assert (where / name / "deployments" / str(result["deployment"]) / "kz_runner").is_symlink()
    assert not list(where.rglob("pwned"))
    assert deployed(kz, fake_bundle)["sent"] == [], "the folder is remembered"


def test_a_dry_run_changes_nothing(
    kz: Kz, adbd: Adbd, fake_bundle: Path, files_in: Callable[[str], list[str]], kz_home: Path
) -> None:
    outcome = kz("deploy", fake_bundle, "--dry-run")
    assert outcome.status == 0
    assert "files to send" in outcome.out
    assert "  bundle/talker.pte\n" in outcome.out
    assert files_in("/data/local/tmp") == []
    assert load_state().last_device is None
    assert adbd.events("push") == []
    sent = deployed(kz, fake_bundle, "--dry-run")["sent"]
    assert sent == deployed(kz, fake_bundle)["sent"]
    assert deployed(kz, fake_bundle, "--dry-run")["sent"] == []


def test_older_deployments_stay_until_they_are_pruned(
    kz: Kz, device_name: str, tmp_path: Path, files_in: Callable[[str], list[str]]
) -> None:
    one, two = write_fake_bundle(tmp_path / "one"), write_fake_bundle(tmp_path / "two", fake_model(name="other"))
    rewrite(two, "talker.pte", b"\x00\x00\x00\x00ET12 another")
    deployed(kz, one, "--device", device_name)
    second = deployed(kz, two)
    assert {"bundle/talker.pte", "bundle/manifest.json", "deployment.json"} == set(second["sent"])  # type: ignore[call-overload]
    assert [entry["model"] for entry in listed(kz, device_name)["deployed"]] in (["fake", "other"], ["other", "fake"])
    assert deployed(kz, one)["sent"] == []
    pruned = deployed(kz, two, "--prune")
    assert pruned["pruned"] == 1
    assert [entry["model"] for entry in listed(kz, device_name)["deployed"]] == ["other"]
    device = choose_remote(device_name)
    home = device.run(f"cd {device.folder} && pwd -P").stdout.strip()
    assert len(files_in(f"{home}/blobs")) == len({*blobs_of(second, files_in, home)})
    assert deployed(kz, two)["sent"] == []
    assert "bundle/talker.pte" in deployed(kz, one)["sent"]  # type: ignore[operator]


def blobs_of(result: dict[str, object], files_in: Callable[[str], list[str]], home: str) -> list[str]:
    return [path for path in files_in(f"{home}/deployments/{result['deployment']}") if path != "verified"]


def listed(kz: Kz, name: str) -> dict[str, object]:
    (entry,) = [entry for entry in kz("devices", "--json").json["devices"] if entry["name"] == name]
    result: dict[str, object] = entry
    return result


def test_another_runner_is_a_new_deployment_and_the_models_stay(kz: Kz, adbd: Adbd, fake_bundle: Path, tmp_path: Path) -> None:
    first = deployed(kz, fake_bundle)
    other = copied_runner(tmp_path)
    second = deployed(kz, fake_bundle, "--runner", other)
    assert second["sent"] == ["kz_runner", "deployment.json"]
    assert first["deployment"] != second["deployment"]


def test_voices_are_copied_on_request_and_replaced_when_they_change(
    kz: Kz, adbd: Adbd, fake_bundle: Path, sandbox: Sandbox
) -> None:
    path = save_voice(Voice("narrator é", np.ones(8, np.float32)))
    first = deployed(kz, fake_bundle, "--voices", "narrator é")
    assert f"voices/{path.name}" in first["sent"]  # type: ignore[operator]
    path = save_voice(Voice("narrator é", np.full(8, 2, np.float32)))
    second = deployed(kz, fake_bundle, "--voices", "narrator é")
    assert second["sent"] == [f"voices/{path.name}", "deployment.json"]
    copy = sandbox.path(f"{ROOT}/deployments/{second['deployment']}/voices/{path.name}")
    assert sandbox.path(ROOT).joinpath("blobs", copy.readlink().name).read_bytes() == path.read_bytes()
    assert "there is no voice 'nobody'; kz voice list" in kz.fails("deploy", fake_bundle, "--voices", "nobody")


def test_large_files_travel_in_pieces(
    kz: Kz, device_name: str, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch, files_in: Callable[[str], list[str]]
) -> None:
    monkeypatch.setattr(device_store, "SEGMENT_BYTES", 1_000_000)
    monkeypatch.setattr(deployment, "SEGMENT_BYTES", 1_000_000)
    rewrite(fake_bundle, "codec_embeddings.bin", random.Random(5).randbytes(3_500_001))
    deployed(kz, fake_bundle, "--device", device_name)
    assert deployed(kz, fake_bundle)["sent"] == []
    device = choose_remote(device_name)
    home = device.run(f"cd {device.folder} && pwd -P").stdout.strip()
    assert [name for name in files_in(f"{home}/blobs") if name.startswith(".")] == []


def test_an_empty_file_travels_too(kz: Kz, device_name: str, fake_bundle: Path) -> None:
    files = json.loads((fake_bundle / "manifest.json").read_text())["files"]
    (fake_bundle / "empty").write_bytes(b"")
    edit_manifest(fake_bundle, files=[*files, {"name": "empty", "bytes": 0, "sha256": sha256(fake_bundle / "empty")}])
    deployed(kz, fake_bundle, "--device", device_name)
    assert deployed(kz, fake_bundle)["sent"] == []


def test_the_summary_says_what_went_where(kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    first: Outcome = kz("deploy", fake_bundle)
    assert first.out.startswith(f"adb:{adbd.serial}: {fake_bundle} in {ROOT}: ")
    assert "files sent, " in first.out
    assert "MB/s" in first.out
    second = kz("deploy", fake_bundle)
    assert "nothing to send, all " in second.out
    assert second.err == ""


def test_progress_has_bytes_rate_and_time_left(kz: Kz, adbd: Adbd, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kazeia.commands import output

    monkeypatch.setattr(output, "FIRST_PROGRESS_S", 0.0)
    monkeypatch.setattr(output, "PLAIN_PROGRESS_EVERY_S", 0.0)
    lines = kz("deploy", fake_bundle).err.splitlines()
    assert lines[0].startswith("sending kz_runner: ")
    assert lines[-1].startswith("sending deployment.json: ")
    assert lines[-1].endswith(" MB/s, 0 s left")
    sent = [float(line.split(": ")[1].split(" ")[0]) for line in lines]
    assert sent == sorted(sent)
    assert sent[-1] == pytest.approx(float(lines[-1].split(" of ")[1].split(" ")[0]))


@pytest.mark.parametrize("sandbox", [TABLET], indirect=True)
def test_a_runner_for_another_processor_is_refused_before_anything_is_sent(
    kz: Kz, adbd: Adbd, fake_bundle: Path, tmp_path: Path
) -> None:
    message = kz.fails("deploy", fake_bundle)
    assert message.startswith(f"kz: adb:{adbd.serial} is arm64-v8a, the runner installed here is for ")
    assert message.endswith("build one for it with kz build, then kz deploy --runner FILE")
    (tmp_path / "text").write_text("not a program")
    assert "is not a program for Linux or Android; name a runner with --runner" in kz.fails(
        "deploy", fake_bundle, "--runner", tmp_path / "text"
    )
    assert "cannot read " in kz.fails("deploy", fake_bundle, "--runner", tmp_path / "none")
    assert adbd.events("push") == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"soc": "SM8650"}, "has the chip SM8750, the bundle is for SM8650; export the checkpoint again for this chip"),
        (
            {"programs": {"talker": {"file": "talker.pte", "backend": "vulkan", "quant": "fp32"}}},
            "is not valid: Invalid enum value 'vulkan'",
        ),
    ],
)
def test_a_bundle_that_does_not_fit_the_device(
    kz: Kz, adbd: Adbd, fake_bundle: Path, changes: dict[str, object], message: str
) -> None:
    edit_manifest(fake_bundle, **changes)
    assert message in kz.fails("deploy", fake_bundle)
    assert adbd.events("push") == []


def test_a_device_that_does_not_name_its_chip_is_a_note(kz: Kz, adbd: Adbd, fake_bundle: Path, sandbox: Sandbox) -> None:
    edit_manifest(fake_bundle, soc="SM8750")
    sandbox.set_properties({"ro.soc.model": None})
    outcome = kz("deploy", fake_bundle, "--json")
    assert outcome.err.splitlines()[-1] == f"kz: adb:{adbd.serial} does not name its chip; the bundle is for SM8750"
    assert outcome.json["notes"] == [f"adb:{adbd.serial} does not name its chip; the bundle is for SM8750"]


def test_too_little_memory_is_a_note(kz: Kz, adbd: Adbd, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = AdbDevice.describe
    monkeypatch.setattr(AdbDevice, "describe", lambda self: dataclasses.replace(describe(self), memory_bytes=10))
    note = f"adb:{adbd.serial} has 0 MB of memory left, the programs take 0 MB; close other apps there before you speak"
    assert deployed(kz, fake_bundle, "--dry-run")["notes"] == [note]


def test_a_deploy_leaves_standard_input_alone(kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    """A shell loop that reads a list and deploys in between must not lose the rest of its list."""
    code = "import sys; from kazeia.cli import run; run(sys.argv[1:]); print(sys.stdin.read(), end='')"
    command = [sys.executable, "-c", code, "deploy", str(fake_bundle), "--runner", str(runner_path()), "--json"]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, input="second\nthird\n", capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[1:] == ["second", "third"]
    assert not [event for event in adbd.events("open") if event["service"].startswith(("tcp:", "reverse:"))], "no forwards"


def test_the_launch_script_of_a_tablet_with_slow_cores(
    kz: Kz, adbd: Adbd, fake_bundle: Path, sandbox: Sandbox, tablet: AdbDevice
) -> None:
    folder = sandbox.folder / "sys/devices/system/cpu"
    for core, khz in ((0, 2_000_000), (1, 4_320_000)):
        frequency = folder / f"cpu{core}/cpufreq"
        frequency.mkdir(parents=True, exist_ok=True)
        (frequency / "cpuinfo_max_freq").write_text(f"{khz}\n")
    result = deployed(kz, fake_bundle, "--log-level", "debug")
    script = tablet.run(f"cat {ROOT}/deployments/{result['deployment']}/launch.sh").stdout
    assert "taskset -p 2 $$" in script
    assert "--log-level debug" in script
    assert 'export LD_LIBRARY_PATH="lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' in script
    assert 'export ADSP_LIBRARY_PATH="$(pwd -P)/lib"' in script


def test_a_deployment_has_no_time_in_it(kz: Kz, adbd: Adbd, fake_bundle: Path) -> None:
    first = deployed(kz, fake_bundle, "--dry-run")["deployment"]
    time.sleep(1.1)
    assert deployed(kz, fake_bundle, "--dry-run")["deployment"] == first


def test_the_python_service_reports_as_the_command_does(adbd: Adbd, tablet: AdbDevice, fake_bundle: Path) -> None:
    from kazeia.bundle import Bundle

    steps: list[tuple[str, int, int]] = []
    result = deployment.deploy(
        Bundle.open(fake_bundle), tablet, deployment.Options(), lambda path, sent, total: steps.append((path, sent, total))
    )
    assert dataclasses.asdict(result)["device"] == tablet.name
    assert steps[-1] == ("deployment.json", result.sent_bytes, result.sent_bytes)
