"""A short storm: see `benchmarks.storm`."""

import numpy as np
import pytest
from pytest_django import Settings

from benchmarks._storm import Storm
from tests import factories


@pytest.mark.django_db(transaction=True)
def test_everything_at_once_loses_no_job_and_breaks_no_check(settings: Settings) -> None:
    settings.BERTH_RATES = {}
    report = Storm(seed=12).run(20.0)
    assert report.deadlocks == []
    assert report.errors == []
    assert report.violations == []
    assert report.answers[201] > 10
    assert report.done["emulator"] > 2
    assert report.states.get("succeeded", 0) > 10


@pytest.mark.django_db
def test_every_change_of_a_job_is_written_and_some_change_its_priority(settings: Settings) -> None:
    settings.BERTH_RATES = {}
    job, storm, rng = factories.job(), Storm(seed=12), np.random.default_rng(1)
    priorities = set()
    for _ in range(10):
        generation = job.generation
        storm._update(job.pk, rng)
        job.refresh_from_db()
        assert job.generation == generation + 1
        priorities.add(job.priority)
    assert storm.report.answers == {200: 10}
    assert 1 < len(priorities) < 10
