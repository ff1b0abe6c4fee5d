"""Old samples are averaged by minute, then by hour, and lose no report that they stand for."""

import pytest
from django.db.models import Sum
from pytest_django import Settings

from apps.execution.models import JobSample
from apps.execution.services import samples
from apps.execution.services.samples import HOUR_S, MINUTE_S, Interval, average_samples
from apps.execution.tasks import prune
from apps.operations.models import Retention
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _positions() -> None:
    for name in ("minute", "hour"):
        Retention.objects.create(name=name)


@pytest.fixture
def job() -> Job:
    return factories.job(state="running")


def minutes(*, before_s: float) -> int:
    """Average by minute until nothing is left; the number of rows replaced."""
    return everything(Interval("minute", MINUTE_S, before_s))


def hours(*, before_s: float) -> int:
    return everything(Interval("hour", HOUR_S, before_s))


def everything(interval: Interval) -> int:
    total = 0
    while count := average_samples(interval):
        total += count
    return total


def times(job: Job) -> list[float]:
    return list(job.samples.order_by("cluster_s").values_list("cluster_s", flat=True))


def test_a_minute_becomes_its_mean_with_its_extremes(job: Job) -> None:
    for at_s, value, progress in ((60.0, 0.5, 0.1), (80.0, 1.5, 0.2), (119.0, 1.0, 0.3)):
        factories.sample(job, at_s, attainment=value, progress=progress, performance=value * 100)
    factories.sample(job, 120.0, attainment=9.0)
    assert minutes(before_s=180.0) == 3
    first, second = job.samples.order_by("cluster_s")
    assert (first.cluster_s, first.progress, first.readings) == (119.0, 0.3, 3)
    assert [first.attainment, first.performance] == pytest.approx([1.0, 100.0])
    assert (first.attainment_min, first.attainment_max) == (0.5, 1.5)
    assert (second.readings, second.attainment, second.attainment_min) == (1, 9.0, None)


def test_hours_weigh_minutes_by_their_reports(job: Job) -> None:
    for at_s, value in ((0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (600.0, 2.0)):
        factories.sample(job, at_s, attainment=value)
    assert minutes(before_s=3600.0) == 3
    assert hours(before_s=3600.0) == 2
    (row,) = job.samples.all()
    assert row.readings == 4
    assert row.attainment == pytest.approx(1.25)
    assert (row.attainment_min, row.attainment_max) == (1.0, 2.0)


def test_missing_values_do_not_count(job: Job) -> None:
    factories.sample(job, 1.0, attainment=None, memory_rate=None)
    factories.sample(job, 2.0, attainment=0.8, memory_rate=5.0)
    minutes(before_s=60.0)
    (row,) = job.samples.all()
    assert (row.attainment, row.memory_rate, row.network_wait) == (0.8, 5.0, None)


def test_an_interval_that_is_not_over_stays(job: Job) -> None:
    factories.sample(job, 61.0)
    factories.sample(job, 62.0)
    assert minutes(before_s=119.0) == 0
    assert times(job) == [61.0, 62.0]


def test_jobs_are_not_mixed(job: Job) -> None:
    other = factories.job(state="running")
    for one in (job, other):
        factories.sample(one, 1.0, attainment=1.0)
        factories.sample(one, 2.0, attainment=3.0)
    assert minutes(before_s=60.0) == 4
    assert JobSample.objects.count() == 2
    assert JobSample.objects.aggregate(n=Sum("readings"))["n"] == 4


def test_a_run_continues_where_the_last_one_ended(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "ROWS", 2)
    for at_s in (1.0, 2.0, 1001.0, 1002.0):
        factories.sample(job, at_s)
    interval = Interval("minute", MINUTE_S, 3600.0)
    assert average_samples(interval) == 2
    assert times(job) == [2.0, 1001.0, 1002.0]
    assert Retention.objects.get(name="minute").position == 960.0
    assert minutes(before_s=3600.0) == 2
    assert minutes(before_s=3600.0) == 0


def test_single_samples_are_passed_over_without_a_change(job: Job) -> None:
    for at_s in range(0, 3600, 240):
        factories.sample(job, float(at_s))
    keys = set(job.samples.values_list("pk", flat=True))
    assert minutes(before_s=3600.0) == 0
    assert set(job.samples.values_list("pk", flat=True)) == keys


def test_the_task_averages_and_deletes_by_the_settings(job: Job, settings: Settings) -> None:
    settings.BERTH_SAMPLE_HOURS, settings.BERTH_SAMPLE_MINUTE_DAYS = 2, 1
    settings.BERTH_SAMPLE_DAYS = 10
    factories.cluster(seen_cluster_s=20 * 86_400.0)
    now_s = 20 * 86_400.0
    for age_s in (1.0, 2.0, 10_001.0, 10_002.0, 90_001.0, 90_002.0, 900_000.0):
        factories.sample(job, now_s - age_s)
    prune()
    assert [round(now_s - at_s) for at_s in times(job)] == [90_001, 10_001, 2, 1]


def test_zero_keeps_every_report(job: Job, settings: Settings) -> None:
    settings.BERTH_SAMPLE_HOURS = settings.BERTH_SAMPLE_MINUTE_DAYS = 0
    settings.BERTH_SAMPLE_DAYS = 0
    factories.cluster(seen_cluster_s=1e9)
    factories.sample(job, 1.0)
    factories.sample(job, 2.0)
    prune()
    assert times(job) == [1.0, 2.0]


def test_the_load_of_a_service_is_averaged(job: Job) -> None:
    for at_s, offered, served in ((60.0, 30.0, 30.0), (80.0, 60.0, 40.0), (90.0, None, None)):
        factories.sample(job, at_s, offered_qps=offered, served_qps=served)
    assert minutes(before_s=180.0) == 3
    (sample,) = job.samples.all()
    assert (sample.offered_qps, sample.served_qps) == (45.0, 35.0)
