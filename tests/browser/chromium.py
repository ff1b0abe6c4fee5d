"""Start Debian's chromium for tests and screenshots."""

import os
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext

CHROMIUM = Path(os.environ.get("BERTH_CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Charts below the fold are loaded when they come near.
NOTHING_LOADS = """() => ![...document.querySelectorAll('.plot[aria-busy]')].some(
    (plot) => plot.getBoundingClientRect().top < innerHeight)"""

DESK, PHONE = (1440, 900), (390, 844)


def signed_in(
    browser: Browser,
    url: str,
    *,
    name: str,
    password: str,
    size: tuple[int, int] = DESK,
    theme: Literal["light", "dark"] = "light",
) -> BrowserContext:
    """Return a browser context of a signed-in user."""
    options: dict[str, Any] = {"color_scheme": theme, "has_touch": size == PHONE}
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.goto(f"{url}/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", password)
    page.click("button[type=submit]")
    page.wait_for_url(f"{url}/")
    page.close()
    return context
