"""The permission matrix: every route, figure and page, by method and caller."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker, Settings

from apps.dashboard.views.figure_sources import FIGURES as DRAWN
from tests.permissions.routes import METHODS, Route, all_routes
from tests.permissions.rules import (
    BLIND,
    FIGURE_ROUTE,
    FIGURES,
    OK,
    RULES,
    VARIANTS,
    Rule,
    Who,
    disagreements,
    page,
)
from tests.permissions.scene import Scene, build_scene
from tests.rollback import rolled_back

DENIED = {401, 403, 404, 405}


@dataclass(frozen=True, slots=True)
class Cell:
    """One request of one caller, and the status that the rule expects."""

    pattern: str
    method: str
    who: Who
    rule: Rule
    query: str

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.method} {self.pattern}{query} {self.who.name.lower()}"


def _ruled() -> Iterator[tuple[str, str, Rule]]:
    for pattern, rule in RULES.items():
        for query in (rule.query, *VARIANTS.get(pattern, ())):
            yield pattern, query, rule
    for name, rule in FIGURES.items():
        yield FIGURE_ROUTE.replace("<slug:name>", name), rule.query, rule


def _cells() -> list[Cell]:
    return [
        Cell(pattern, method, who, rule, query)
        for pattern, query, rule in _ruled()
        for method in METHODS
        if method == "GET" or query == rule.query
        for who in (Who if method in rule.methods else (Who.ANONYMOUS, Who.ADMIN))
    ]


CELLS = _cells()


@pytest.fixture(scope="module")
def db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Keep one transaction for all tests; pytest-django's own ends with each test."""
    with django_db_blocker.unblock(), rolled_back():
        yield


@pytest.fixture(scope="module")
def scene(db: None) -> Scene:
    return build_scene()


@pytest.fixture(autouse=True)
def installation(settings: Settings) -> None:
    settings.BERTH_RATES = {}
    settings.BERTH_STREAM_ORIGIN = "http://stream"


@pytest.fixture
def undone(scene: Scene) -> Iterator[Scene]:
    """The scene; what the test writes is undone."""
    with rolled_back():
        yield scene


def request(scene: Scene, cell: Cell, who: Who) -> Any:
    client = scene.clients[who]
    cookies = copy(client.cookies)  # signing out deletes one
    response = client.generic(
        cell.method,
        scene.address(cell.pattern, query=cell.query),
        scene.body(cell.rule.body.get(cell.method, {})),
        content_type="application/json",
    )
    client.cookies = cookies
    return response


def expected(cell: Cell) -> int:
    audience = cell.rule.methods.get(cell.method)
    return 405 if audience is None else audience[cell.who]


def is_as_expected(cell: Cell, status: int) -> bool:
    if cell.method not in cell.rule.methods:
        return status in DENIED or status == 302
    wanted = expected(cell)
    return status == wanted if wanted else status < 500 and status not in {302, *DENIED}


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_caller_gets_what_the_rule_says(undone: Scene, cell: Cell) -> None:
    response = request(undone, cell, cell.who)
    assert is_as_expected(cell, response.status_code), (response.status_code, response.content)


SECRETIVE = [cell for cell in CELLS if cell.who in BLIND and cell.method in cell.rule.methods]


@pytest.mark.parametrize("cell", SECRETIVE, ids=str)
def test_nobody_finds_what_is_private_to_others(undone: Scene, cell: Cell) -> None:
    undone.empty_cache()
    if cell.method == "GET":
        request(undone, cell, Who.ADMIN)  # fills the caches with what an admin sees
    response = request(undone, cell, cell.who)
    asked = undone.address(cell.pattern, query=cell.query) + undone.body(cell.rule.body)
    hidden = undone.secrets | {undone.filled(text) for text in cell.rule.secrets}
    told = f"{response.content.decode()} {response.headers}"
    assert [text for text in hidden if text in told and text not in asked] == []


SEEN_BY_ADMINS = (
    *("api/v1/jobs", "api/v1/jobs/<uuid:job_id>", "api/v1/operations", "api/v1/events"),
    *("api/v1/changes", "api/v1/batches", "api/v1/decisions", "api/v1/servers/<str:key>/jobs"),
    "api/v1/plans/<str:key>/steps",
    *("api/v1/applications/<path:key>/prediction-errors", "servers/<str:name>/", "system/"),
    *("api/v1/profiling-runs", "api/v1/profiling-runs/<uuid:run_id>", "applications/<path:name>/"),
    "api/v1/applications/<path:key>/profiling-runs",
    *("jobs/", "decisions/", "search/", "", "plans/<str:key>/"),
)


@pytest.mark.parametrize("pattern", SEEN_BY_ADMINS)
def test_an_admin_finds_what_is_hidden_from_others(undone: Scene, pattern: str) -> None:
    rule = RULES[pattern]
    response = request(undone, Cell(pattern, "GET", Who.ADMIN, rule, rule.query), Who.ADMIN)
    told = response.content.decode()
    assert [text for text in undone.secrets if text in told]


@pytest.mark.parametrize("name", ["pressure", "prediction-error"])
def test_an_admin_finds_hidden_jobs_in_figures(undone: Scene, name: str) -> None:
    cell = Cell(f"figures/{name}/", "GET", Who.ADMIN, FIGURES[name], FIGURES[name].query)
    assert b"zq-secret" in request(undone, cell, Who.ADMIN).content


# ---- the table itself ----


def missing(rules: dict[str, Rule]) -> list[str]:
    return disagreements(all_routes(), rules, frozenset(DRAWN))


def test_every_route_and_figure_has_a_rule() -> None:
    assert missing(RULES) == []


@pytest.mark.parametrize("pattern", RULES)
def test_a_route_without_its_rule_is_reported(pattern: str) -> None:
    others = {name: rule for name, rule in RULES.items() if name != pattern}
    assert missing(others) == [f"{pattern!r} has no rule"]


def test_a_figure_without_a_rule_is_reported() -> None:
    found = disagreements(all_routes(), RULES, frozenset({*DRAWN, "new"}))
    assert found == ["'figure new' has no rule"]


def test_a_rule_without_a_route_is_reported() -> None:
    assert missing({**RULES, "gone/": page()}) == ["the rule of 'gone/' has no route"]


def test_a_method_without_a_rule_is_reported() -> None:
    route = Route("api/v1/me", frozenset({"GET", "DELETE"}))
    found = disagreements({**all_routes(), "api/v1/me": route}, RULES, frozenset(DRAWN))
    assert found == ["'api/v1/me': DELETE differ from the methods of its view"]


def test_a_rule_that_allows_too_much_is_noticed(undone: Scene) -> None:
    pattern = "api/v1/plans"
    lax = Rule({"GET": dict.fromkeys(Who, OK)})
    cell = Cell(pattern, "GET", Who.MEMBER, lax, "")
    assert not is_as_expected(cell, request(undone, cell, cell.who).status_code)
