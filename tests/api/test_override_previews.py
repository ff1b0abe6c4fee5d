"""Previews of overrides: their effect on profile and jobs, without storing them."""

import sys
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from kombu.exceptions import OperationalError
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.selectors import principal_by_user
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override, PendingFold, Profile
from apps.classification.services import NewOverride, fold_pending, request_folds
from apps.classification.tasks import infer_preview, preview_by_worker
from apps.common.core.interference import SOURCES
from apps.common.infrastructure.worker_results import await_result, store_result
from apps.inventory.models import Server
from apps.operations.models import Event, IdempotencyKey
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services import preview_overrides
from apps.workloads.models import Application, Job
from tests import factories
from tests.api.cluster import build_cluster
from tests.api.conftest import Speak

URL = "/api/v1/applications/sort/overrides/"
PREVIEW = f"{URL}preview/"
CELL: dict[str, Any] = {"matrix": "tolerated", "column": "l1i", "value": 20.0}
BODY: dict[str, Any] = {"cells": [CELL], "reason": "measured on the bench"}
SLOWER: dict[str, Any] = {"matrix": "base_rate", "column": "bytes", "value": 2e7}


@pytest.fixture
def believed(sort: Application, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application whose profile is inferred from one measurement: 100 MB/s per unit."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    for column in ("metric", "bytes"):
        factories.measurement(
            sort, matrix="base_rate", column=column, value=1e8, standard_error=1e5
        )
    request_folds([sort.pk])
    fold_pending()
    return sort


def previewed(api: APIClient, *cells: dict[str, Any]) -> dict[str, Any]:
    response = api.post(PREVIEW, {"cells": list(cells), "reason": "what if"})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def waiting(name: str = "w", **values: Any) -> Job:
    """A job of 30 GB due in 600 s, submitted just now."""
    chosen = {"application": Application.objects.get(name="sort"), "input_bytes": 30 * 10**9}
    return factories.job(name, submitted_s=0.0, tasks_total=64, **{**chosen, **values})


def running(name: str = "r", *, cores: int = 1, **values: Any) -> Job:
    """The same job, running on srv-1."""
    job = waiting(name, state="running", placed_s=5.0, units=cores, **values)
    factories.allocation(job, Server.objects.get(name="srv-1"), cores=cores)
    return job


def test_a_preview_tells_which_jobs_need_another_size(
    power: APIClient, believed: Application
) -> None:
    job = waiting()
    preview = previewed(power, SLOWER)
    assert (preview["dry_run"], preview["application"], preview["profile"]) == (True, "sort", 2)
    assert preview["revision"] == {"before": 1, "after": 1}
    assert (preview["examined"], preview["total"], preview["changed"]) == (1, 1, 1)
    (affected,) = preview["jobs"]
    assert (affected["id"], affected["name"], affected["state"]) == (str(job.pk), "w", "queued")
    assert affected["units"]["after"] > affected["units"]["before"]
    assert (affected["units_held"], affected["servers"], affected["unit"]) == (None, [], "seconds")
    assert affected["feasible"] == {"before": True, "after": True}
    predicted = affected["predicted"]["before"]
    assert predicted["low"] < predicted["value"] < predicted["high"] <= 600.0


def test_a_preview_tells_which_cells_change(power: APIClient, believed: Application) -> None:
    preview = previewed(power, SLOWER)
    cells = {(cell["matrix"], cell["column"]): cell for cell in preview["cells"]}
    changed = cells["base_rate", "bytes"]
    assert changed["unit"] == "bytes/s"
    assert changed["before"]["source"] == "measured"
    assert changed["after"]["source"] == "override"
    assert changed["before"]["value"] == pytest.approx(1e8, rel=0.01)
    assert changed["after"]["value"] == pytest.approx(2e7, rel=0.01)
    assert {matrix for matrix, _ in cells} == {"base_rate"}


def test_a_preview_tells_what_then_happens(power: APIClient, believed: Application) -> None:
    waiting()
    (job,) = previewed(power, SLOWER)["jobs"]
    power.post(URL, {"cells": [SLOWER], "reason": "so it is"})
    fold_pending()
    after = previewed(power, {**SLOWER, "value": 1e8})
    assert after["jobs"][0]["units"]["before"] == job["units"]["after"]
    assert after["jobs"][0]["predicted"]["before"] == job["predicted"]["after"]
    assert previewed(power, SLOWER)["jobs"] == []
    assert previewed(power, SLOWER)["cells"] == []


def test_a_preview_writes_nothing(power: APIClient, believed: Application) -> None:
    waiting()
    running()
    models = (Override, PendingFold, Profile, Event, Job, IdempotencyKey)
    before = [list(model.objects.values()) for model in models]
    previewed(power, SLOWER)
    assert [list(model.objects.values()) for model in models] == before


def test_a_running_job_is_held_against_the_servers_it_is_on(
    power: APIClient, believed: Application
) -> None:
    other = factories.job("loud")
    job = running()
    factories.allocation(
        other, Server.objects.get(name="srv-1"), cores=3, caused=[40.0] * len(SOURCES)
    )
    cells = [{"matrix": "tolerated", "column": name, "value": 90.0} for name in SOURCES]
    power.post(URL, {"cells": cells, "reason": "hardy"})
    fold_pending()
    (affected,) = previewed(power, {"matrix": "tolerated", "column": "tlb", "value": 30.0})["jobs"]
    assert (affected["id"], affected["units_held"], affected["good_servers"]) == (
        str(job.pk),
        1,
        None,
    )
    (server,) = affected["servers"]
    assert (server["server"], server["platform"]) == ("srv-1", "A")
    assert server["acceptable"] == {"before": True, "after": False}
    # three units cause 40 each on three others
    assert server["headroom"] == {"before": 50.0, "after": -10.0}
    assert server["tightest"] == "tlb"


def test_a_running_job_is_sized_as_of_when_it_was_placed(
    power: APIClient, believed: Application
) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    running()
    (job,) = previewed(power, SLOWER)["jobs"]
    # 30 GB at 90 % of 100 MB/s, 5 s after submission
    assert job["predicted"]["before"]["value"] == pytest.approx(5.0 + 30e9 / 0.9e8, rel=0.02)


def test_an_infeasible_target_has_suggestions(power: APIClient, believed: Application) -> None:
    waiting(input_bytes=200 * 10**9)
    (job,) = previewed(power, {**SLOWER, "value": 1e6})["jobs"]
    assert job["feasible"] == {"before": True, "after": False}
    assert job["platforms_lost"]
    assert job["suggestion"].startswith("request at least")
    assert job["predicted"]["after"]["low"] is None


def test_previews_list_only_visible_jobs(
    power: APIClient, believed: Application, stranger: User, as_user: Speak
) -> None:
    waiting()
    waiting("theirs", project=factories.project("elsewhere"))
    assert {job["name"] for job in previewed(power, SLOWER)["jobs"]} == {"w", "theirs"}
    preview = previewed(as_user(stranger), SLOWER)
    assert (preview["total"], [job["name"] for job in preview["jobs"]]) == (1, ["theirs"])


def test_ended_jobs_and_those_of_others_are_not_examined(
    power: APIClient, believed: Application
) -> None:
    waiting(state="succeeded")
    waiting(application=factories.application())
    assert previewed(power, SLOWER)["total"] == 0


def test_waiting_jobs_come_first_and_no_more_than_the_limit_are_examined(
    operator: User, believed: Application
) -> None:
    running("r1")
    waiting("low", priority=-1)
    waiting("high", priority=1)
    caller = principal_by_user(operator.pk)
    assert caller is not None
    cells = [NewOverride(MatrixName.BASE_RATE, "bytes", 2e7)]
    some = preview_overrides(caller, believed, cells, infer=preview_by_worker, limit=2)
    assert [preview.job.name for preview in some.jobs] == ["high", "low"]
    assert (some.examined, some.total) == (2, 3)
    every = preview_overrides(caller, believed, cells, infer=preview_by_worker)
    assert [preview.job.name for preview in every.jobs] == ["high", "low", "r1"]
    assert (every.examined, every.total) == (3, 3)


def test_when_time_is_up_a_preview_says_how_far_it_came(
    power: APIClient, believed: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.scheduling.services.preview.BUDGET_S", 0.0)
    waiting("w1")
    waiting("w2")
    preview = previewed(power, SLOWER)
    assert (preview["examined"], preview["total"]) == (1, 2)


def test_of_an_application_never_profiled_only_the_cells_can_be_told(power: APIClient) -> None:
    build_cluster()
    factories.library(("A", "B"))
    waiting(application=factories.application("sort"))
    preview = previewed(power, SLOWER)
    assert (preview["profile"], preview["revision"]["before"]) == (None, None)
    assert (preview["examined"], preview["total"], preview["jobs"]) == (0, 1, [])
    assert all(cell["before"] is None for cell in preview["cells"])


def test_a_preview_takes_the_same_queries_however_many_jobs_there_are(
    power: APIClient, believed: Application
) -> None:
    running("r1")
    waiting("w1")
    previewed(power, SLOWER)
    with CaptureQueriesContext(connection) as few:
        previewed(power, SLOWER)
    running("r2")
    waiting("w2")
    waiting("w3")
    with CaptureQueriesContext(connection) as many:
        assert previewed(power, SLOWER)["examined"] == 5
    assert len(many) == len(few)
    assert len(few) <= 16


def test_a_submitter_may_look_and_a_viewer_may_not(
    operator: User, as_user: Speak, believed: Application
) -> None:
    sent = {"cells": [SLOWER], "reason": "r"}
    assert as_user(operator, role=Role.SUBMITTER).post(PREVIEW, sent).status_code == 200
    assert as_user(operator, role=Role.VIEWER).post(PREVIEW, sent).status_code == 403


@pytest.mark.parametrize(
    ("cells", "pointer"),
    [
        ([], "/cells"),
        ([{**CELL, "column": "llc"}], "/cells/0/column"),
        ([{**CELL, "value": 1e308}], "/cells/0/value"),
        ([CELL, CELL], "/cells/1"),
    ],
)
def test_a_preview_refuses_invalid_overrides(
    power: APIClient, sort: Application, cells: list[dict[str, Any]], pointer: str
) -> None:
    response = power.post(PREVIEW, {"cells": cells, "reason": "r"})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_a_preview_needs_matrices_and_an_application(power: APIClient) -> None:
    assert power.post(PREVIEW, BODY).status_code == 404
    factories.application("sort")
    response = power.post(PREVIEW, BODY)
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")


# ---- inference in a worker ----


def forbid_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make imports of the compiled kernels fail."""
    for package in ("apps.classification.core.estimators", "apps.scheduling.core"):
        monkeypatch.setitem(sys.modules, f"{package}.kernels", None)
        monkeypatch.delattr(f"{package}.kernels", raising=False)


def test_the_process_that_is_asked_compiles_nothing(
    power: APIClient, believed: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting()
    expected = previewed(power, SLOWER)
    infer_preview("theirs", str(believed.pk), [("base_rate", "bytes", 2e7)])
    inferred = await_result("theirs", within_s=0.0)

    def by_another_process(names: tuple[str, ...], **_: Any) -> None:
        store_result(names[0], inferred)

    monkeypatch.setattr(infer_preview, "apply_async", by_another_process)
    forbid_kernels(monkeypatch)
    assert previewed(power, SLOWER) == expected


def test_the_worker_that_draws_does(
    believed: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_kernels(monkeypatch)
    with pytest.raises(ImportError):
        infer_preview("k", str(believed.pk), [("base_rate", "bytes", 2e7)])


def test_without_a_worker_a_preview_says_so(
    power: APIClient, believed: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infer_preview, "apply_async", lambda *_, **__: None)
    monkeypatch.setattr("apps.classification.services.override_previews.WAIT_S", 0.05)
    response = power.post(PREVIEW, {"cells": [SLOWER], "reason": "r"})
    assert (response.status_code, response.json()["retryable"]) == (503, True)
    assert response.json()["detail"] == "No worker has answered in time."
    assert response["Retry-After"]


def test_without_a_broker_a_preview_says_so(
    power: APIClient, believed: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(infer_preview, "apply_async", refuse)
    response = power.post(PREVIEW, {"cells": [SLOWER], "reason": "r"})
    assert (response.status_code, response.json()["retryable"]) == (503, True)
    assert response.json()["detail"] == "The task queue is not available."
