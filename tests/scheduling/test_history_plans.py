"""The run times of ended jobs are read by their age, however long the history is."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.scheduling.selectors import queue
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.plans import analyze, rows_read
from tests.scheduling.shapes import flood
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db
HISTORY, RECENT = 5_000, 20
NOW_S = 36_000.0


def end(jobs: Any, at_s: float) -> None:
    """Let jobs end at a cluster time, at the speed of the frames."""
    jobs.update(
        state="succeeded",
        started_s=at_s - 60.0,
        finished_s=at_s,
        finished_at=factories.MOMENT + timedelta(seconds=at_s / 60),
    )


def read_by_history() -> tuple[float, int]:
    """Return the rows of jobs that the read of ended jobs scans, and how many jobs it finds."""
    with CaptureQueriesContext(connection) as statements:
        history = queue.run_time_history(NOW_S)
    (ended,) = [each["sql"] for each in statements if "state = 'succeeded'" in each["sql"]]
    return rows_read(ended), sum(each.size for each in history.seconds.values())


def old_jobs() -> None:
    flood(known(), HISTORY, created_by=factories.user("me"))
    for at_s in range(0, int(NOW_S), 600):
        factories.frame(float(at_s), [])


def end_recent_jobs() -> None:
    flood(known(), RECENT, created_by=factories.user("you"))
    end(Job.objects.filter(state="submitted"), NOW_S - 600.0)


def test_older_jobs_are_not_read_if_none_had_ended_when_the_table_was_analysed() -> None:
    old_jobs()
    analyze()
    end(Job.objects.all(), 3600.0)
    end_recent_jobs()
    rows, found = read_by_history()
    assert found == RECENT
    assert rows <= 2 * RECENT


def test_older_jobs_are_not_read_if_all_had_ended_when_the_table_was_analysed() -> None:
    old_jobs()
    end(Job.objects.all(), 3600.0)
    analyze()
    end_recent_jobs()
    rows, found = read_by_history()
    assert found == RECENT
    assert rows <= 2 * RECENT


def test_a_job_that_ended_at_the_start_of_the_window_is_read() -> None:
    start_s = NOW_S - queue.WINDOW_S
    late = factories.MOMENT + timedelta(seconds=(start_s + 50.0) / 60)  # within its minute
    factories.frame(start_s, [], at=late)
    factories.frame(start_s - 60.0, [], at=late - timedelta(seconds=1))
    flood(known(), 1, created_by=factories.user("me"))
    end(Job.objects.all(), start_s + 1.0)
    history = queue.run_time_history(NOW_S)
    assert [each.tolist() for each in history.seconds.values()] == [[60.0]]
