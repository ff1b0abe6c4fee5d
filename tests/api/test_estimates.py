"""REST API of profiles, estimates, measurements and prediction errors."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Drift, PendingFold, PredictionError, Profile
from apps.workloads.models import Application, Job
from tests import factories
from tests.api.cluster import build_cluster
from tests.api.conftest import Speak
from tests.api.samples import submitted

SORT = "/api/v1/applications/sort"
BASE = 1e8  # bytes/s of one unit, as `factories.profile` has it: perfect scaling, no error


@pytest.fixture
def sort(db: None) -> Application:
    """An application on a cluster of A (4 cores) and B (2 cores)."""
    build_cluster()
    return factories.application("sort", kind="analytics")


@pytest.fixture
def profile(sort: Application) -> Profile:
    return factories.profile(sort, platforms=("A", "B"))


def estimates(api: APIClient, query: str = "") -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = api.get(f"{SORT}/estimates/?{query}").json()["results"]
    return results


def observed(about: Application, job: Job, profile: Profile, **values: Any) -> PredictionError:
    defaults = {"number": 1, "cluster_s": 100.0, "predicted": 4e8, "measured": 3e8}
    return PredictionError.objects.create(
        application=about, job=job, profile=profile, deviation=0.1, **{**defaults, **values}
    )


# ---- the profile ----


def test_a_profile_has_its_revision_and_sources(api: APIClient, profile: Profile) -> None:
    factories.library(("A", "B"))
    classification = api.get(f"{SORT}/classification/").json()
    assert (
        classification["revision"],
        classification["revision_in_force"],
        classification["is_stale"],
    ) == (1, 1, False)
    assert classification["is_pending"] is False
    assert classification["flags"] == []
    assert classification["drift"] is None
    assert classification["sources"] == {"measured": 38, "inferred": 0, "override": 0}
    every = [name.value for name in MatrixName]
    assert list(classification["cells"]) == [
        name for name in every if name != MatrixName.FRAMEWORK
    ]
    assert classification["cells"]["base_rate"]["unit"] == ["bytes/s", "bytes/s"]
    assert classification["cells"]["tolerated"]["unit"] == ["points of 100"] * 10
    assert classification["cells"]["heterogeneity"]["source"] == ["measured", "measured"]


def test_a_profile_of_an_earlier_revision_is_stale(api: APIClient, profile: Profile) -> None:
    factories.library(("A", "B"))
    factories.library(("A", "B"))
    PendingFold.objects.create(application=profile.application)
    classification = api.get(f"{SORT}/classification/").json()
    assert (
        classification["revision"],
        classification["revision_in_force"],
        classification["is_stale"],
    ) == (1, 2, True)
    assert classification["is_pending"] is True


def test_wrong_predictions_show_as_drift(
    api: APIClient, sort: Application, profile: Profile
) -> None:
    Drift.objects.create(application=sort, observations=7, mean_error=-0.4, flagged_s=120.0)
    Profile.objects.update(flags=["few_measurements"])
    classification = api.get(f"{SORT}/classification/").json()
    assert classification["drift"] == {
        "observations": 7,
        "mean_error": -0.4,
        "flagged_seconds": 120.0,
    }
    assert classification["flags"] == ["few_measurements"]


def test_a_profile_takes_three_queries_besides_the_caller(
    api: APIClient, profile: Profile, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(4):
        api.get(f"{SORT}/classification/")


@pytest.mark.parametrize("view", ["classification", "estimates"])
def test_an_application_without_a_profile_is_not_found(
    api: APIClient, sort: Application, view: str
) -> None:
    response = api.get(f"{SORT}/{view}/")
    assert response.status_code == 404
    assert response.json()["detail"] == "sort has no profile yet."


@pytest.mark.parametrize(
    "view", ["classification", "estimates", "measurements", "prediction-errors"]
)
def test_an_unknown_application_has_no_estimates(api: APIClient, view: str) -> None:
    response = api.get(f"/api/v1/applications/nobody/{view}/")
    assert (response.status_code, response.json()["detail"]) == (
        404,
        "There is no application nobody.",
    )


# ---- estimates ----


def test_every_size_on_every_platform_is_predicted(api: APIClient, profile: Profile) -> None:
    estimate = api.get(f"{SORT}/estimates/").json()
    results = estimate.pop("results")
    assert estimate == {
        "application": "sort", "profile": 1, "revision": 1, "metric": "work", "unit": "bytes/s",
    }  # fmt: skip
    assert [(r["platform"], r["units"]) for r in results] == [
        (platform, units) for platform in ("A", "B") for units in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert all(r["value"] == pytest.approx(r["units"] * BASE) for r in results)
    assert all(r["fits"] for r in results)


def test_units_are_spread_over_as_few_servers_as_hold_them(
    api: APIClient, profile: Profile
) -> None:
    rows = estimates(api, "units=4&units=9")
    assert [(r["platform"], r["units"], r["servers"]) for r in rows] == [
        ("A", 4, 1),
        ("A", 9, 3),
        ("B", 4, 2),
        ("B", 9, 5),
    ]


def test_a_size_no_server_has_is_predicted_and_marked(api: APIClient, profile: Profile) -> None:
    rows = estimates(api, "units=4&servers=1&servers=2")
    assert [(r["platform"], r["servers"], r["fits"]) for r in rows] == [
        ("A", 1, True),
        ("A", 2, True),
        ("B", 1, False),
        ("B", 2, True),
    ]


def test_sizes_begin_at_the_number_of_servers_asked_for(api: APIClient, profile: Profile) -> None:
    assert [r["units"] for r in estimates(api, "servers=8&platform=A")] == [8, 16, 32, 64]
    assert [r["units"] for r in estimates(api, "servers=100&platform=A")] == [100]


def test_an_estimate_holds_its_interval(api: APIClient, sort: Application) -> None:
    factories.profile(sort, platforms=("A", "B"), error=0.1)
    (estimate,) = estimates(api, "units=2&platform=B")
    assert estimate["value"] == pytest.approx(2 * BASE)
    assert estimate["high"] / estimate["value"] == pytest.approx(
        estimate["value"] / estimate["low"]
    )
    assert estimate["high"] / estimate["value"] == pytest.approx(
        1.1788, rel=1e-4
    )  # exp(1.6449 · 0.1)


@pytest.mark.parametrize(
    ("kind", "metric", "unit", "rate"),
    [
        ("single_node", "work", "instructions/s", 5e9),
        ("single_node", "bytes", "bytes/s", 2e7),
        ("latency_critical", "work", "queries/s", 5e9),
        ("analytics", "bytes", "bytes/s", 2e7),
    ],
)
def test_work_is_counted_as_the_kind_does(
    api: APIClient, sort: Application, kind: str, metric: str, unit: str, rate: float
) -> None:
    Application.objects.update(kind=kind)
    sort.refresh_from_db()
    factories.profile(sort, platforms=("A", "B"), base_rate=5e9, bytes_rate=2e7)
    estimate = api.get(f"{SORT}/estimates/?metric={metric}&units=1&platform=A").json()
    assert (estimate["metric"], estimate["unit"]) == (metric, unit)
    assert estimate["results"][0]["value"] == pytest.approx(rate)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("platform=Z", "platform must be one of A, B (revision 1), not 'Z'."),
        ("units=2&servers=4", "servers must not exceed units, got 4 servers and 2 units."),
        ("units=8&units=2&servers=4", "servers must not exceed units, got 4 servers and 2 units."),
        ("units=0", "units must be within 1 and 1024, not '0'."),
        ("units=1025", "units must be within 1 and 1024, not '1025'."),
        ("units=4,8", "units must be a whole number, not '4,8'."),
        ("units=", "units must be a whole number, not ''."),
        ("units=1e3", "units must be a whole number, not '1e3'."),
        ("servers=-1", "servers must be within 1 and 1024, not '-1'."),
        ("metric=joules", "metric must be one of work, bytes, not 'joules'."),
        ("metric=work&metric=bytes", "metric must be given once, not 2 times."),
        (
            "&".join(f"units={n}&servers=1" for n in range(1, 41)),
            "The request has 3,200 combinations, the limit is 2,000.",
        ),
    ],
)
def test_invalid_estimate_parameters_are_named(
    api: APIClient, profile: Profile, query: str, message: str
) -> None:
    response = api.get(f"{SORT}/estimates/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert response.json()["detail"] == message


def test_an_unknown_parameter_is_refused(api: APIClient, profile: Profile) -> None:
    response = api.get(f"{SORT}/estimates/?size=4")
    assert (response.status_code, response.json()["code"]) == (400, "unknown_parameter")


def test_estimates_take_three_queries_besides_the_caller(
    api: APIClient, profile: Profile, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(4):
        api.get(f"{SORT}/estimates/")


def test_unchanged_estimates_are_not_sent_again(api: APIClient, profile: Profile) -> None:
    tag = api.get(f"{SORT}/estimates/")["ETag"]
    assert api.get(f"{SORT}/estimates/", HTTP_IF_NONE_MATCH=tag).status_code == 304
    factories.profile(factories.application("other"), platforms=("A", "B"))
    assert api.get(f"{SORT}/estimates/", HTTP_IF_NONE_MATCH=tag).status_code == 304


# ---- measurements ----


def test_every_measurement_is_listed_newest_first(api: APIClient, sort: Application) -> None:
    run = factories.profiling_run(sort)
    factories.measurement(sort, matrix="base_rate", column="metric", value=2e8, run=run)
    factories.measurement(
        sort, matrix="caused", column="l1i", value=40.0, source="telemetry", cluster_s=90.0
    )
    factories.measurement(factories.application(), matrix="caused", column="l1i")
    telemetry, profiling = api.get(f"{SORT}/measurements/").json()["results"]
    assert (telemetry["source"], telemetry["run"]) == ("telemetry", None)
    del profiling["id"]
    assert profiling == {
        "matrix": "base_rate",
        "column": "metric",
        "value": 2e8,
        "unit": "bytes/s",
        "standard_error": 0.01,
        "samples": 1,
        "source": "profiling",
        "run": str(run.pk),
        "at_seconds": 60.0,
    }


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("matrix=caused", 2),
        ("matrix=caused&source=telemetry", 1),
        ("column=l1d", 1),
        ("at_seconds__gte=61", 1),
        ("matrix=tolerated", 0),
        ("limit=1&ordering=id", 1),
    ],
)
def test_measurements_are_filtered(
    api: APIClient, sort: Application, query: str, count: int
) -> None:
    factories.measurement(sort, matrix="caused", column="l1d")
    factories.measurement(sort, matrix="caused", column="l1i", source="telemetry", cluster_s=90.0)
    assert len(api.get(f"{SORT}/measurements/?{query}").json()["results"]) == count


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("matrix=speed", "matrix must be one of base_rate, heterogeneity, scale_up, scale_out,"),
        ("source=override", "source must be one of profiling, telemetry, not 'override'."),
        ("run=7", "run must be an id (a UUID), not '7'."),
        ("at_seconds__gte=NaN", "at_seconds__gte must be a finite number, not 'NaN'."),
    ],
)
def test_impossible_filters_are_refused(
    api: APIClient, sort: Application, query: str, message: str
) -> None:
    response = api.get(f"{SORT}/measurements/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert response.json()["detail"].startswith(message)


def test_measurements_take_two_queries_besides_the_caller(
    api: APIClient, sort: Application, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    factories.measurement(sort, matrix="caused", column="l1d")
    factories.measurement(sort, matrix="caused", column="l1i")
    with django_assert_num_queries(3):
        api.get(f"{SORT}/measurements/")


# ---- prediction errors ----


def test_predictions_are_compared_with_measurements(
    api: APIClient, sort: Application, profile: Profile
) -> None:
    job = submitted(api, application="sort")
    row = observed(sort, Job.objects.get(pk=job), profile)
    (error,) = api.get(f"{SORT}/prediction-errors/").json()["results"]
    assert error == {
        "id": row.pk,
        "job": job,
        "job_name": Job.objects.get(pk=job).name,
        "number": 1,
        "profile": 1,
        "at_seconds": 100.0,
        "unit": "bytes/s",
        "predicted": 4e8,
        "measured": 3e8,
        "ratio": 0.75,
        "deviation": 0.1,
        "beyond_tolerance": 0.0,
    }


def test_a_job_of_another_project_counts_but_is_not_named(
    api: APIClient, sort: Application, profile: Profile, stranger: User, as_user: Speak
) -> None:
    job = submitted(api, application="sort")
    observed(sort, Job.objects.get(pk=job), profile)
    (error,) = as_user(stranger).get(f"{SORT}/prediction-errors/").json()["results"]
    assert (error["job"], error["job_name"], error["ratio"]) == (None, None, 0.75)


def test_prediction_errors_are_filtered_and_newest_first(
    api: APIClient, sort: Application, profile: Profile
) -> None:
    job = Job.objects.get(pk=submitted(api, application="sort"))
    observed(sort, job, profile)
    observed(sort, job, profile, number=2, cluster_s=200.0)
    url = f"{SORT}/prediction-errors/"
    assert [r["number"] for r in api.get(url).json()["results"]] == [2, 1]
    assert [r["number"] for r in api.get(f"{url}?at_seconds__lt=200").json()["results"]] == [1]
    assert len(api.get(f"{url}?job={job.pk}&profile=1").json()["results"]) == 2
    assert api.get(f"{url}?profile=2").json()["results"] == []


def test_prediction_errors_take_two_queries_besides_the_caller(
    api: APIClient,
    sort: Application,
    profile: Profile,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    job = Job.objects.get(pk=submitted(api, application="sort"))
    observed(sort, job, profile)
    observed(sort, job, profile, number=2)
    with django_assert_num_queries(3):
        assert len(api.get(f"{SORT}/prediction-errors/").json()["results"]) == 2
