"""Live regions are sent alone, and only if they changed."""

import pytest
from django.test import Client

from apps.dashboard.core.regions import changed_regions, live_regions
from tests import factories

PAGE = """<main><p id="verdict" data-live>All <b>well</b>.<br></p>
<div id="outer" data-live><img src="a.png"><div id="inner" data-live>x &amp; y</div>
<svg><use href="#i"/></svg></div><p id="still">z</p></main>"""


def test_regions_are_found_with_their_content() -> None:
    assert live_regions(PAGE) == {
        "verdict": "All <b>well</b>.<br>",
        "outer": '<img src="a.png"><div id="inner" data-live>x &amp; y</div>\n'
        '<svg><use href="#i"/></svg>',
    }


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("", {}),
        ('<p id="a" data-live>', {}),
        ('<p id="a" data-live></p>', {"a": ""}),
        ('<p data-live>x</p><p id="b" data-live>y</p>', {"b": "y"}),
        ('<ul id="a" data-live><li>1<li>2</ul>', {"a": "<li>1<li>2"}),
        ('<p id="a" data-live>x</b></p>', {"a": "x</b>"}),
    ],
)
def test_regions_of_unusual_html(html: str, found: dict[str, str]) -> None:
    assert live_regions(html) == found


def test_only_requested_regions_that_changed_are_returned() -> None:
    first = changed_regions(PAGE, {"verdict": "", "outer": ""})
    known = {name: region["digest"] for name, region in first.items()}
    assert changed_regions(PAGE, known) == {}
    assert list(changed_regions(PAGE.replace("well", "bad"), known)) == ["verdict"]
    assert list(changed_regions(PAGE, {"verdict": ""})) == ["verdict"]


@pytest.mark.django_db
def test_a_page_sends_its_changed_regions_alone(as_operator: Client) -> None:
    factories.server()
    headers = {"X-Berth-Regions": "verdict attention"}
    first = as_operator.get("/", headers=headers)
    assert first["Content-Type"] == "application/json"
    regions = first.json()["regions"]
    assert set(regions) == {"verdict", "attention"}
    known = " ".join(f"{name}={region['digest']}" for name, region in regions.items())
    again = as_operator.get("/", headers={"X-Berth-Regions": known})
    assert again.json() == {"regions": {}}
    whole = as_operator.get("/").content
    assert len(again.content) < len(first.content) < len(whole)
    factories.job(state="running", attainment=0.5)
    changed = as_operator.get("/", headers={"X-Berth-Regions": known}).json()["regions"]
    assert "<b>0</b> of <b>1</b> jobs" in changed["verdict"]["html"]
