"""Samples of queues, agents and event streams: the history on the System page."""

from datetime import datetime, timedelta
from typing import Any, Final

from apps.common.infrastructure.database import database_now, fetch_rows
from apps.common.infrastructure.queues import QUEUES, open_streams, waiting_tasks
from apps.operations.models import SystemSample

MIN_S: Final = 5.0  # wall seconds between samples: two messages of beat may arrive together
MAX_S: Final = 60.0  # time that a sample covers at most, after a stop
# the second number: decisions that lost at least one commit
_AGENTS: Final = """
SELECT agent, count(*), count(*) FILTER (WHERE commit_retries > 0),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed_s),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY elapsed_s)
FROM scheduling_decision WHERE at >= %s AND at < %s GROUP BY agent ORDER BY agent
"""


def sample_system() -> bool:
    """Store one sample; False if the last one is too young."""
    now = database_now()
    last = SystemSample.objects.order_by("-at").values_list("at", flat=True).first()
    if last is not None and (now - last).total_seconds() < MIN_S:
        return False
    earliest = now - timedelta(seconds=MAX_S)
    since = earliest if last is None else max(last, earliest)
    # two workers at the same moment: the second sample is ignored
    SystemSample.objects.bulk_create(
        [
            SystemSample(
                at=now,
                seconds=(now - since).total_seconds(),
                queues=dict(waiting_tasks(QUEUES)),
                agents=_agents(since, now),
                streams=open_streams(),
            )
        ],
        ignore_conflicts=True,
    )
    return True


def _agents(since: datetime, until: datetime) -> dict[str, dict[str, Any]]:
    return {
        agent: {"decisions": count, "lost": lost, "p50_s": p50, "p99_s": p99}
        for agent, count, lost, p50, p99 in fetch_rows(_AGENTS, [since, until])
    }
