"""The page, in a real browser. `KZ_SCREENSHOTS` names a folder that keeps what it looked like."""

from __future__ import annotations

import io
import json
import os
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from kazeia.bundle import read_manifest
from kazeia.voices import Voice, save_voice
from tests.serve.browser import Browser
from tests.serve.scripted import Scripted
from tests.serve.scripted_runner import ENDLESS
from tests.serve.service import Service, speech_body, wait_until
from tests.support.bundles import BABBLE

SCREENS = [(360, 800), (1400, 900)]
TEXT = "Il fait beau, non ?"
TOKEN = "a-token-of-good-length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("downloads")) as running:
        yield running


class Page:
    """The page as a person uses it."""

    def __init__(self, browser: Browser, service: Service) -> None:
        self.browser = browser
        browser.complaints()
        browser.driver.get(f"http://127.0.0.1:{service.port}/")

    def find(self, name: str) -> WebElement:
        return self.browser.driver.find_element(By.ID, name)

    @property
    def status(self) -> str:
        return self.find("status").text

    def speak(self, text: str, seed: int) -> None:
        self.find("input").send_keys(text)
        self.find("seed").send_keys(str(seed))
        self.find("speak").click()

    def wait_for(self, status: str) -> None:
        wait_until(lambda: status in self.status)


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_type_speak_play_download(service: Service, browser: Browser, width: int, height: int) -> None:
    browser.resize(width, height)
    page = Page(browser, service)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
    Select(page.find("voice")).select_by_visible_text("murmur")
    Select(page.find("language")).select_by_visible_text("french")
    page.speak(TEXT, width)
    page.wait_for(f"seed {width}")
    expected = service.speak(TEXT, voice="murmur", language="french", seed=width, stream=False).body

    assert browser.run("const p = document.getElementById('player'); p.muted = true; await p.play(); return p.duration") > 0
    wait_until(lambda: browser.run("return document.getElementById('player').ended") is True)
    page.find("download").click()
    file = browser.downloads / f"murmur-{width}.wav"
    wait_until(lambda: file.exists() and not list(browser.downloads.glob("*.crdownload")))
    assert file.read_bytes() == expected
    with wave.open(io.BytesIO(expected)) as sound:
        assert sound.getnframes() > 0
    assert browser.complaints() == []
    _keep(browser, f"page-{width}")


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_nothing_is_cut_off_or_unnamed(service: Service, browser: Browser, width: int, height: int) -> None:
    browser.resize(width, height)
    page = Page(browser, service)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for name in ("input", "voice", "language", "seed"):
        element = page.find(name)
        assert element.accessible_name
        assert element.rect["x"] >= 0
        assert element.rect["x"] + element.rect["width"] <= width
    assert [page.find(name).accessible_name for name in ("speak", "stop")] == ["Speak", "Stop"]
    assert page.find("status").aria_role == "status"
    assert "tiny random stand-in" in page.find("notice").text


def test_the_keyboard_is_enough(service: Service, browser: Browser) -> None:
    page = Page(browser, service)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
    assert browser.driver.switch_to.active_element.get_attribute("id") == "input"
    page.find("input").send_keys("Bonjour." + Keys.CONTROL + Keys.ENTER)
    page.wait_for("seed ")
    assert page.find("player").is_displayed()


def test_a_seed_of_64_bits_and_a_voice_of_any_script(service: Service, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_HOME", str(service.home))
    width = read_manifest(BABBLE).model.speaker_embedding_size
    save_voice(Voice("声音", np.ones(width, np.float32), source="test"))
    page = Page(browser, service)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 3)
    Select(page.find("voice")).select_by_visible_text("声音")
    page.speak(TEXT, 2**64 - 1)
    page.wait_for(f"seed {2**64 - 1}")
    assert page.find("download").get_attribute("download") == f"声音-{2**64 - 1}.wav"


def test_a_refusal_is_shown_and_the_next_text_is_spoken(service: Service, browser: Browser) -> None:
    page = Page(browser, service)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
    page.speak("...", 1)
    page.wait_for("Not spoken: nothing to say")
    assert not page.find("result").is_displayed()
    page.find("input").clear()
    page.find("input").send_keys("Bonjour.")
    page.find("speak").click()
    page.wait_for("seed 1")


def test_stop_cancels_the_run(scripted: Scripted, browser: Browser) -> None:
    page = Page(browser, scripted)
    wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
    page.speak(TEXT, ENDLESS)
    wait_until(lambda: "frame 5" in scripted.steps)
    page.find("stop").click()
    page.wait_for("Stopped")
    wait_until(lambda: any(step.startswith("done cancelled") for step in scripted.steps))


def test_the_token_is_asked_for(tmp_path: Path, browser: Browser) -> None:
    with Service(tmp_path, "--bundle", BABBLE, "--device", "local", KZ_TOKEN=TOKEN) as service:
        page = Page(browser, service)
        assert Select(page.find("voice")).options == []
        page.find("token").send_keys("wrong-token-that-is-long" + Keys.TAB)
        page.wait_for("Cannot list the voices: send the service's token")
        page.find("token").clear()
        page.find("token").send_keys(TOKEN + Keys.TAB)
        wait_until(lambda: len(Select(page.find("voice")).options) >= 2)
        page.speak("Bonjour.", 4)
        page.wait_for("seed 4")


@pytest.mark.parametrize("audio_format", ["wav", "flac"])
def test_the_browser_decodes_a_stream_of_unknown_length(service: Service, browser: Browser, audio_format: str) -> None:
    Page(browser, service)
    frames = int(service.speak(TEXT, seed=2, stream=False).headers["x-kazeia-frames"])
    decoded = browser.run(
        f"const body = JSON.stringify({{...{json.dumps(speech_body(TEXT, seed=2))}, response_format: '{audio_format}'}});"
        "const headers = {'Content-Type': 'application/json'};"
        "const response = await fetch('/v1/audio/speech', {method: 'POST', headers, body});"
        "const context = new OfflineAudioContext(1, 1, 24000);"
        "return (await context.decodeAudioData(await response.arrayBuffer())).length"
    )
    assert decoded == 1920 * frames


def _keep(browser: Browser, name: str) -> None:
    if folder := os.environ.get("KZ_SCREENSHOTS"):
        browser.driver.save_screenshot(str(Path(folder) / f"{name}.png"))
