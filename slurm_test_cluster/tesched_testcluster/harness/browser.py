"""A headless Chromium of one's own, driven by Selenium, for tests of the live page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

from tesched_testcluster.patience import Patience


class NoBrowserError(Exception):
    """Chromium is not installed."""


@contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """Give one with an empty profile in the folder, which fetches nothing by itself. Raises NoBrowserError."""
    options = webdriver.ChromeOptions()
    options.binary_location = _installed("chromium")
    for word in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'chromium'}",
        # Its sandbox does not run as root.
        *(["--no-sandbox"] if os.getuid() == 0 else []),
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A path is given: Selenium would else fetch a driver.
    service = webdriver.ChromeService(executable_path=_installed("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_page_load_timeout(Patience().limit_s)
        yield driver
    finally:
        driver.quit()


def show(driver: webdriver.Chrome, *, width: int, height: int = 900, dark: bool = False) -> None:
    """Have the browser show pages in this size, in CSS pixels, on a light or a dark screen."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def _installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise NoBrowserError(f"{program} is not installed: `make install` does that")
    return found
