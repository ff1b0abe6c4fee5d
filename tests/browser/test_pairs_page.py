"""Measured pairs in a browser: run, progress, the four numbers, cancel."""

import pytest
from playwright.sync_api import BrowserContext, expect

from apps.operations.models import Operation
from apps.testbed.models import MeasuredPair
from apps.workloads.models import Application
from tests import factories
from tests.browser.conftest import Site, Visitor, visitor_of

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def remove(*pairs: MeasuredPair) -> None:
    for pair in pairs:
        pair.delete()
        pair.operation.delete()


@pytest.mark.parametrize("name", ["desk", "night", "phone"])
def test_pairs_fit_and_are_accessible(
    name: str, request: pytest.FixtureRequest, site: Site
) -> None:
    context: BrowserContext = request.getfixturevalue(name)
    visitor = visitor_of(context, site)
    real = factories.measured_pair("compress-logs", "rebuild-the-index")
    emulated = factories.measured_pair(is_emulated=True, slowdowns=(1.05, 1.3))
    for address in ("/pairs/", f"/pairs/{real.pk}/", f"/pairs/{emulated.pk}/"):
        page = visitor.visit(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate(OVERFLOW) <= 0
        assert visitor.serious_findings() == []
    assert visitor.errors == []
    page.close()
    remove(real, emulated)


def test_an_emulated_pair_is_requested_and_cancelled(visitor: Visitor) -> None:
    names = Application.objects.filter(runs_commands=False).order_by("name")
    first, second = names.values_list("name", flat=True)[:2]
    page = visitor.visit("/pairs/")
    expect(page.locator("#pair-list")).to_contain_text("No pair has been measured yet")
    page.locator("select[name=kind]").select_option("emulated")
    expect(page.get_by_label("Command of the first application")).to_be_hidden()
    page.get_by_label("Name of the first application").fill(first)
    page.get_by_label("Name of the second application").fill(second)
    page.get_by_label("Rounds").fill("5")
    page.get_by_role("button", name="Run the pair").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"{first} and {second}")
    pair = MeasuredPair.objects.get()
    assert (pair.first, pair.second, pair.request["rounds"]) == (first, second, 5)
    assert pair.is_emulated
    expect(page.locator("#pair-progress")).to_contain_text("0 of 5 rounds")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#pair-progress")).to_contain_text("Cancelled")
    assert visitor.errors == []
    remove(pair)


def test_a_command_is_split_as_a_shell_does(visitor: Visitor) -> None:
    page = visitor.visit("/pairs/")
    split = page.evaluate(
        """async (text) => {
            const src = [...document.querySelectorAll('link[rel=modulepreload], script[src]')]
                .map((e) => e.href || e.src).find((url) => url.includes('/js/app'));
            const module = await import(src.replace(/app[^/]*$/, 'pages/pairs.js'));
            return module.argumentsOf(text);
        }""",
        r"""xz -k 'my file' "two \"words\"" a\ b --x="1 2"''""",
    )
    assert split == ["xz", "-k", "my file", 'two "words"', "a b", "--x=1 2"]


def test_a_request_that_is_refused_is_explained(visitor: Visitor) -> None:
    page = visitor.visit("/pairs/")
    page.locator("select[name=kind]").select_option("commands")
    page.get_by_label("Command of the first application").fill("xz in")
    page.get_by_label("Command of the second application").fill("")
    page.get_by_role("button", name="Run the pair").click()
    expect(page.locator("#pair-error")).to_contain_text(
        "second command: must have 1 to 1000 strings, not 0"
    )
    assert not MeasuredPair.objects.exists()


def test_progress_is_live(visitor: Visitor) -> None:
    pair = factories.measured_pair(result=None)
    change = {"status": "running", "progress": 1, "message": "measuring", "finished_at": None}
    Operation.objects.filter(pk=pair.operation_id).update(**change)
    page = visitor.visit(f"/pairs/{pair.pk}/")
    expect(page.locator("#pair-progress")).to_contain_text("1 of 3 rounds")
    Operation.objects.filter(pk=pair.operation_id).update(progress=2)
    expect(page.locator("#pair-progress")).to_contain_text("2 of 3 rounds", timeout=60_000)
    remove(pair)
