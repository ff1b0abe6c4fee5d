"""Measured pairs: request, measurement, cancellation and result."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.services import join_project
from apps.common.core.errors import ConflictError
from apps.execution.models import OutputChunk
from apps.operations.core.states import OperationStatus
from apps.operations.services import cancel_operation
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import pair_by_id, server_for_pair
from apps.testbed.services import pair_jobs, pair_requests
from apps.testbed.services.pair_emulation import run_emulated_pairs
from apps.testbed.services.pair_jobs import follow_pairs
from apps.testbed.services.pair_requests import prune_pairs
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db
URL = "/api/v1/measured-pairs/"
COMMANDS = {"first": {"command": ["xz", "in"]}, "second": {"command": ["bzip2", "in"], "units": 2}}
ROUND = {"counts": True, "alone": [2.0, 1.0], "together": [2.4, 1.0], "foreign": 0.01}


@pytest.fixture
def api() -> APIClient:
    """An operator of a project."""
    factories.cluster()
    client = APIClient()
    user = factories.user("olga", role=Role.OPERATOR)
    join_project(user=user, project=factories.project("lab"))
    client.force_login(user)
    return client


def agents() -> None:
    """Servers of agents: one with four units, one with eight."""
    for name, cores in (("small", 4), ("large", 8)):
        factories.server(name, of=factories.platform(name, cores=cores), backend="agent")


def requested(api: APIClient, body: dict[str, Any] = COMMANDS) -> MeasuredPair:
    answer = api.post(URL, {**body, "project": "lab"}, format="json")
    assert answer.status_code == 202, answer.json()
    return pair_by_id(answer.json()["id"])


def wrote(pair: MeasuredPair, *lines: Any, state: str = "running", **values: Any) -> None:
    """The measuring job is in a state and has written lines."""
    assert pair.job is not None
    if state in {"succeeded", "failed"}:
        values = {"finished_s": 9.0, "finished_at": timezone.now(), **values}
    Job.objects.filter(pk=pair.job.pk).update(state=state, **values)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    launch = factories.launch(pair.job)
    OutputChunk.objects.create(
        job=pair.job, launch=launch, stream="stdout", start=0, data=text.encode()
    )


def read(api: APIClient, pair: MeasuredPair) -> dict[str, Any]:
    body: dict[str, Any] = api.get(f"{URL}{pair.pk}/").json()
    return body


# ---- commands ----


def test_two_commands_become_a_job_that_holds_the_smallest_server(api: APIClient) -> None:
    agents()
    pair = requested(api)
    job = pair.job
    assert job is not None
    assert (job.units_requested, job.gang, job.project.name) == (4, True, "lab")
    assert job.constraints == {
        "platforms": ["small"], "labels": {}, "locality": "server", "spread": None,
    }  # fmt: skip
    assert job.program is not None
    *program, text = job.program["command"]
    assert program[:2] == ["python3", "-c"]
    spec = json.loads(text)
    assert [side["command"] for side in spec["sides"]] == [["xz", "in"], ["bzip2", "in"]]
    assert [side["units"] for side in spec["sides"]] == [1, 2]
    assert (pair.first, pair.second, pair.server_units) == ("xz", "bzip2", 4)
    assert not pair.is_emulated


def test_progress_is_the_number_of_rounds_that_count(api: APIClient) -> None:
    agents()
    pair = requested(api)
    assert follow_pairs() == 0
    assert read(api, pair)["operation"]["message"] == "waiting for a free server"
    wrote(pair, ROUND, {**ROUND, "counts": False}, ROUND)
    assert follow_pairs() == 0
    operation = read(api, pair)["operation"]
    assert (operation["status"], operation["progress"], operation["total"]) == ("running", 2, 8)
    assert operation["message"] == "measuring, 1 round repeated because of other programs"


def test_a_finished_job_gives_the_four_numbers(api: APIClient) -> None:
    agents()
    xz, bzip2 = (factories.application(name, runs_commands=True) for name in ("xz", "bzip2"))
    factories.measurement(xz, matrix="tolerated", column="core", value=30.0, standard_error=2.0)
    factories.measurement(bzip2, matrix="caused", column="core", value=45.0, standard_error=2.0)
    pair = requested(api)
    rounds = [{**ROUND, "together": [time, 1.0]} for time in (2.05, 2.1, 2.15)]
    wrote(pair, *rounds, {"done": True}, state="succeeded")
    assert follow_pairs() == 1
    body = read(api, pair)
    first, second = body["sides"]
    # two units of 45 on a server of four press with 30, the tolerated score: 5 %
    assert first["predicted"]["value"] == pytest.approx(1.0 / 0.95)
    assert first["measured"]["value"] == pytest.approx(1.05, abs=1e-3)
    assert (first["holds"], first["overlaps"]) == (True, True)
    assert "core" not in first["unmeasured"]
    assert "llc_capacity" in first["unmeasured"]
    assert second["predicted"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert (second["measured"]["value"], second["holds"]) == (1.0, True)
    assert (body["rounds"], body["operation"]["status"]) == (3, "succeeded")
    assert follow_pairs() == 0


def test_without_scores_there_is_no_prediction(api: APIClient) -> None:
    agents()
    factories.measurement(
        factories.application("xz", runs_commands=True), matrix="tolerated", column="core"
    )
    first, second = read(api, requested(api))["sides"]
    assert (first["predicted"], first["missing"]) == (None, ["bzip2"])
    assert (second["predicted"], second["missing"]) == (None, ["bzip2"])


def test_the_last_output_may_come_after_the_end_of_the_job(api: APIClient) -> None:
    agents()
    pair = requested(api)
    wrote(pair, ROUND, ROUND, ROUND, state="succeeded")
    assert follow_pairs() == 0
    Job.objects.update(finished_at=timezone.now() - pair_jobs.OUTPUT_WAIT - timedelta(seconds=1))
    assert follow_pairs() == 1
    assert read(api, pair)["operation"]["status"] == "succeeded"


@pytest.mark.parametrize(
    ("lines", "state", "detail"),
    [
        (
            [{"failed": "the first command ended with exit code 3"}],
            "failed",
            "The measurement ended: the first command ended with exit code 3.",
        ),
        ([ROUND, {"done": True}], "failed", "The measurement ended: exit code 137."),
        (
            [ROUND, {"done": True}],
            "succeeded",
            "The measurement is incomplete: 1 rounds count, and 3 are needed.",
        ),
        (["hello"], "succeeded", 'The job wrote not a line of a measurement: "hello"'),
    ],
    ids=["reason", "killed", "few", "nonsense"],
)
def test_a_failed_measurement_says_why(
    api: APIClient, lines: list[Any], state: str, detail: str
) -> None:
    agents()
    pair = requested(api)
    wrote(pair, *lines, state=state, exit_code=137)
    assert follow_pairs() == 1
    operation = read(api, pair)["operation"]
    assert operation["status"] == "failed"
    assert operation["problem"]["detail"].startswith(detail)
    assert read(api, pair)["sides"][0]["measured"] is None


def test_a_cancelled_pair_cancels_its_job(api: APIClient) -> None:
    agents()
    pair = requested(api)
    wrote(pair, ROUND)
    follow_pairs()
    cancel_operation(pair.operation_id)
    follow_pairs()
    assert pair.job is not None
    pair.job.refresh_from_db()
    assert pair.job.cancel_requested
    Job.objects.update(state="cancelled", finished_s=9.0, finished_at=timezone.now())
    assert follow_pairs() == 1
    assert read(api, pair)["operation"]["status"] == OperationStatus.CANCELLED


def test_a_pair_cancelled_before_its_job_starts_leaves_no_job(api: APIClient) -> None:
    agents()
    pair = requested(api)
    cancel_operation(pair.operation_id)  # it ends at once
    follow_pairs()
    assert pair.job is not None
    pair.job.refresh_from_db()
    assert pair.job.state == "cancelled"
    assert follow_pairs() == 0


def test_a_cancelled_job_cancels_its_pair(api: APIClient) -> None:
    agents()
    pair = requested(api)
    Job.objects.update(state="cancelled", finished_s=9.0, finished_at=timezone.now())
    assert follow_pairs() == 1
    assert read(api, pair)["operation"]["status"] == "cancelled"


def test_a_pair_whose_job_was_deleted_fails(api: APIClient) -> None:
    agents()
    pair = requested(api)
    MeasuredPair.objects.update(job=None)
    assert follow_pairs() == 1
    assert "was deleted" in read(api, pair)["operation"]["problem"]["detail"]


# ---- emulated applications ----


@pytest.fixture
def emulated(api: APIClient) -> APIClient:
    """Emulated servers, and two applications with profiles."""
    factories.server("s1", of=factories.platform("J", cores=4, rank=0))
    for name in ("alpha", "beta"):
        factories.profile(factories.application(name, kind="single_node"))
    return api


EMULATED = {"first": {"application": "alpha"}, "second": {"application": "beta", "units": 2}}


def test_an_emulated_pair_needs_no_job(emulated: APIClient) -> None:
    answer = emulated.post(URL, {**EMULATED, "rounds": 4}, format="json")
    assert answer.status_code == 202, answer.json()
    pair = pair_by_id(answer.json()["id"])
    assert (pair.is_emulated, pair.job, pair.platform) == (True, None, "J")
    assert run_emulated_pairs() == 1
    body = read(emulated, pair)
    assert (body["is_emulated"], body["rounds"], body["operation"]["status"]) == (
        True, 4, "succeeded",
    )  # fmt: skip
    for side in body["sides"]:
        assert side["predicted"]["low"] <= side["predicted"]["value"] <= side["predicted"]["high"]
        assert side["measured"]["value"] > 0.9
        assert side["holds"] in {True, False}
    assert run_emulated_pairs() == 0


def test_a_cancelled_emulated_pair_is_not_run(emulated: APIClient) -> None:
    pair_id = emulated.post(URL, EMULATED, format="json").json()["id"]
    cancel_operation(pair_by_id(pair_id).operation_id)
    assert run_emulated_pairs() == 0
    assert pair_by_id(pair_id).result is None


def test_a_pair_that_is_cancelled_during_its_rounds_stops(
    emulated: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_by_id(emulated.post(URL, EMULATED, format="json").json()["id"])
    advance = "apps.testbed.services.pair_emulation.advance_operation"
    monkeypatch.setattr(advance, lambda *_, **__: False)
    assert run_emulated_pairs() == 0
    assert read(emulated, pair)["operation"]["status"] == "cancelled"


# ---- requests ----


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"first": {"command": []}}, "/first/command", "1 to 1000 strings"),
        ({"first": {"command": ["x"], "image": "y"}}, "/first/image", "unknown field; accepted"),
        ({"second": {"application": "alpha"}}, "/second/command", "need a command, or none"),
        ({"second": {"command": ["x"], "units": 0}}, "/second/units", "greater than or equal"),
        ({"rounds": 2}, "/rounds", "greater than or equal to 3"),
        ({"window_seconds": 0}, "/window_seconds", "greater than or equal to 0.05"),
        ({"max_foreign_percent": 101}, "/max_foreign_percent", "less than or equal to 100"),
        ({"project": "none"}, "/project", "must be one of your projects"),
        ({"speed": 1}, "/speed", "unknown field"),
        (
            {"first": {"application": "gamma"}, "second": {"application": "gamma"}},
            "/first/application",
            "must be an emulated application, or have a command; gamma is not an emulated one",
        ),
    ],
    ids=["empty", "image", "mixed", "units", "rounds", "window", "share", "project", "unknown",
         "emulated"],
)  # fmt: skip
def test_an_error_names_the_field(
    api: APIClient, change: dict[str, Any], pointer: str, detail: str
) -> None:
    agents()
    answer = api.post(URL, {**COMMANDS, "project": "lab", **change}, format="json")
    assert answer.status_code == 422
    error = answer.json()["errors"][0]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert not MeasuredPair.objects.exists()


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"first": {"command": ["x"], "units": 7}}, "No server that runs commands has 9 units."),
        (
            {"platform": "none"},
            "No server that runs commands of the platform none has 3 units.",
        ),
    ],
    ids=["units", "platform"],
)
def test_a_pair_that_fits_nowhere_is_refused(
    api: APIClient, change: dict[str, Any], detail: str
) -> None:
    agents()
    answer = api.post(URL, {**COMMANDS, "project": "lab", **change}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (409, detail)
    assert not Job.objects.exists()


def test_the_platform_may_be_chosen(api: APIClient) -> None:
    agents()
    assert requested(api, {**COMMANDS, "platform": "large"}).server_units == 8


def test_open_pairs_are_limited(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    agents()
    monkeypatch.setattr(pair_requests, "MAX_OPEN", 1)
    requested(api)
    answer = api.post(URL, {**COMMANDS, "project": "lab"}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (
        409, "1 pairs wait or run; cancel one or wait.",
    )  # fmt: skip


def test_a_repeated_request_with_a_key_measures_once(api: APIClient) -> None:
    agents()
    answers = [
        api.post(
            URL, {**COMMANDS, "project": "lab"}, format="json", headers={"Idempotency-Key": "k"}
        )
        for _ in range(2)
    ]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert MeasuredPair.objects.count() == Job.objects.count() == 1


def test_the_list_is_newest_first(api: APIClient) -> None:
    agents()
    made = [str(requested(api).pk) for _ in range(2)]
    assert [row["id"] for row in api.get(URL).json()["results"]] == made[::-1]


def test_a_pair_that_does_not_exist_is_not_found(api: APIClient) -> None:
    answer = api.get(f"{URL}0190a1b2-0000-7000-8000-000000000000/")
    assert answer.status_code == 404


def test_old_pairs_are_deleted_and_open_ones_kept(api: APIClient) -> None:
    agents()
    old, running = requested(api), requested(api)
    wrote(old, {"failed": "x"}, state="failed")
    follow_pairs()
    assert prune_pairs(before=None) == 0
    assert prune_pairs(before=timezone.now() + timedelta(days=1)) == 1
    assert list(MeasuredPair.objects.all()) == [running]


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="rounds must be 3 to 50, got 2"):
        pair_requests.PairRequest(sides=(None, None), rounds=2)  # type: ignore[arg-type] # unused


def test_a_missing_server_is_a_conflict(db: None) -> None:
    with pytest.raises(ConflictError, match="No emulated server"):
        server_for_pair(2, is_emulated=True, platform=None)
