"""Actions on the pages: by keyboard, with live data, with changes."""

import json
import re
from dataclasses import replace
from typing import Any

from playwright.sync_api import Route, expect

from apps.inventory.models import Server
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.selectors import submission_of
from tests import factories
from tests.browser.chromium import NOTHING_LOADS
from tests.browser.conftest import Visitor
from tests.workloads import archives

# ---- the shell ----


def test_chords_lead_to_pages(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url("**/map/")


def test_the_keyboard_shortcuts_open_and_close(visitor: Visitor) -> None:
    page = visitor.visit("/jobs/")
    page.keyboard.press("Shift+?")
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator("#keys")).to_contain_text("Next and previous row")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).not_to_be_visible()


def test_search_by_keyboard_opens_a_server(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("/")
    page.keyboard.type("srv-0042")
    expect(page.locator("#found [role=option]").first).to_contain_text("srv-0042")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/servers/srv-0042/")


def test_the_theme_is_kept(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.evaluate("localStorage.removeItem('berth-theme')")


def test_the_account_menu_signs_out(visitor: Visitor) -> None:
    page = visitor.visit("/")
    page.get_by_role("button", name="Account of ops-admin").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sign out")).not_to_be_visible()


# ---- live data ----


def test_numbers_follow_the_database_without_a_reload(visitor: Visitor) -> None:
    page = visitor.visit("/jobs/")
    page.evaluate("window.stayed = true")
    factories.job("fresh-arrival", project=visitor.site.world.running.project)
    expect(page.locator("#jobs-table")).to_contain_text("fresh-arrival", timeout=12_000)
    assert page.evaluate("window.stayed")


def test_pause_holds_the_page_still(visitor: Visitor) -> None:
    page = visitor.visit("/jobs/")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#conn-word")).to_have_text("Paused")
    factories.job("while-paused", project=visitor.site.world.running.project)
    page.wait_for_timeout(6_500)
    assert "while-paused" not in page.locator("#jobs-table").inner_text()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#jobs-table")).to_contain_text("while-paused")


def test_why_follows_a_job_from_the_queue_to_its_servers(visitor: Visitor) -> None:
    job = factories.job("to-be-placed", project=visitor.site.world.running.project)
    page = visitor.visit(f"/jobs/{job.id}/")
    expect(page.locator("#tab-panel")).to_contain_text("No agent has evaluated this job yet")
    page.evaluate("window.stayed = true")
    machine = visitor.site.world.server
    factories.decision(job, candidates=[factories.candidate(machine, verdict="chosen")])
    expect(page.locator("#tab-panel")).to_contain_text(machine.name, timeout=12_000)
    expect(page.locator("#tab-panel .plot .main-svg").first).to_be_visible(timeout=12_000)
    assert page.evaluate("window.stayed")


# ---- charts ----


def test_a_chart_turns_into_its_table_and_back(visitor: Visitor) -> None:
    page = visitor.visit("/")
    chart = page.locator(".chart").first
    chart.get_by_role("button", name="View as table").click()
    expect(chart.locator("table")).to_contain_text("cr1.8xlarge")
    expect(chart.locator(".plot")).to_be_hidden()
    chart.get_by_role("button", name="View as table").click()
    expect(chart.locator(".plot .main-svg").first).to_be_visible()


def test_a_chart_is_exported_as_csv(visitor: Visitor) -> None:
    page = visitor.visit("/")
    chart = page.locator(".chart").first
    chart.get_by_role("button", name=re.compile("Export")).click()
    with page.expect_download() as download:
        chart.get_by_role("button", name="Table as CSV").click()
    text = download.value.path().read_text(encoding="utf-8")
    assert text.startswith("Platform,Servers,Now,Mean,Maximum")


def test_a_chart_is_exported_as_a_picture(visitor: Visitor) -> None:
    page = visitor.visit("/")
    chart = page.locator(".chart").nth(1)
    chart.get_by_role("button", name=re.compile("Export")).click()
    with page.expect_download() as download:
        chart.get_by_role("button", name="Picture as PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    assert visitor.errors == []


def test_zoom_survives_new_data(visitor: Visitor) -> None:
    page = visitor.visit("/")
    plot = page.locator(".chart").nth(4).locator(".plot")
    plot.evaluate("plot => Plotly.relayout(plot, {'xaxis.range': [20000, 30000]})")
    factories.frame(52_300.0, [0.5] * 120)
    page.wait_for_timeout(7_000)
    assert plot.evaluate("plot => plot.layout.xaxis.range[1]") == 30_000


def test_a_failed_figure_offers_a_retry(visitor: Visitor) -> None:
    visitor.page.route("**/figures/power/**", lambda route: route.fulfill(status=500, body=""))
    page = visitor.visit("/")
    chart = page.locator(".chart").nth(4)
    expect(chart.locator(".chart-title")).to_have_text("The figure cannot be drawn")
    page.unroute("**/figures/power/**")
    chart.get_by_role("button", name="Retry").click()
    expect(chart.locator(".chart-title")).to_contain_text("The cluster draws")


def test_each_figure_of_the_overview_is_requested_once_and_before_the_scripts(
    visitor: Visitor,
) -> None:
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    page = visitor.visit("/?range=6h")
    expect(page.locator(".chart .plot .main-svg").first).to_be_attached()
    page.wait_for_function(NOTHING_LOADS)
    figures = [url for url in asked if "/figures/" in url]
    assert len(figures) == len(set(figures)) == page.locator(".chart").count() == 5
    assert all(url.endswith("/?range=6h") for url in figures)
    (script,) = (n for n, url in enumerate(asked) if url.endswith("/js/charts.js"))
    assert all(asked.index(url) < script for url in figures)


def test_a_chart_library_that_failed_to_load_is_loaded_by_a_retry(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/plotly.min.js", lambda route: route.abort())
    page.goto(visitor.site.url)
    chart = page.locator(".chart").nth(4)
    expect(chart.locator(".chart-sub")).to_have_text("the chart library could not be loaded")
    page.unroute("**/plotly.min.js")
    chart.get_by_role("button", name="Retry").click()
    expect(chart.locator(".chart-title")).to_contain_text("The cluster draws")
    visitor.errors.clear()


# ---- jobs ----


def test_rows_can_be_selected_and_opened_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit("/jobs/?q=state:running")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("#jobs-table tbody tr").nth(1).get_attribute("data-url")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{second}")


def test_a_selection_is_cancelled_after_a_preview(visitor: Visitor) -> None:
    doomed = factories.job("doomed-1", state="queued", project=visitor.site.world.running.project)
    page = visitor.visit("/jobs/?q=doomed-1")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#bulk-count")).to_have_text("1 job selected")
    page.get_by_role("button", name="Cancel selected…").click()
    expect(page.locator("#cancel-what")).to_contain_text("1 job would be cancelled")
    page.get_by_role("button", name="Cancel jobs").click()
    expect(page.locator("#toasts")).to_contain_text("1 job cancelled.")
    doomed.refresh_from_db()
    assert doomed.state == "cancelled"


def test_everything_that_matches_is_cancelled_in_one_request(visitor: Visitor) -> None:
    project = visitor.site.world.running.project
    for name in ("swept-1", "swept-2"):
        factories.job(name, state="queued", project=project)
    page = visitor.visit("/jobs/?q=swept")
    page.get_by_role("button", name="Cancel matching…").click()
    expect(page.locator("#cancel-what")).to_contain_text("2 jobs would be cancelled: 2 queued")
    with page.expect_request("**/api/v1/jobs/cancel/**") as sent:
        page.get_by_role("button", name="Cancel jobs").click()
    assert sent.value.post_data_json == {"expect": 2}
    expect(page.locator("#toasts")).to_contain_text("2 jobs cancelled.")
    assert set(Job.objects.filter(name__startswith="swept").values_list("state", flat=True)) == {
        "cancelled"
    }


def test_the_test_tools_detect_errors(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    page.evaluate("console.error('noticed')")
    assert any("image-alt" in finding for finding in visitor.serious_findings())
    assert "noticed" in visitor.errors


def test_a_waiting_job_is_held_and_released(visitor: Visitor) -> None:
    job = factories.job("patient-1", state="queued", project=visitor.site.world.running.project)
    page = visitor.visit(f"/jobs/{job.id}/")
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("#job-state")).to_contain_text("Held")
    page.get_by_role("button", name="Release").click()
    expect(page.locator("#job-state")).to_contain_text("Queued")


def test_the_parts_of_a_job_are_reached_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit(f"/jobs/{visitor.site.world.running.id}/")
    page.get_by_role("link", name="Why", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**tab=performance")
    expect(page.locator(".chart-title")).to_contain_text("its target at the last report")


def test_why_leads_to_its_decision_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit(f"/jobs/{visitor.site.world.running.id}/")
    page.locator(".why-meta a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/decisions/*/")
    expect(page.locator("h1")).to_contain_text("Placed")


# ---- map ----


def test_the_map_can_be_navigated_by_keyboard(visitor: Visitor) -> None:
    page = visitor.visit("/map/")
    page.locator("#map-canvas canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map-side h2")).to_have_text("srv-0002")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#map-side h2")).to_have_text("2 servers selected")
    page.keyboard.press("Enter")
    page.wait_for_url("**/servers/srv-0003/")


def test_finding_a_server_selects_it(visitor: Visitor) -> None:
    page = visitor.visit("/map/")
    page.get_by_label("Find a server").fill("srv-0042")
    expect(page.locator("#map-side h2")).to_have_text("srv-0042")


def test_the_colour_of_the_map_is_in_its_address(visitor: Visitor) -> None:
    page = visitor.visit("/map/")
    page.get_by_label("Colour by").select_option("state")
    expect(page).to_have_url(re.compile("colour=state"))
    expect(page.locator("#map-title")).to_contain_text("draining")


def test_a_server_is_cordoned_and_returned_to_service(visitor: Visitor) -> None:
    page = visitor.visit("/servers/srv-0010/")
    page.get_by_role("button", name="Cordon…").click()
    expect(page.locator("#sc-what")).to_contain_text("takes no new jobs; running jobs continue")
    page.get_by_role("button", name="Cordon", exact=True).click()
    expect(page.locator("#server-state")).to_contain_text("Cordoned")
    assert Server.objects.get(name="srv-0010").state == "cordoned"
    page.get_by_role("button", name="Return to service…").click()
    page.get_by_role("button", name="Return to service", exact=True).click()
    expect(page.locator("#server-state")).to_contain_text("Active")


# ---- submit ----


def test_a_job_is_submitted_by_keyboard_and_its_key_works_once(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).focus()
    page.keyboard.type("wordcount")
    page.keyboard.press("Tab")
    page.keyboard.type("keyboard-made")
    page.get_by_role("button", name="Submit", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*-*/")
    expect(page.locator("h1")).to_have_text("keyboard-made")
    assert Job.objects.filter(name="keyboard-made").count() == 1


def test_a_job_that_is_submitted_again_keeps_its_command_and_its_labels(visitor: Visitor) -> None:
    program: dict[str, Any] = {
        "command": ["sh", "-c", "echo $A"],
        "environment": {"A": "1"},
        "working_directory": None,
        "user": "nobody",
        "copyable": True,
        "progress_command": ["cat", "progress"],
        "progress_every_seconds": 30.0,
    }
    world = visitor.site.world
    job = factories.job(
        program=program,
        project=world.running.project,
        labels={"note": "nightly run", "url": "a=b"},
        annotations={"by": "hand"},
        constraints={
            "platforms": [world.server.platform.name],
            "labels": {"disk": "ssd"},
            "locality": "server",
        },
        units_requested=2,
        unit_memory_bytes=10**9,
        files=archives.archive({"a": b"1"}),
    )
    page = visitor.visit(f"/submit/?again={job.id}")
    document = json.loads(page.locator("#raw").input_value())
    assert parse_job(document) == replace(parse_job(submission_of(job)), name=None)
    page.get_by_label("Labels", exact=True).fill('note="nightly run" stage=2')
    page.get_by_label("Priority, −100 to 100").fill("7")
    edited = json.loads(page.locator("#raw").input_value())
    assert edited["metadata"]["labels"] == {"note": "nightly run", "stage": "2"}
    assert edited["spec"] == document["spec"] | {"priority": 7}


def test_a_repeated_key_is_announced(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.evaluate("document.getElementById('key').textContent = 'one-key-only'")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/*-*/")
    page.goto(visitor.site.url + "/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.evaluate("document.getElementById('key').textContent = 'one-key-only'")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("This idempotency key was already used")


def test_an_array_is_checked_and_submitted_and_its_members_are_listed(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Job name").fill("swarm")
    page.locator("summary").click()
    page.get_by_label("Job array: indexes").fill("0-6:2")
    page.get_by_label("Members at once").fill("0")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("#f-array-limit-error")).to_contain_text("Must be at least 1")
    page.get_by_label("Members at once").fill("2")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("#p-check")).to_contain_text("4 members; the result is that of one")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/?q=array*")
    expect(page.locator("main")).to_contain_text("swarm-6")
    assert list(
        Job.objects.filter(name__startswith="swarm-").order_by("array_index").values_list("name")
    ) == [("swarm-0",), ("swarm-2",), ("swarm-4",), ("swarm-6",)]


def test_an_invalid_field_is_marked(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Complete within").fill("-5")
    page.get_by_role("button", name="Submit", exact=True).click()
    field = page.get_by_label("Complete within")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.locator("#f-seconds-error")).to_contain_text("Must be at least")


def test_a_job_that_is_edited_during_its_check_is_to_be_checked_again(visitor: Visitor) -> None:
    page, held = visitor.visit("/submit/"), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Complete within").fill("-5")
    page.route("**/api/v1/checks/", hold)
    with page.expect_request("**/api/v1/checks/"):
        page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_label("Complete within").fill("5")
    held[0].continue_()
    shown = page.locator("#p-check")
    expect(shown).to_contain_text("Correct these fields")
    expect(shown).to_contain_text("The job was edited after this result")


def test_errors_name_the_label_of_their_field_until_it_is_edited(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Kind of target").select_option("throughput_latency")
    page.get_by_label("Latency").fill("-10")
    page.get_by_role("button", name="Check", exact=True).click()
    refusal = page.locator("#p-check [role=alert]")
    expect(refusal).to_contain_text("Latency: must be at least 0.000001, not -10")
    expect(refusal).not_to_contain_text("/spec")
    page.get_by_label("Latency").fill("10")
    expect(page.locator("#f-latency-error")).to_have_count(0)
    expect(page.get_by_label("Latency")).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#p-check")).to_contain_text("The job was edited after this result")


def test_the_result_of_a_check_is_shown_and_announced_on_a_phone(phone_visitor: Visitor) -> None:
    phone_visitor.page.route("**/api/v1/checks/", lambda route: route.fulfill(json=CHECKED))
    page = phone_visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Application", exact=True).press("Tab")
    expect(page.get_by_role("status").filter(has_text="Filled in")).to_be_visible()
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator("#p-check [role=alert]")).to_be_in_viewport(ratio=0.9)
    expect(page.get_by_role("status").filter(has_text="Checked:")).to_contain_text(
        "The target cannot be met"
    )


def test_the_same_job_is_shown_for_programs(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_role("tab", name="curl").click()
    shown = page.locator("#code-curl")
    expect(shown).to_contain_text('"application":"wordcount"')
    expect(shown).to_contain_text(page.locator("#key").inner_text())


CHECKED = {
    "dry_run": True,
    "outcome": "infeasible",
    "feasible": False,
    "known": True,
    "summary": "The target cannot be met: done in 5 s.",
    "reason": "InfeasibleTarget",
    "next_action": "Relax the target to what the explanation calls feasible.",
    "units": 12,
    "platforms": ["cr1.8xlarge"],
    "servers": [],
    "predicted": {"value": 41.0, "low": None, "high": None},
    "probability_met": None,
    "units_examined": 0,
    "units_eligible": 0,
    "dropped": {},
    "guarantee": None,
    "suggestions": [
        {"text": "done in 42 s", "target": {"kind": "completion_time", "seconds": 42}}
    ],
    "candidates": [],
    "snapshot": 7,
}


def test_an_infeasible_target_offers_the_nearest_feasible_one(visitor: Visitor) -> None:
    visitor.page.route("**/api/v1/checks/", lambda route: route.fulfill(json=CHECKED))
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Complete within").fill("5")
    page.keyboard.press("Enter")
    expect(page.locator("#p-check")).to_contain_text("The target cannot be met")
    expect(page.locator("#p-check")).to_contain_text("41 s")
    assert visitor.serious_findings() == []
    page.get_by_role("button", name="Set target: done in 42 s").click()
    expect(page.get_by_label("Complete within")).to_have_value("42")


def test_a_suggested_target_leaves_the_rest_of_edited_json_as_it_is(visitor: Visitor) -> None:
    visitor.page.route("**/api/v1/checks/", lambda route: route.fulfill(json=CHECKED))
    page = visitor.visit("/submit/")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_role("tab", name="JSON").click()
    target = {"kind": "completion_time", "seconds": 5}
    spec = {"application": "grep", "note": "kept", "target": target}
    page.locator("#raw").fill(json.dumps({"metadata": {"name": "mine"}, "spec": spec}))
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_role("button", name="Set target: done in 42 s").click()
    page.get_by_role("tab", name="JSON").click()
    assert json.loads(page.locator("#raw").input_value()) == {
        "metadata": {"name": "mine"},
        "spec": {**spec, "target": {**target, "seconds": 42}},
    }
