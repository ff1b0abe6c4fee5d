"""Measurements that users request."""

from celery import shared_task

from apps.common.infrastructure.notifications import acknowledge
from apps.operations.services.retention import run_retention
from apps.testbed.services import lab_requests, pair_requests
from apps.testbed.services.lab_runs import run_open_comparison
from apps.testbed.services.pair_emulation import run_emulated_pairs
from apps.testbed.services.pair_jobs import follow_pairs
from apps.testbed.services.retention import testbed_kinds
from apps.testbed.services.sampling_requests import TASK
from apps.testbed.services.sampling_runs import run_sampling_check


@shared_task(name=TASK)
def measure_sampling() -> bool:
    """Run the open measurement of sampling quality, if any."""
    acknowledge(TASK)
    return run_sampling_check()


@shared_task(name=lab_requests.TASK)
def run_lab() -> bool:
    """Run the oldest comparison that waits, if any."""
    acknowledge(lab_requests.TASK)
    return run_open_comparison()


@shared_task(name=pair_requests.TASK)
def measure_pairs() -> None:
    """Follow the jobs that measure pairs, and run the emulated pairs that wait."""
    acknowledge(pair_requests.TASK)
    follow_pairs()
    run_emulated_pairs()


@shared_task(name="testbed.prune")
def prune() -> None:
    """Delete expired comparisons, scenarios and measured pairs."""
    run_retention(testbed_kinds())
