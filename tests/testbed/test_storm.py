"""A short storm: see `benchmarks.storm`."""

import pytest
from pytest_django import Settings

from benchmarks._storm import Storm


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
