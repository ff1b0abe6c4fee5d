"""Measurements that users request."""

from celery import shared_task

from apps.common.infrastructure.notifications import acknowledge
from apps.testbed.services.sampling_requests import TASK
from apps.testbed.services.sampling_runs import run_sampling_check


@shared_task(name=TASK)
def measure_sampling() -> bool:
    """Run the open measurement of sampling quality, if any."""
    acknowledge(TASK)
    return run_sampling_check()
