"""Actions on the pages of applications and of classification."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from apps.classification.models import MatrixRevision, Override
from apps.operations.models import Operation
from apps.profiling.models import ProfilingRun
from apps.profiling.services import end_cancelled_runs
from apps.workloads.models import Application
from tests.browser.conftest import Visitor

APPLICATION = "/applications/terasort/"
COUNTS = re.compile(r"(\d+) measured, (\d+) inferred")


def marks(page: Page, name: str, *, filled: bool) -> int:
    """Return the numbers of filled and hollow marks of a figure."""
    ground = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')")
    points = page.locator(f"[data-figure*='{name}'] .points path.point")
    colours = points.evaluate_all("all => all.map((one) => one.style.fill)")
    hollow = [colour for colour in colours if colour == _rgb(str(ground))]
    return len(colours) - len(hollow) if filled else len(hollow)


def _rgb(colour: str) -> str:
    r, g, b = (int(colour.strip()[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({r}, {g}, {b})"


# ---- the list ----


def test_a_click_on_a_kind_filters_and_is_in_the_address(visitor: Visitor) -> None:
    page = visitor.visit("/applications/")
    page.get_by_role("link", name=re.compile("^single node")).click()
    page.wait_for_url("**/applications/?kind=single_node")
    expect(page.locator("#apps-table tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Clear filters").click()
    expect(page.locator("#apps-table tbody tr")).to_have_count(Application.objects.count())


def test_the_list_is_sorted_by_a_click_on_its_head(visitor: Visitor) -> None:
    page = visitor.visit("/applications/")
    page.get_by_role("link", name="Last error").click()
    page.wait_for_url("**sort=error**")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Last error")


def test_an_application_is_opened_by_keyboard_from_the_search(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("/")
    page.keyboard.type("parsec")
    expect(page.locator("#found [role=option]").first).to_contain_text("application, single node")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/applications/parsec-ferret/")


def test_chords_lead_to_the_new_pages(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/applications/")
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/classification/")


# ---- one application ----


def test_measured_marks_are_filled_and_inferred_ones_hollow(visitor: Visitor) -> None:
    page = visitor.visit("/applications/wordcount/")
    subtitle = page.locator("[data-figure*=platform-speed] .chart-sub")
    expect(subtitle).to_have_text(COUNTS)
    counts = COUNTS.search(subtitle.inner_text())
    assert counts is not None
    points = page.locator("[data-figure*=platform-speed] .points path.point")
    expect(points).to_have_count(int(counts[1]) + int(counts[2]))
    assert marks(page, "platform-speed", filled=True) == int(counts[1])
    assert marks(page, "platform-speed", filled=False) == int(counts[2])


def test_the_cells_of_another_matrix_are_one_click_away(visitor: Visitor) -> None:
    page = visitor.visit("/applications/memcached-carts/")
    page.locator(".tabs a", has_text="Scale-out").click()
    page.wait_for_url("**matrix=scale_out**")
    expect(page.locator("#app-cells")).to_contain_text("set by hand by ops-admin")
    expect(page.locator("#app-cells")).to_contain_text("On 16 servers, each reaches 72 %")


def test_values_are_set_by_hand_after_a_preview_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit(APPLICATION)
    page.get_by_role("button", name="Override LLC capacity").press("Enter")
    expect(page.locator("#ov-go")).to_be_disabled()
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.locator("#ov-preview")).to_contain_text("would be sized or placed differently")
    assert not Override.objects.filter(application__name="terasort").exists()
    page.locator("#ov-go").press("Enter")
    expect(page.locator("#ov-reason-error")).to_contain_text("Enter a reason")
    page.keyboard.type("seen in production")
    page.locator("#ov-go").press("Enter")
    expect(page.locator("#app-overrides")).to_contain_text("“seen in production”, ops-admin")
    override = Override.objects.get(application__name="terasort")
    assert (override.matrix, override.column, override.value) == ("tolerated", "llc_capacity", 7.0)
    page.locator("#app-overrides").get_by_role("button", name="Withdraw…").press("Enter")
    page.locator("#wd-go").press("Enter")
    expect(page.locator("#app-overrides")).to_contain_text("withdrawn")
    override.refresh_from_db()
    assert override.withdrawn_at is not None
    assert visitor.errors == []


def test_a_change_after_the_preview_requires_another_preview(visitor: Visitor) -> None:
    page = visitor.visit(APPLICATION)
    page.get_by_role("button", name="Override TLB").click()
    page.locator("[data-part=value]").fill("40")
    page.locator("#ov-look").click()
    expect(page.locator("#ov-go")).to_be_enabled()
    page.locator("[data-part=value]").fill("41")
    expect(page.locator("#ov-go")).to_be_disabled()
    expect(page.locator("#ov-preview")).to_be_empty()


def test_an_invalid_value_is_marked(visitor: Visitor) -> None:
    page = visitor.visit(APPLICATION)
    page.get_by_role("button", name="Override TLB").click()
    value = page.locator("[data-part=value]")
    value.fill("a lot")
    page.locator("#ov-look").click()
    expect(value).to_have_attribute("aria-invalid", "true")
    value.fill("140")
    page.locator("#ov-look").click()
    expect(page.locator("#ov-error")).to_contain_text("between 0 and 100")
    expect(value).to_have_attribute("aria-invalid", "true")


def test_efficiencies_are_typed_in_percent(visitor: Visitor) -> None:
    page = visitor.visit(APPLICATION)
    page.get_by_role("button", name="Override…", exact=True).click()
    page.get_by_label("Cell 1", exact=True).select_option("scale_out 8")
    expect(page.locator("[data-part=unit]")).to_have_text("%")
    page.locator("[data-part=value]").fill("50")
    with page.expect_request("**/overrides/preview/") as preview_request:
        page.locator("#ov-look").click()
    sent = json.loads(preview_request.value.post_data or "{}")
    assert sent["cells"] == [{"matrix": "scale_out", "column": "8", "value": 0.5}]


def test_the_dialog_has_no_serious_finding(visitor: Visitor) -> None:
    page = visitor.visit(APPLICATION)
    page.get_by_role("button", name="Override TLB").click()
    page.locator("#ov-add").click()
    page.locator("[data-part=value]").first.fill("3")
    page.locator("[data-part=value]").last.fill("4")
    page.locator("#ov-look").click()
    expect(page.locator("#ov-preview")).to_contain_text("jobs")
    assert visitor.serious_findings() == []


def test_reprofiling_shows_its_cost_and_can_be_cancelled(visitor: Visitor) -> None:
    page = visitor.visit("/applications/recommend-als/")
    page.get_by_role("button", name="Re-profile…").press("Enter")
    expect(page.locator("#reprofile")).to_contain_text("of cluster time")
    expect(page.locator("#reprofile")).to_contain_text("unit-seconds in all")
    page.locator("#rp-reason").fill("new dataset")
    page.locator("#rp-go").press("Enter")
    expect(page.locator("#app-state")).to_contain_text("being profiled")
    run = ProfilingRun.objects.get(application__name="recommend-als", state="queued")
    assert run.reason == "new dataset"
    expect(page.get_by_role("button", name="Re-profile…")).to_be_disabled()
    page.locator("#app-runs").get_by_role("button", name="Cancel").press("Enter")
    expect(page.locator("#app-runs")).to_contain_text("being cancelled")
    assert end_cancelled_runs() == 1
    expect(page.locator("#app-state")).not_to_contain_text("being profiled", timeout=12_000)
    assert visitor.errors == []


def test_submit_shows_whether_an_application_is_profiled(visitor: Visitor) -> None:
    page = visitor.visit("/submit/?application=wordcount")
    expect(page.locator("#h-application")).to_contain_text("Known: wordcount, profile no.")
    page.locator("#f-application").fill("nightly-index")
    page.locator("#f-application").blur()
    expect(page.locator("#h-application")).to_contain_text("has no profile yet")
    page.locator("#f-application").fill("never-seen")
    page.locator("#f-application").blur()
    expect(page.locator("#h-application")).to_contain_text("A new application is profiled")


# ---- classification ----


def test_a_matrix_is_drawn_with_its_inferred_cells_hatched(visitor: Visitor) -> None:
    page = visitor.visit("/classification/?matrix=heterogeneity")
    chart = page.locator("[data-figure*='/matrix/']")
    expect(chart.locator(".hm image")).to_have_count(1)
    expect(chart.locator("pattern")).to_have_count(1)
    expect(chart.locator(".chart-title")).to_contain_text("cells are known")


def test_a_cell_has_hover_text_and_opens_its_application(
    visitor: Visitor,
) -> None:
    page = visitor.visit("/classification/?q=wordcount")
    box = page.locator("[data-figure*='/matrix/'] .hm image").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + 12, box["y"] + box["height"] / 2)
    label = page.locator("[data-figure*='/matrix/'] .hoverlayer")
    expect(label).to_contain_text("wordcount, Memory capacity")
    page.mouse.click(box["x"] + 12, box["y"] + box["height"] / 2)
    page.wait_for_url("**/applications/wordcount/")


def test_the_matrix_turns_into_a_table(visitor: Visitor) -> None:
    page = visitor.visit("/classification/?matrix=tolerated&q=memcached")
    chart = page.locator("[data-figure*='/matrix/']")
    chart.get_by_role("button", name="View as table").press("Enter")
    expect(chart.locator(".chart-table td").first).to_have_text("memcached-carts")
    expect(chart.locator(".chart-table tbody tr")).to_have_count(1)


@pytest.mark.parametrize("matrix", ["tolerated", "framework"])
def test_every_column_of_a_matrix_is_named_where_there_is_room(
    visitor: Visitor, matrix: str
) -> None:
    page = visitor.visit(f"/classification/?matrix={matrix}")
    columns = MatrixRevision.objects.filter(matrix=matrix).latest("revision").columns
    names = page.locator("[data-figure*='/matrix/'] .xtick text")
    expect(names).to_have_count(len(columns))


def test_column_names_are_vertical_on_a_phone(phone_visitor: Visitor) -> None:
    page = phone_visitor.visit("/classification/?matrix=tolerated")
    names = page.locator("[data-figure*='/matrix/'] .xtick text")
    expect(names).to_have_count(10)
    box = names.nth(1).bounding_box()  # memory bandwidth, the longest
    plot = page.locator("[data-figure*='/matrix/'] .plot").bounding_box()
    assert box is not None
    assert plot is not None
    assert box["height"] > box["width"]
    assert box["y"] >= plot["y"]


def test_the_current_tab_is_visible_on_a_phone(phone_visitor: Visitor) -> None:
    page = phone_visitor.visit("/classification/?matrix=caused")
    box = page.locator(".tabs [aria-current]").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390


def test_an_earlier_revision_is_one_click_away(visitor: Visitor) -> None:
    page = visitor.visit("/classification/?matrix=caused")
    page.locator("#class-revisions tbody tr").last.get_by_role("link").click()
    page.wait_for_url("**revision=1**")
    expect(page.locator("#class-banner")).to_contain_text("Revision 1 is not in force")
    page.get_by_role("link", name="Show current revision").click()
    expect(page.locator("#class-banner")).to_be_empty()


def test_a_reclassification_is_started_and_followed(visitor: Visitor) -> None:
    page = visitor.visit("/classification/")
    page.get_by_role("button", name="Reclassify now…").press("Enter")
    page.locator("#rc-go").press("Enter")
    expect(page.locator("#class-banner")).to_contain_text("is being trained")
    operation = Operation.objects.get(kind="classification.reclassify")
    Operation.objects.filter(id=operation.id).update(
        status="succeeded", result={"revision": 4}, progress=12
    )
    expect(page.locator("#toasts")).to_contain_text("Revision 4 is in force")
    expect(page.locator("#class-banner")).to_be_empty()
    assert visitor.errors == []
