"""A headless Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver

from tests.support.needs import program


class Browser:
    """Use it as a context manager; downloads land in `downloads`."""

    def __init__(self, downloads: Path) -> None:
        self.downloads = downloads
        options = webdriver.ChromeOptions()
        options.binary_location = program("chromium", "chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--mute-audio"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        self.driver = webdriver.Chrome(options, Driver(program("chromedriver", "chromium-driver")))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def resize(self, width: int, height: int) -> None:
        """The page's size in CSS pixels; a window cannot be narrower than 500."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str) -> Any:
        """The value of an async function's body."""
        wrapped = f"const done = arguments[0]; (async () => {{ {script} }})().then(done, (error) => done(String(error)));"
        return self.driver.execute_async_script(wrapped)

    def complaints(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
