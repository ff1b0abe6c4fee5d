"""Wakes of processes that wait for work."""

import time

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from apps.common.infrastructure import notifications
from apps.common.infrastructure.notifications import listening, wake

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
LONG_S = 60.0


def test_a_wake_after_the_commit_ends_a_wait(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with listening("test-wakes") as wait:
        wait(0.0)
        with django_capture_on_commit_callbacks(execute=True):
            wake("test-wakes")
        begun_s = time.monotonic()
        wait(LONG_S)
        assert time.monotonic() - begun_s < LONG_S


def test_without_a_broker_the_seconds_pass(
    settings: Settings,
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with listening("test-wakes") as wait:
        begun_s = time.monotonic()
        wait(0.2)
        assert time.monotonic() - begun_s >= 0.2
    notifications._publish("test-wakes")
