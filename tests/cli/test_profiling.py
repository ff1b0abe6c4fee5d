"""`berth profiling`: requesting, following and cancelling runs."""

import json

import pytest
from django.db import transaction

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep
from apps.profiling.models import ProfilingRun
from apps.profiling.services import (
    end_cancelled_runs,
    record_begun,
    record_done,
    record_measurements,
    record_progress,
    request_runs,
)
from apps.workloads.models import Application
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth, rows, working

RUNS = "/api/v1/profiling-runs/"
NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def sort(transactional_db: None) -> Application:
    """An application, and a cluster of two platforms to profile it on."""
    factories.cluster(seen_cluster_s=500.0)
    for name in ("best", "other"):
        factories.server(of=factories.platform(name, cores=8))
    return factories.application("sort", kind="batch")


def begin() -> ProfilingRun:
    """Start the only run as a backend."""
    ProfilingRun.objects.update(state="running", attempts=1, started_s=510.0)
    run = ProfilingRun.objects.get()
    record_begun([run.pk])
    record_progress({run.pk: ProfilingStep(30.0, 3, 7, "tlb: tolerated 40 ± 0.5")})
    return run


def report() -> None:
    """Report one measured and one missing cell of the running run."""
    run = ProfilingRun.objects.get()
    cell = MeasuredCell("base_rate", "metric", 5e6, 1e5, 8)
    with transaction.atomic():
        record_measurements(run.pk, at_s=551.0, cells=[cell])
        record_done(run.pk, seconds=41.0, missing=[MissingCell("caused", "tlb", "it died")])


def begin_and_report() -> None:
    begin()
    report()


def test_a_run_is_requested_and_shown(berth: Berth, sort: Application) -> None:
    code, out, _ = berth("profiling", "start", "sort", "--reason", "new version")
    run = ProfilingRun.objects.get()
    assert (code, out) == (Exit.OK, f"{run.pk}\n")
    assert run.reason == "new version"
    _, shown, _ = berth("profiling", "show", str(run.pk))
    assert "state        queued\n" in shown
    assert "for new version\n" in shown
    assert "steps        0 of 7\n" in shown
    assert "budget       45 s\n" in shown
    assert "COPY  PLATFORM  SERVERS  UNITS  SETTING  SOURCES" in shown
    assert berth("profiling", "show", "sort")[1] == shown


def test_runs_are_listed_by_application_and_state(berth: Berth, sort: Application) -> None:
    other = factories.application("join")
    factories.profiling_run(
        sort,
        state="done",
        started_s=10.0,
        finished_s=12.0,
        result={"cells": 4, "seconds": 61.2, "missing": []},
    )
    failed = factories.profiling_run(
        other,
        state="failed",
        message="its copies died",
        attempts=5,
        started_s=10.0,
        finished_s=40.0,
    )
    head, newest, oldest = rows(berth("profiling", "list")[1])
    assert head == ["ID", "APPLICATION", "STATE", "STEPS", "ATTEMPT", "CREATED", "TOOK", "MESSAGE"]
    assert newest[:3] == [str(failed.pk), "join", "failed"]
    assert newest[-5:] == ["30", "s", "its", "copies", "died"]
    assert oldest[-3:] == ["1.0", "min", "-"]
    runs = json.loads(berth("profiling", "list", "--state", "failed", "-o", "json")[1])
    assert [run["application"] for run in runs] == ["join"]
    assert len(rows(berth("profiling", "list", "--app", "sort")[1])) == 2


def test_waiting_shows_progress_and_what_was_measured(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, RUNS, begin_and_report)
    code, out, err = berth("profiling", "start", "sort", "--wait")
    assert (code, out) == (Exit.OK, "sort: done; 1 cells measured in 41 s, 1 missing\n")
    assert err == "0 of 7  sort waits for a backend\n"


def test_a_run_is_watched_until_it_ends(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    berth("profiling", "start", "sort")
    begin()
    working(monkeypatch, RUNS, report)
    code, out, err = berth("profiling", "watch", "sort", "-o", "json")
    assert (code, err) == (Exit.OK, "3 of 7  tlb: tolerated 40 ± 0.5\n")
    assert json.loads(out)["result"]["cells"] == 1
    shown = berth("profiling", "show", "sort")[1]
    assert "took         41 s\n" in shown
    assert rows(shown)[-1] == ["caused", "tlb", "it", "died"]


def test_waiting_follows_a_running_operation(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    berth("profiling", "start", "sort")
    code, _, err = berth("profiling", "start", "sort")
    assert (code, "try: berth profiling watch sort" in err) == (Exit.CONFLICT, True)
    working(monkeypatch, RUNS, begin_and_report)
    code, out, err = berth("profiling", "start", "sort", "--wait", "-o", "json")
    assert "is already open; following it" in err
    assert (code, json.loads(out)["state"]) == (Exit.OK, "done")
    assert ProfilingRun.objects.count() == 1


def test_a_repeated_key_requests_one_run(berth: Berth, sort: Application) -> None:
    started = berth("profiling", "start", "sort", "--key", "k")
    assert berth("profiling", "start", "sort", "--key", "k") == started
    assert ProfilingRun.objects.count() == 1


def test_interrupting_watch_does_not_stop_the_run(
    berth: Berth, sort: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    working(monkeypatch, RUNS, interrupt)
    code, _, err = berth("profiling", "start", "sort", "--wait")
    run = ProfilingRun.objects.get()
    assert (code, run.state) == (130, "queued")
    assert f"the run continues in the background\n  try: berth profiling watch {run.pk}" in err


def test_watching_ends_at_the_timeout(berth: Berth, sort: Application) -> None:
    code, _, err = berth("profiling", "start", "sort", "--wait", "--timeout", "10ms")
    assert (code, "the run is still queued" in err) == (Exit.TIMEOUT, True)


def test_a_queued_run_is_cancelled(berth: Berth, sort: Application) -> None:
    berth("profiling", "start", "sort")
    run = ProfilingRun.objects.select_related("operation").get()
    code, out, _ = berth("profiling", "cancel", "sort")
    assert (code, out) == (Exit.OK, f"{run.pk}  stopping\n")
    assert end_cancelled_runs() == 1
    assert berth("profiling", "watch", "sort")[0] == Exit.FAILED
    code, _, err = berth("profiling", "cancel", "sort")
    assert (code, "of sort is already cancelled" in err) == (Exit.CONFLICT, True)


def test_a_running_run_is_asked_to_stop(berth: Berth, sort: Application) -> None:
    berth("profiling", "start", "sort")
    begin()
    assert berth("profiling", "cancel", "sort")[0] == Exit.OK
    operation = ProfilingRun.objects.select_related("operation").get().operation
    assert operation is not None
    assert (operation.status, operation.cancel_requested) == ("running", True)


def test_only_operators_cancel_runs_requested_by_agents(
    berth: Berth, sort: Application, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic():
        request_runs([sort.pk])
    secret = create_token(user=user, name="weak", role=Role.SUBMITTER).secret
    monkeypatch.setenv("BERTH_TOKEN", secret)
    code, _, err = berth("profiling", "cancel", "sort")
    assert (code, "of sort cannot be cancelled by you" in err) == (Exit.AUTH, True)
    assert "only its requester and operators can cancel it" in err


def test_a_run_of_another_project_is_listed_without_its_steps_and_not_cancelled(
    berth: Berth, sort: Application, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.profiling_run(
        sort, state="running", project_id=factories.project("other").pk, reason="of a job"
    )
    secret = create_token(user=user, name="weak", role=Role.SUBMITTER).secret
    monkeypatch.setenv("BERTH_TOKEN", secret)
    shown = berth("profiling", "show", "sort")[1]
    assert "steps        ? of ?\n" in shown
    assert "of a job" not in shown
    code, _, err = berth("profiling", "cancel", "sort")
    assert (code, "of sort cannot be cancelled by you" in err) == (Exit.AUTH, True)


@pytest.mark.parametrize("verb", ["show", "watch", "cancel"])
def test_an_unknown_run_is_not_found(berth: Berth, verb: str) -> None:
    code, _, err = berth("profiling", verb, NOBODY)
    assert (code, "try: berth profiling list" in err) == (Exit.NOT_FOUND, True)
    code, _, err = berth("profiling", verb, "nobody")
    assert (code, "no profiling run of an application nobody" in err) == (Exit.NOT_FOUND, True)


def test_an_unknown_application_is_not_profiled(berth: Berth) -> None:
    code, _, err = berth("profiling", "start", "nobody")
    assert (code, "try: berth app list" in err) == (Exit.NOT_FOUND, True)
