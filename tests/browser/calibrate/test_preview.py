"""What weights would change on the running cluster."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.placement.core.replacing import Outcome, improve
from apps.placement.models import Plan
from apps.placement.services import previews
from tests.browser.calibrate.acts import pick_nine


def test_a_preview_says_what_would_change_and_writes_nothing(page: Page) -> None:
    pick_nine(page)
    title = page.locator("#cal-preview-title")
    expect(title).to_have_text(
        re.compile(r"On the running cluster: (nothing would move|.* moves?$)"), timeout=20_000
    )
    expect(page.locator("#cal-preview-sub")).to_contain_text("Nothing is written.")
    expect(page.locator(".ba tbody tr").first).to_contain_text("Power")
    assert not Plan.objects.exists()


def never_settles(*given: Any, **more: Any) -> Outcome:
    """Search as ever, and go on until the time is over or somebody stops it."""
    until = time.monotonic() + more["limit_s"]
    found = improve(*given, **more)
    while time.monotonic() < until and not more["should_stop"]():
        time.sleep(0.05)
    return replace(found, is_settled=False)


def test_a_preview_can_be_stopped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "improve", never_settles)
    pick_nine(page)
    page.locator("#cal-preview-stop").click(timeout=20_000)
    expect(page.locator("#cal-preview-sub")).to_contain_text("Stopped")
    expect(page.locator("#cal-preview-progress")).to_be_hidden()
