"""Import of reports of `berth profile`."""

from typing import Any

import numpy as np
import pytest
from django.test import Client
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.classification import selectors
from apps.classification.models import PendingFold
from apps.classification.services.reports import import_report
from apps.common.core.errors import ConflictError
from apps.common.core.interference import SOURCES
from apps.profiling.core.report import seal
from apps.profiling.models import ImportedReport, Measurement, ReportKey
from apps.scheduling.models import Decision
from apps.scheduling.services.agent import make_agent
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application
from apps.workloads.services import submit_jobs
from tests import factories
from tests.races import at_once

pytestmark = pytest.mark.django_db
KEY = "k" * 32
REPORTS, KEYS = "/api/v1/profile-reports/", "/api/v1/report-keys/"
LLC = SOURCES.index("llc_capacity")


def source(
    stressor: str = "llc_capacity", state: str = "measured", **values: Any
) -> dict[str, Any]:
    is_measured = state == "measured"
    return {
        "stressor": stressor, "source": stressor, "state": state, "reason": None,
        "score": 40.0 if is_measured else None, "low": 30.0 if is_measured else None,
        "high": 50.0 if is_measured else None,
        "points": [{"intensity": 100, "pairs": 3}, {"intensity": 50, "pairs": 4}],
        "stressor_speed": 0.8, **values,
    }  # fmt: skip


def report(*sources: dict[str, Any], key: str | None = KEY, **values: Any) -> dict[str, Any]:
    body = {
        "format": "berth-profile-1",
        "command": ["/usr/bin/xz", "-k", "in"],
        "started_at": "2026-11-23T10:00:00Z",
        "cpu_share": 0.5,
        "sources": list(sources) or [source()],
        **values,
    }
    return seal(body, None if key is None else key.encode())


@pytest.fixture
def api() -> APIClient:
    """An operator, and a trusted key."""
    factories.cluster()
    ReportKey.objects.create(name="workshop", secret=KEY.encode())
    client = APIClient()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def imported(api: APIClient, body: dict[str, Any], **values: Any) -> ImportedReport:
    answer = api.post(REPORTS, {"report": body, **values}, format="json")
    assert answer.status_code == 201, answer.json()
    return ImportedReport.objects.get(pk=answer.json()["id"])


def test_a_report_becomes_measurements_with_noise(api: APIClient) -> None:
    body = report(
        source(),
        source("memory_bandwidth", "not_reached", stressor_speed=None),
        source("tlb", "invalid", stressor_speed=0.9),
    )
    found = imported(api, body)
    assert (found.application.name, found.application.runs_commands) == ("xz", True)
    rows = {
        (row.matrix, row.column): (row.value, row.standard_error, row.samples, row.source)
        for row in Measurement.objects.all()
    }
    half = pytest.approx(20.0 / (2 * 1.6448536269514722))
    assert rows == {
        ("tolerated", "llc_capacity"): (40.0, half, 7, "report"),
        ("caused", "llc_capacity"): (pytest.approx(20.0), 6.0, 7, "report"),
        ("tolerated", "memory_bandwidth"): (100.0, 6.0, 7, "report"),
        ("caused", "tlb"): (pytest.approx(10.0), 6.0, 7, "report"),
    }
    assert found.cells == 4


def test_a_report_is_imported_once(api: APIClient) -> None:
    body = report()
    first = imported(api, body)
    assert imported(api, body) == first
    assert Measurement.objects.count() == 2
    answer = api.post(REPORTS, {"report": body, "application": "other"}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (
        409, "The report was imported for the application xz.",
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_a_report_at_once_store_it_once() -> None:
    factories.cluster()
    ReportKey.objects.create(name="workshop", secret=KEY.encode())
    body = report()
    found = at_once(2, lambda: import_report(body, application=None, by=None).pk)
    assert found[0] == found[1]
    assert (ImportedReport.objects.count(), Measurement.objects.count()) == (1, 2)


@pytest.mark.django_db(transaction=True)
def test_one_report_at_once_for_two_applications_is_imported_for_one() -> None:
    factories.cluster()
    ReportKey.objects.create(name="workshop", secret=KEY.encode())
    body, names = report(), iter(["one", "two"])

    def attempt() -> str:
        try:
            return import_report(body, application=next(names), by=None).application.name
        except ConflictError as error:
            return str(error)

    texts = sorted(at_once(2, attempt), key=len)
    assert texts[1] == f"The report was imported for the application {texts[0]}."


def test_two_reports_of_a_program_are_combined(api: APIClient) -> None:
    imported(api, report(source(score=40.0, low=30.0, high=50.0)))
    imported(api, report(source(score=60.0, low=50.0, high=70.0)))
    scores = selectors.program_scores_of("xz")
    assert scores is not None
    assert scores.tolerated.at(LLC).value == pytest.approx(50.0)


def test_an_application_may_be_named(api: APIClient) -> None:
    assert imported(api, report(), application="compress").application.name == "compress"


def test_a_profile_is_inferred_again_where_there_is_one(api: APIClient) -> None:
    imported(api, report())
    assert not PendingFold.objects.exists()
    xz = Application.objects.get()
    factories.profile(xz)
    imported(api, report(cpu_share=0.6))
    assert PendingFold.objects.get().application == xz


def test_an_emulated_application_takes_no_report(api: APIClient) -> None:
    factories.application("xz")
    answer = api.post(REPORTS, {"report": report()}, format="json")
    assert answer.status_code == 409
    assert "The application xz is emulated" in answer.json()["detail"]
    assert not Measurement.objects.exists()


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        (report(key=None), "/report/signature", "is required"),
        (report(key="x" * 32), "/report/signature", "is of no trusted key"),
        ({**report(), "cpu_share": 0.9}, "/report/digest", "the digest does not match"),
        ({}, "/report/digest", "the digest does not match"),
        (report(format="berth-profile-9"), "/report/format", "must be 'berth-profile-1'"),
        (report(command=[]), "/report/command", "list of strings"),
        (report(cpu_share="much"), "/report/cpu_share", "must be a number"),
        (report(sources=[]), "/report/sources", "a list of 1 to 100 sources"),
        (report(sources=["x"]), "/report/sources/0", "must be an object"),
        (report(source("l9")), "/report/sources/0/stressor", "must be one of core"),
        (report(source(source="gpu")), "/report/sources/0/source", "must be null or one of"),
        (report(source(), source(state="fine")), "/report/sources/1/state", "must be one of"),
        (report(source(score=101.0)), "/report/sources/0/score", "from 0 to 100"),
        (report(source(high=None)), "/report/sources/0/high", "from 0 to 100"),
        (report(source(points=[{}])), "/report/sources/0/points", "objects with pairs"),
        (report(note="x" * (1 << 19)), "/report", "must take at most 524,288 bytes"),
    ],
    ids=["unsigned", "foreign", "changed", "empty", "format", "command", "share", "none", "text",
         "stressor", "source", "state", "score", "high", "points", "size"],
)  # fmt: skip
def test_an_error_names_the_field_of_the_report(
    api: APIClient, body: dict[str, Any], pointer: str, detail: str
) -> None:
    answer = api.post(REPORTS, {"report": body}, format="json")
    assert answer.status_code == 422
    error = answer.json()["errors"][0]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert not ImportedReport.objects.exists()


def test_the_list_is_that_of_an_application(api: APIClient) -> None:
    imported(api, report())
    imported(api, report(cpu_share=0.6), application="other")
    rows = api.get(REPORTS, {"application": "xz"}).json()["results"]
    assert [(row["application"], row["key"], row["command"]) for row in rows] == [
        ("xz", "workshop", ["/usr/bin/xz", "-k", "in"])
    ]


def test_keys_are_added_and_removed_by_an_admin(api: APIClient) -> None:
    assert api.get(KEYS).status_code == 403
    assert api.post(KEYS, {"name": "n", "key": KEY}, format="json").status_code == 403
    api.force_login(factories.user("ada", role=Role.ADMIN))
    made = api.post(KEYS, {"name": "lab", "key": f"{'z' * 32}\n"}, format="json")
    assert made.status_code == 201
    assert "z" * 32 not in made.content.decode() + api.get(KEYS).content.decode()
    imported(api, report(key="z" * 32))
    assert api.delete(f"{KEYS}{made.json()['id']}/").status_code == 204
    answer = api.post(REPORTS, {"report": report(cpu_share=0.7, key="z" * 32)}, format="json")
    assert answer.json()["errors"][0]["code"] == "untrusted"
    assert ImportedReport.objects.count() == 1
    assert api.delete(f"{KEYS}{made.json()['id']}/").status_code == 404


def test_a_short_key_and_a_second_one_of_a_name_are_refused(api: APIClient) -> None:
    api.force_login(factories.user("ada", role=Role.ADMIN))
    short = api.post(KEYS, {"name": "lab", "key": "z" * 31}, format="json")
    assert short.json()["errors"][0]["detail"] == "must have at least 32 bytes, not 31"
    assert api.post(KEYS, {"name": "workshop", "key": KEY}, format="json").status_code == 409


def test_a_command_is_placed_with_its_imported_scores(api: APIClient) -> None:
    platform = factories.platform("box", cores=2)
    for name in ("one", "two"):
        factories.server(name, of=platform, backend="agent")
    imported(api, report(source(score=10.0, low=8.0, high=12.0)))
    (job,) = submit_jobs(
        [parse_job({"command": ["xz", "in"]})],
        project=factories.project(), user=factories.user(), correlation_id="r",
    )  # fmt: skip
    make_agent("scheduler-1").work(for_s=5.0)
    decision = Decision.objects.get(job=job)
    assert decision.outcome == "placed"
    allocation = job.allocations.get()
    assert np.array(allocation.caused)[LLC] == pytest.approx(20.0)


def test_the_page_of_the_application_shows_its_reports(api: APIClient, client: Client) -> None:
    machine = {"processor": "Quick <Core>"}
    imported(api, report(source(), source("tlb", "not_reached"), machine=machine))
    client.force_login(factories.user("vera", role=Role.VIEWER))
    text = client.get("/applications/xz/").content.decode()
    assert "1 imported profile" in text
    assert "Quick &lt;Core&gt;" in text
    assert "LLC capacity 40, TLB 100" in text
    assert "<td>workshop" in text
