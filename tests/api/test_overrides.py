"""REST API of overrides: creation, listing, withdrawal and permissions."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.classification.models import Override, PendingFold
from apps.classification.services import fold_pending
from apps.operations.models import Event
from apps.workloads.core.framework import LABELS
from apps.workloads.models import Application
from tests import factories
from tests.api.conftest import Speak
from tests.api.samples import send_raw

URL = "/api/v1/applications/sort/overrides/"
CELL: dict[str, Any] = {"matrix": "tolerated", "column": "l1i", "value": 20.0}
BODY: dict[str, Any] = {"cells": [CELL], "reason": "measured on the bench"}


def body(*cells: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**BODY, "cells": [{**CELL, **cell} for cell in cells or ({},)], **values}


def problems(response: Any) -> dict[str, str]:
    assert response.status_code == 422, response.content
    return {error["pointer"]: error["detail"] for error in response.json()["errors"]}


# ---- creation and listing ----


def test_an_override_is_made_listed_and_folded_in(power: APIClient, sort: Application) -> None:
    response = power.post(URL, BODY)
    (override,) = response.json()["results"]
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/applications/{sort.pk}/overrides/"
    assert power.get(URL).json()["results"] == [override]
    del override["id"], override["created_at"]
    assert override == {
        **CELL,
        "unit": "points of 100",
        "reason": "measured on the bench",
        "created_by": "olga",
        "at_seconds": 0.0,
        "withdrawn_at": None,
    }
    assert fold_pending() == 1
    cells = power.get("/api/v1/applications/sort/classification/").json()["cells"]["tolerated"]
    at = cells["columns"].index("l1i")
    assert (cells["value"][at], cells["source"][at]) == (pytest.approx(20.0), "override")


def test_several_cells_are_set_at_once(power: APIClient, sort: Application) -> None:
    response = power.post(
        URL, body({}, {"column": "l1d"}, {"matrix": "heterogeneity", "column": "B", "value": 0.4})
    )
    assert [(r["matrix"], r["column"], r["value"]) for r in response.json()["results"]] == [
        ("tolerated", "l1i", 20.0),
        ("tolerated", "l1d", 20.0),
        ("heterogeneity", "B", 0.4),
    ]
    listed = power.get(f"{URL}?matrix=tolerated").json()["results"]
    assert {r["column"] for r in listed} == {"l1i", "l1d"}


def test_a_new_override_replaces_the_earlier_one(power: APIClient, sort: Application) -> None:
    power.post(URL, BODY)
    power.post(URL, body({"value": 30.0}))
    assert [r["value"] for r in power.get(URL).json()["results"]] == [30.0]
    every = power.get(f"{URL}?withdrawn=true").json()["results"]
    assert [(r["value"], r["withdrawn_at"] is None) for r in every] == [
        (30.0, True),
        (20.0, False),
    ]
    assert len(power.get(f"{URL}?withdrawn=false").json()["results"]) == 1


def test_a_repeated_key_sets_nothing_twice(power: APIClient, sort: Application) -> None:
    first = power.post(URL, BODY, HTTP_IDEMPOTENCY_KEY="k")
    again = power.post(URL, BODY, HTTP_IDEMPOTENCY_KEY="k")
    assert (again.json(), again["Idempotency-Replayed"]) == (first.json(), "true")
    assert Override.objects.count() == 1


def test_who_set_and_withdrew_is_in_the_events(
    power: APIClient, operator: User, sort: Application
) -> None:
    (override,) = power.post(URL, BODY).json()["results"]
    power.delete(f"{URL}{override['id']}/")
    events = Event.objects.filter(subject=str(sort.pk), kind__contains="overrid").order_by("seq")
    about = {"name": "sort", "cells": ["tolerated[l1i]"], "by": str(operator.pk)}
    assert [(event.kind, event.data) for event in events] == [
        ("application.overridden", {**about, "reason": "measured on the bench"}),
        ("application.override_withdrawn", about),
    ]


# ---- withdrawal ----


def test_a_withdrawn_override_lets_measurements_speak(power: APIClient, sort: Application) -> None:
    (override,) = power.post(URL, BODY).json()["results"]
    fold_pending()
    response = power.delete(f"{URL}{override['id']}/")
    assert (response.status_code, response.content) == (204, b"")
    assert power.get(URL).json()["results"] == []
    assert PendingFold.objects.filter(application=sort).exists()


def test_withdrawing_twice_is_a_conflict(power: APIClient, sort: Application) -> None:
    (override,) = power.post(URL, BODY).json()["results"]
    power.delete(f"{URL}{override['id']}/")
    response = power.delete(f"{URL}{override['id']}/")
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    assert response.json()["detail"].partition(" was already ")[2].startswith("withdrawn at 20")


def test_all_are_withdrawn_at_once(power: APIClient, sort: Application) -> None:
    power.post(URL, body({}, {"column": "l1d"}))
    assert power.delete(URL).status_code == 204
    assert power.delete(URL).status_code == 204
    assert not Override.objects.filter(withdrawn_at=None).exists()
    assert Event.objects.filter(kind="application.override_withdrawn").count() == 1


def test_an_override_of_another_application_is_not_found(
    power: APIClient, sort: Application
) -> None:
    (override,) = power.post(URL, BODY).json()["results"]
    factories.application("other")
    response = power.delete(f"/api/v1/applications/other/overrides/{override['id']}/")
    assert response.status_code == 404
    assert Override.objects.filter(withdrawn_at=None).count() == 1


# ---- permissions ----


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER])
def test_only_operators_set_overrides(
    power: APIClient, operator: User, as_user: Speak, sort: Application, role: Role
) -> None:
    (override,) = power.post(URL, BODY).json()["results"]
    weak = as_user(operator, role=role)
    assert weak.get(URL).json()["results"] == [override]
    assert weak.post(URL, BODY).status_code == 403
    assert weak.delete(URL).status_code == 403
    assert weak.delete(f"{URL}{override['id']}/").status_code == 403
    assert Override.objects.filter(withdrawn_at=None).count() == 1


# ---- invalid requests ----


@pytest.mark.parametrize(
    ("cell", "field", "message"),
    [
        ({"matrix": "speed"}, "matrix", "must be one of base_rate, heterogeneity, scale_up, sca"),
        ({"matrix": 3}, "matrix", "must be one of base_rate, heterogeneity, scale_up, scale_out"),
        ({"matrix": ["caused"]}, "matrix", "must be one of base_rate, heterogeneity, scale_up"),
        ({"column": "llc"}, "column", "must be one of memory_capacity, m"),
        ({"column": 3}, "column", "must be the column's name, not 3"),
        ({"column": None}, "column", "must be the column's name, not None"),
        ({"value": "20"}, "value", "must be a number, not '20'"),
        ({"value": True}, "value", "must be a number, not True"),
        ({"value": None}, "value", "must be a number, not None"),
        ({"value": 101}, "value", "must be between 0 and 100, got 101"),
        ({"value": -1}, "value", "must be between 0 and 100, got -1"),
        ({"value": 1e308}, "value", "must be at most 1e+18, not 1e+308"),
        (
            {"matrix": "heterogeneity", "column": "B", "value": 0},
            "value",
            "must be between 1e-06 and 1e+06, got 0",
        ),
        (
            {"matrix": "base_rate", "column": "metric", "value": -1e9},
            "value",
            "must be between 1e-06 and 1e+18, got -1e+09",
        ),
        ({"source": "me"}, "source", "unknown field; expected matrix, column, value"),
    ],
)
def test_an_invalid_cell_is_named(
    power: APIClient, sort: Application, cell: dict[str, Any], field: str, message: str
) -> None:
    errors = problems(power.post(URL, body(cell)))
    assert list(errors) == [f"/cells/0/{field}"]
    assert errors[f"/cells/0/{field}"].startswith(message)
    assert not Override.objects.exists()


def test_only_what_has_settings_is_corrected_there(power: APIClient, sort: Application) -> None:
    setting = LABELS[1]
    cell = {"matrix": "framework", "column": setting, "value": 1.3}
    assert power.post(URL, body(cell)).status_code == 201
    factories.application("cache", kind="latency_critical")
    of_cache = "/api/v1/applications/cache/overrides/"
    message = {"/cells/0/matrix": "only analytics applications have framework settings"}
    assert problems(power.post(of_cache, body(cell))) == message
    assert problems(power.post(f"{of_cache}preview/", body(cell))) == message


@pytest.mark.parametrize(
    ("sent", "pointer", "message"),
    [
        ({"reason": "r"}, "/cells", "must be a list of at least one {matrix, column, value}"),
        ({"cells": [], "reason": "r"}, "/cells", "must be a list of at least one {matrix, co"),
        ({"cells": CELL, "reason": "r"}, "/cells", "must be a list of at least one {matrix, c"),
        ({"cells": [1], "reason": "r"}, "/cells/0", "must be an object with matrix, column an"),
        ({"cells": [CELL] * 201, "reason": "r"}, "/cells", "must have at most 200 entries, no"),
        ({"cells": [CELL, CELL], "reason": "r"}, "/cells/1", "tolerated[l1i] appears twice"),
        ({"cells": [{"matrix": "caused", "value": 1}], "reason": "r"}, "/cells/0/column", "colu"),
        ({"cells": [CELL]}, "/reason", "a reason is required; it is shown with the override"),
        (
            {"cells": [CELL], "reason": ""},
            "/reason",
            "a reason is required; it is shown with the override",
        ),
        ({"cells": [CELL], "reason": "  "}, "/reason", "must be printable text on one line, no"),
        ({"cells": [CELL], "reason": "a\x00"}, "/reason", "must not contain the character U+0000"),
        ({"cells": [CELL], "reason": "a\x01b"}, "/reason", "must be printable text on one line,"),
        ({"cells": [CELL], "reason": 7}, "/reason", "must be text, not 7"),
        ({"cells": [CELL], "reason": "x" * 501}, "/reason", "must have at most 500 characters,"),
        ({**BODY, "by": "me"}, "/by", "unknown field; expected cells, reason"),
        ([CELL], "", "must be an object with cells"),
    ],
)
def test_an_invalid_body_is_named(
    power: APIClient, sort: Application, sent: Any, pointer: str, message: str
) -> None:
    errors = problems(power.post(URL, sent))
    assert list(errors) == [pointer]
    assert errors[pointer].startswith(message)


def test_all_invalid_fields_are_named_at_once(power: APIClient, sort: Application) -> None:
    errors = problems(power.post(URL, body({"value": "x"}, {"matrix": "y"}, reason=None)))
    assert set(errors) == {"/cells/0/value", "/cells/1/matrix", "/reason"}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_an_invalid_json_number_is_malformed(
    power: APIClient, sort: Application, value: str
) -> None:
    sent = f'{{"cells": [{{"matrix": "caused", "column": "l1i", "value": {value}}}]}}'
    response = send_raw(power, URL, sent.encode(), content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (400, "malformed_json")
    assert value in response.json()["detail"]


def test_a_number_too_large_for_a_float_is_refused(power: APIClient, sort: Application) -> None:
    sent = b'{"cells": [{"matrix": "caused", "column": "l1i", "value": 1e999}], "reason": "r"}'
    errors = problems(send_raw(power, URL, sent, content_type="application/json"))
    assert errors == {"/cells/0/value": "must be a finite number"}


def test_without_matrices_nothing_can_be_corrected(power: APIClient) -> None:
    factories.application("sort")
    response = power.post(URL, BODY)
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    assert "profile_library" in response.json()["detail"]


def test_an_unknown_application_has_no_overrides(power: APIClient, sort: Application) -> None:
    for_nobody = "/api/v1/applications/nobody/overrides/"
    assert power.get(for_nobody).status_code == 404
    assert power.post(for_nobody, BODY).status_code == 404
    assert power.delete(for_nobody).status_code == 404


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("withdrawn=yes", "withdrawn must be true or false, not 'yes'."),
        ("matrix=speed", "matrix must be one of base_rate"),
        ("since=1", "since is not a parameter of this route; known: brief"),
    ],
)
def test_bad_parameters_are_refused(
    power: APIClient, sort: Application, query: str, message: str
) -> None:
    response = power.get(f"{URL}?{query}")
    assert response.status_code == 400
    assert response.json()["detail"].startswith(message)


def test_overrides_take_two_queries_besides_the_caller(
    power: APIClient, sort: Application, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    power.post(URL, body({}, {"column": "l1d"}))
    with django_assert_num_queries(3):
        assert len(power.get(URL).json()["results"]) == 2
