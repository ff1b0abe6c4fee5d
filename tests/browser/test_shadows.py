"""Shadow policies in a browser: start, progress, results, stop, and the way to a decision."""

import json
from uuid import uuid4

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from apps.scheduling.models import Decision, Shadow
from tests.browser.conftest import Site, Visitor, visitor_of
from tests.scheduling import shadow_rows

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def compared(site: Site) -> tuple[Shadow, Decision]:
    """A shadow that runs, and the live decision that it has compared."""
    decision = Decision.objects.filter(job=site.world.running).latest("at")
    Decision.objects.filter(pk=decision.pk).update(batch_id=uuid4(), position=0)
    shadow = shadow_rows.shadow("expected", parameters={"spread": 0.0}, seen=9, decided=1)
    shadow_rows.shadow_decision(shadow, decision, job=0.3, neighbours=-0.1)
    return shadow, decision


@pytest.mark.parametrize("name", ["desk", "night", "phone"])
def test_a_shadow_fits_and_is_accessible(
    name: str, request: pytest.FixtureRequest, site: Site
) -> None:
    context: BrowserContext = request.getfixturevalue(name)
    visitor = visitor_of(context, site)
    shadow, _ = compared(site)
    for address in ("/shadows/", f"/shadows/{shadow.pk}/"):
        page = visitor.visit(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate(OVERFLOW) <= 0
        assert visitor.serious_findings() == []
    assert visitor.errors == []
    page.close()
    shadow.delete()


def test_a_shadow_is_started_and_stopped(visitor: Visitor) -> None:
    Shadow.objects.all().delete()
    page = visitor.visit("/shadows/")
    expect(page.locator("#shadow-list")).to_contain_text("No shadow policy yet")
    page.locator("select[name=policy]").select_option("expected")
    page.get_by_label("spread", exact=True).fill("0")
    page.get_by_label("Share of the decisions").fill("25")
    page.get_by_label("Hours until it ends").fill("2")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("expected spread 0")
    shadow = Shadow.objects.get()
    assert (shadow.policy, shadow.parameters, shadow.share) == ("expected", {"spread": 0.0}, 0.25)
    assert shadow.until is not None
    assert (shadow.until - shadow.started_at).total_seconds() == pytest.approx(7200.0, abs=60.0)
    expect(page.locator("#shadow-summary")).to_contain_text("No decision has been compared yet")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#shadow-progress")).to_contain_text("an operator stopped it")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert visitor.errors == []
    shadow.delete()


def test_a_share_that_is_not_allowed_is_explained(visitor: Visitor) -> None:
    page = visitor.visit("/shadows/")
    page.get_by_label("Share of the decisions").fill("0")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#shadow-error")).to_contain_text("share")
    assert not Shadow.objects.exists()


def test_progress_is_live(visitor: Visitor) -> None:
    shadow = shadow_rows.shadow("random")
    page = visitor.visit(f"/shadows/{shadow.pk}/")
    expect(page.locator("#shadow-progress")).to_contain_text("0 live decisions seen")
    Shadow.objects.filter(pk=shadow.pk).update(seen=40, decided=12)
    expect(page.locator("#shadow-progress")).to_contain_text(
        "40 live decisions seen, 12 decided", timeout=60_000
    )
    shadow.delete()


def test_a_different_decision_is_tried_by_the_policy_of_the_shadow(visitor: Visitor) -> None:
    shadow, decision = compared(visitor.site)
    asked: list[object] = []

    def answer(route: Route) -> None:
        asked.append(json.loads(route.request.post_data or "null"))
        route.fulfill(status=409, json={"detail": "The decision cannot be repeated: X."})

    visitor.page.route("**/api/v1/decisions/*/counterfactuals/", answer)
    page = visitor.visit(f"/shadows/{shadow.pk}/")
    page.locator("#shadow-different").get_by_role("link", name="Try").click()
    expect(page).to_have_url(
        f"{visitor.site.url}/decisions/{decision.pk}/?policy=expected&weights=spread%3D0#again"
    )
    expect(page.get_by_label("Policy", exact=True)).to_have_value("expected")
    expect(page.get_by_label("Weights", exact=True)).to_have_value("spread=0")
    expect(page.locator(".toast")).to_contain_text("cannot be repeated")
    assert asked == [{"policy": "expected", "parameters": {"spread": 0}}]
    shadow.delete()
