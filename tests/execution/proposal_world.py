"""Preemptions that Berth proposes: its modes and limits, and what it stored and stopped."""

from typing import Any

import pytest
from django.conf import LazySettings
from django.core.cache import cache

from apps.execution.models import Launch, PreemptionProposal
from apps.execution.services.proposed_preemptions import propose_preemptions
from apps.workloads.models import Job
from tests import factories
from tests.execution.preemption_world import low
from tests.scheduling.world import known


@pytest.fixture(autouse=True)
def limits(settings: LazySettings) -> None:
    cache.clear()
    settings.PREEMPTIONS_PER_JOB = 2
    settings.PREEMPTIONS_PER_HOUR = 3
    settings.PREEMPTION_COOLDOWN_S = 600.0


@pytest.fixture
def automatic(settings: LazySettings) -> None:
    settings.PREEMPTION = "automatic"


@pytest.fixture
def previewed(settings: LazySettings) -> None:
    settings.PREEMPTION = "previewed"


def proposals() -> list[tuple[str, int, str]]:
    rows = PreemptionProposal.objects.order_by("id")
    return list(rows.values_list("state", "victims", "message"))


def stopping() -> list[str]:
    launches = Launch.objects.filter(cancel_requested=True).order_by("id")
    return list(launches.values_list("job__name", flat=True))


def turn() -> int:
    """A turn for all jobs, without the pause after a failure."""
    cache.clear()
    return propose_preemptions()


def full(**values: Any) -> Job:
    """Fill both servers; the job on the first one may be preempted."""
    victim = low([0, 1, 2, 3], application=known(), units_requested=4, gang=True, **values)
    low([4, 5, 6, 7], "promised", target={"kind": "ips", "ips": 1.0})
    return victim


def preempted_before(job: Job, times: int, ended_s: float) -> None:
    """Store earlier launches of a running job that were preempted."""
    Launch.objects.filter(job=job).update(attempt=times + 1)
    for attempt in range(1, times + 1):
        factories.launch(job, attempt=attempt, state="ended", outcome="preempted", ended_s=ended_s)
    Job.objects.filter(id=job.id).update(attempts=times + 1)
