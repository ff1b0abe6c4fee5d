"""Decision times: one definition for all pages.

The decision time is the wall time in the agent. Its percentiles are those of the decisions in a
range of cluster time, at most the latest `LATEST_DECISIONS`. Refusals without a policy, such as
that of a target that no size meets, have no decision time and are not counted.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from apps.common.infrastructure.database import fetch_rows
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.decision_latency import DecisionLatency
from apps.inventory.selectors import recorded_after

LATEST_DECISIONS: Final = 50_000
LATENCY_COLUMNS: Final = 72
ENOUGH_FOR_P999: Final = 1_000  # decisions; fewer do not have a 99.9th percentile
_IN_RANGE: Final = """
SELECT * FROM (SELECT cluster_s, nullif(elapsed_s, 0) AS elapsed_s, commit_retries, agent,
                      outcome, at, copy_age_s, changes_behind
               FROM scheduling_decision WHERE at <= %s ORDER BY at DESC, id DESC LIMIT %s) newest
WHERE cluster_s BETWEEN %s AND %s
"""


def _parameters(span: TimeRange) -> list[Any]:
    """Return the parameters of `_IN_RANGE`; the wall time of an earlier moment is that of a frame.

    The range excludes what the frame's minute may hold too much.
    """
    until: datetime | str = "infinity"
    if span.is_past:
        until = recorded_after(span.last_s) or until
    return [until, LATEST_DECISIONS, span.first_s, span.last_s]


def decision_latency(span: TimeRange) -> DecisionLatency:
    """Return percentiles of the decision time by interval, for the latest decisions."""
    width = max(1e-9, (span.last_s - span.first_s) / LATENCY_COLUMNS)
    rows = fetch_rows(_LATENCY, [span.first_s, width, *_parameters(span)])
    whole = next((row for row in rows if row[0] is None), None)
    columns = [row for row in rows if row[0] is not None and row[3]]
    table = np.full((LATENCY_COLUMNS, 5), np.nan)
    table[:, 3:] = 0
    for at, percentiles, conflicts, count, _agents in columns:
        table[min(max(int(at), 0), LATENCY_COLUMNS - 1)] = (*percentiles[:3], conflicts, count)
    first = min((int(row[0]) for row in columns), default=0)
    table = table[max(0, min(first, LATENCY_COLUMNS - 2)) :]
    times = span.first_s + (np.arange(LATENCY_COLUMNS, dtype=np.float64) + 0.5) * width
    now = whole[1] if whole is not None and whole[1] is not None else (float("nan"),) * 4
    return DecisionLatency(
        times_s=times[-table.shape[0] :],
        p50_s=table[:, 0],
        p95_s=table[:, 1],
        p99_s=table[:, 2],
        conflicts=table[:, 3],
        counts=table[:, 4],
        now_p50_s=now[0],
        now_p95_s=now[1],
        now_p99_s=now[2],
        now_p999_s=now[3] if whole is not None and whole[3] >= ENOUGH_FOR_P999 else float("nan"),
        agents=whole[4] if whole is not None else 0,
    )


_LATENCY: Final = f"""
SELECT at,
       percentile_cont(ARRAY[0.5, 0.95, 0.99, 0.999]) WITHIN GROUP (ORDER BY elapsed_s),
       coalesce(sum(commit_retries), 0), count(elapsed_s), count(DISTINCT agent)
FROM (SELECT floor((cluster_s - %s) / %s)::int AS at, elapsed_s, commit_retries, agent
      FROM ({_IN_RANGE}) in_range) latest
GROUP BY GROUPING SETS ((at), ())
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """Decisions of one agent, or of all if ``name`` is empty.

    Attributes
    ----------
    copy_age_p99_s : age of its copy when it commits; None without a commit
    behind_p99 : changes that its copy lacks then
    """

    name: str
    decisions: int
    placed: int
    conflicts: int
    p50_s: float
    p99_s: float
    last: datetime
    copy_age_p99_s: float | None
    behind_p99: int | None


def agent_times(span: TimeRange) -> tuple[AgentTimes, ...]:
    """Return the decisions of each agent in the range, by name; those of all agents are last."""
    rows = fetch_rows(_AGENTS, _parameters(span))
    return tuple(AgentTimes(name or "", count, *values) for name, count, *values in rows if count)


_AGENTS: Final = f"""
SELECT agent, count(elapsed_s), count(*) FILTER (WHERE outcome = 'placed'), sum(commit_retries),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed_s),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY elapsed_s), max(at),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY copy_age_s),
       percentile_disc(0.99) WITHIN GROUP (ORDER BY changes_behind)
FROM ({_IN_RANGE}) in_range
GROUP BY GROUPING SETS ((agent), ()) ORDER BY agent NULLS LAST
"""  # noqa: S608 - a constant
