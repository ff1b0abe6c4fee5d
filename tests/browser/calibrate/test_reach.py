"""What migrations reach from the present cluster, on the plots and by their number."""

import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from apps.accounts.models import AuditEntry
from apps.placement.models import FrontVersion
from tests.browser.calibrate.acts import (
    SCREENS,
    accept_warnings,
    named,
    opened,
    pick_nine,
    screen,
)
from tests.browser.conftest import Visitor

CURVE: dict[str, Any] = {
    "bundles": [0, 1, 2, 3],
    "moves": [0, 4, 6, 10],
    "seconds": [0.0, 40.0, 60.0, 100.0],
    "F": [0.9, 0.6, 0.55, 0.5],
    "watts": [50_000.0, 44_000.0, 43_000.0, 42_500.0],
    "diversity": [60.0, 61.0, 62.0, 60.0],
    "crossing": [90.0, 80.0, 70.0, 60.0],
    "servers_on": [200, 180, 175, 170],
    "targets_met": [50, 50, 49, 48],
    "normalised": {
        "P": [0.80, 0.704, 0.688, 0.68],
        "D": [0.60, 0.61, 0.62, 0.60],
        "C": [0.45, 0.40, 0.35, 0.30],
    },
    "charged": {},
    "fallen": [0, 0, 1, 2],
    "falling": [
        {"id": "00000000-0000-0000-0000-000000000001", "name": "kmeans-12", "attainment": 1.04,
         "ratio": [1.0, 1.0, 0.94, 0.94]},
        {"id": "00000000-0000-0000-0000-000000000002", "name": "tpch-118", "attainment": 1.02,
         "ratio": [1.0, 1.0, 1.0, 0.97]},
    ],
    "elbow": 1,
    "obstacles": {"no_room": 31, "cost": 12},
    "meaning": "Of 43 further bundles tried, 31 find no suitable server with room and 12 gain less"
    " than they cost.",
}  # fmt: skip
BEFORE = {
    "watts": 50_000.0, "diversity": 60.0, "crossing": 90, "servers_on": 200, "F": 0.9,
    "normalised": {"P": 0.80, "D": 0.60, "C": 0.45}, "charged": {}, "targets_met": 50,
    "targets_measured": 60,
}  # fmt: skip
AFTER = BEFORE | {
    "watts": 42_500.0, "crossing": 60, "servers_on": 170, "F": 0.5, "targets_met": 48,
    "normalised": {"P": 0.68, "D": 0.60, "C": 0.30},
}  # fmt: skip
STAR = {"P": 0.55, "D": 0.62, "C": 0.40}
CHECKED = {
    "star": {"raw": STAR, "normalised": STAR, "F": 0.1, "gap": 0.0, "optimal": True,
             "seconds": 0.1},
    "position": "inside", "distance": 0.05, "nearest": 0, "unreachable": [], "broken": [],
    "bounded": None, "sentence": "The optimum of these weights is within the range.",
}  # fmt: skip


def reaching(page: Page, **changes: Any) -> None:
    """Let previews reach `CURVE`, and the solver `STAR`; the first answer has the jobs of all."""
    jobs: dict[str, Any] = {}

    def preview(route: Route) -> None:
        if route.request.method != "GET":
            route.continue_()
            return
        body = route.fetch().json()
        if body["answer"]:
            parts = {"before": BEFORE, "after": AFTER, "moves": 10, "move_seconds": 100.0}
            for name in ("jobs", "jobs_changed", "worst"):
                jobs.setdefault(name, body["answer"][name])
            body["answer"] |= {**parts, **jobs, "reach": CURVE | changes}
        route.fulfill(json=body)

    page.route(re.compile(r"/api/v1/previews/[0-9a-f-]+/$"), preview)
    page.route("**/preference-sets/check/", lambda route: route.fulfill(json=CHECKED))


def reached(page: Page) -> None:
    """Pick, and wait for the curve and the solver result."""
    pick_nine(page)
    expect(page.locator("#cal-why")).to_contain_text("The free optimum", timeout=60_000)


def allow(page: Page, index: int) -> None:
    """Move the slider by keyboard from its end."""
    slider = page.get_by_label("Migrations allowed")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(index):
        page.keyboard.press("ArrowRight")


def test_each_screen_shows_now_the_reachable_and_the_free_placement(page: Page) -> None:
    reaching(page)
    reached(page)
    for name in SCREENS:
        marks = screen(page, name)
        expect(marks.locator(".way-label")).to_have_text(["now", "reachable"])
        expect(marks.locator("path.star")).to_have_count(1)
        expect(marks.locator(".way.gap")).to_have_count(1)
        expect(marks.locator("text.anchor", has_text="now")).to_have_count(0)


def test_a_sentence_says_why_the_free_optimum_is_not_reached(page: Page) -> None:
    reaching(page)
    reached(page)
    # 0.25 of 62.5 kW promised in power, 0.12 reached: 7.5 of 15.6 kW
    expect(page.locator("#cal-why")).to_have_text(
        "The free optimum ★ promises 15.6 kW less power; 10 migrations from now (◆) reach 7.5 kW"
        " less power. ★ places every container from scratch and ignores the speed of jobs. "
        + CURVE["meaning"]
    )
    expect(page.locator("#cal-reach-title")).to_have_text(
        "10 migrations reach 48 % of the promise"
    )


def test_the_slider_moves_the_reachable_placement_and_the_figures(page: Page) -> None:
    reaching(page)
    reached(page)
    title = page.locator("#cal-preview-title")
    expect(title).to_contain_text("7.5 kW less, two fewer jobs meet their target, 10 migrations")
    mark = screen(page, "P-C").locator(".reach-mark")
    whole = mark.get_attribute("d") or ""
    assert whole
    allow(page, 1)
    expect(page.locator("#cal-moves-count")).to_have_text("4 migrations of 10 that pay")
    expect(title).to_have_text("Running cluster: 6.0 kW less, 4 migrations")
    expect(mark).not_to_have_attribute("d", whole)
    expect(page.locator(".ba tbody tr").first).to_contain_text("50.0 kW44.0 kW−6.0 kW34.4 kW")
    expect(page).to_have_url(re.compile("moves=4"))
    allow(page, 0)
    expect(title).to_have_text("Running cluster: no migrations")
    expect(screen(page, "P-C").locator(".way-label")).to_have_text(["now"])


def test_the_elbow_is_one_click_away(page: Page) -> None:
    reaching(page)
    reached(page)
    page.get_by_role("button", name="Elbow: 4 migrations").click()
    expect(page.locator("#cal-reach-title")).to_have_text("4 migrations reach 38 % of the promise")
    expect(page.get_by_role("button", name="Elbow")).to_be_hidden()


def test_jobs_that_would_miss_their_target_are_counted_by_migrations(page: Page) -> None:
    reaching(page)
    reached(page)
    expect(page.locator("#cal-moves-cost")).to_have_text(
        "1 min 40 s of container downtime in total; 2 jobs miss their target"
    )
    allow(page, 1)
    expect(page.locator("#cal-moves-cost")).to_have_text("40 s of container downtime in total")


def test_without_migrations_that_pay_the_page_says_so(page: Page) -> None:
    one = {key: value[:1] for key, value in CURVE.items() if isinstance(value, list)}
    normalised = {key: value[:1] for key, value in CURVE["normalised"].items()}
    reaching(page, **one, normalised=normalised, elbow=0)
    reached(page)
    expect(page.locator("#cal-reach-title")).to_have_text("No migration pays from here")
    expect(page.get_by_label("Migrations allowed")).to_be_disabled()


IS_INSIDE = """() => {
    const body = document.getElementById("cal-preview-body");
    const panel = body.closest(".panel");
    return [body.scrollWidth - body.clientWidth, panel.scrollWidth - panel.clientWidth];
}"""


def test_the_preview_stays_inside_its_panel(page: Page) -> None:
    reaching(page)
    reached(page)
    assert page.evaluate(IS_INSIDE) == [0, 0]


def test_the_real_curve_is_drawn(page: Page) -> None:
    pick_nine(page)
    expect(page.locator("#cal-gain .reach-mark")).to_have_count(1, timeout=60_000)


def test_activation_repeats_the_figures_and_asks_to_accept_every_warning(page: Page) -> None:
    reaching(page)
    reached(page)
    named(page, "evening")
    page.get_by_label("Reason for the audit log").fill("tariff")
    warnings = page.locator("#cal-risks b, #cal-warnings li.no b")
    expect(warnings.filter(has_text="Two jobs miss their targets")).to_have_count(1)
    on_page = page.locator("#cal-preview-body .ba tbody tr").all_inner_texts()
    shown = warnings.all_inner_texts()
    assert "Two jobs miss their targets" in shown
    page.get_by_role("button", name="Activate…").click()
    dialog = page.locator("#cal-activate-dialog")
    expect(dialog.locator("h3").first).to_contain_text("7.5 kW less, two fewer jobs")
    assert dialog.locator(".ba tbody tr").all_inner_texts() == on_page
    expect(dialog.locator("table", has_text="kmeans-12").locator("tbody tr")).to_have_text(
        ["kmeans-121.040.98", "tpch-1181.020.99"]
    )
    activate = page.get_by_role("button", name="Activate", exact=True)
    expect(activate).to_be_disabled()
    accepted = accept_warnings(page)
    assert set(shown) <= set(accepted)
    expect(activate).to_be_enabled()
    activate.click()
    expect(page.locator("#toasts")).to_contain_text("evening is in force.")
    entry = AuditEntry.objects.filter(action="weights.activated").latest("id")
    assert entry.after is not None
    kept = entry.after["accepted_warnings"]
    assert kept[0] == (
        "Two jobs miss their targets. Worst: kmeans-12, from 1.04 to 0.98 × target."
    )
    assert len(kept) == len(accepted)


def test_finished_plans_since_the_workload_are_a_trail(
    page: Page, visitor: Visitor, pattern: FrontVersion
) -> None:
    normalised = [{"P": p, "D": 0.6, "C": 0.5} for p in (0.9, 0.8, 0.7)]
    plans = [
        {
            "name": f"p-{number:04d}",
            "verdict": "93 % of the predicted gain.",
            "ended_cluster_seconds": ended_s,
            "realised": {"before": {"normalised": before}, "after": {"normalised": after}},
        }
        for number, ended_s, before, after in (
            (3, 60_000.0, normalised[1], normalised[2]),
            (2, 55_000.0, normalised[0], normalised[1]),
            (1, 40_000.0, normalised[0], normalised[1]),  # before the workload of the front
        )
    ]
    page.route("**/api/v1/plans/?state=done*", lambda route: route.fulfill(json=page_of(plans)))
    opened(visitor, pattern.front)
    marks = screen(page, "P-D").locator(".trail-mark title")
    expect(marks).to_have_text(
        ["p-0002: 93 % of the predicted gain.", "p-0003: 93 % of the predicted gain."]
    )
    expect(screen(page, "P-D").locator("path.trail.between")).to_have_count(1)


def page_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"results": results, "next": None, "previous": None}
