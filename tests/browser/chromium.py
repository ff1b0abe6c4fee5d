"""How the tests and the pictures start Debian's chromium."""

import os
from pathlib import Path

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
# Charts below the fold are asked for when they come near.
NOTHING_LOADS = """() => ![...document.querySelectorAll('.plot[aria-busy]')].some(
    (plot) => plot.getBoundingClientRect().top < innerHeight)"""
