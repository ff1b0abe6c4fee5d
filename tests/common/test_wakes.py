"""Wakes of processes that wait for work."""

import time

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from apps.common.infrastructure import notifications
from apps.common.infrastructure.notifications import listening, wake

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
LONG_S = 60.0


@pytest.mark.parametrize("about", [(), (7,), (3, 7)], ids=["all", "one", "several"])
def test_a_wake_after_the_commit_ends_a_wait(
    about: tuple[int, ...],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with listening("test-wakes", 7) as wait:
        wait(0.0)
        with django_capture_on_commit_callbacks(execute=True):
            wake("test-wakes", about)
        begun_s = time.monotonic()
        wait(LONG_S)
        assert time.monotonic() - begun_s < LONG_S


def test_without_a_broker_the_seconds_pass(
    settings: Settings,
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with listening("test-wakes", 7) as wait:
        begun_s = time.monotonic()
        wait(0.2)
        assert time.monotonic() - begun_s >= 0.2
    notifications._publish("test-wakes", "")


def test_a_wake_about_others_ends_no_wait() -> None:
    with listening("test-wakes", 7) as wait:
        wait(0.0)
        notifications._publish("test-wakes", "1,77")
        begun_s = time.monotonic()
        wait(0.2)
        assert time.monotonic() - begun_s >= 0.2
