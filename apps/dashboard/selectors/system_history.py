"""Queues, agents and event streams over wall time, from samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np

from apps.common.infrastructure.database import database_now
from apps.dashboard.core import formats
from apps.dashboard.figures.lines import Floats, Lines
from apps.operations.models import SystemSample

SHOWN: Final = timedelta(hours=6)
MAX_POINTS: Final = 360
MAX_LINES: Final = 8
EMPTY: Final = "No sample of the last 6 hours"


@dataclass(frozen=True, slots=True)
class _Sample:
    at: datetime
    seconds: float
    queues: Mapping[str, int]
    agents: Mapping[str, Mapping[str, Any]]
    streams: int | None


def queues() -> Lines:
    """Return the waiting tasks of each queue; a point is the longest queue in its time."""
    samples = _samples()
    names = sorted({name for one in samples for name in one.queues})
    values = {name: _column([one.queues.get(name) for one in samples]) for name in names}
    now = {name: int(column[-1]) for name, column in values.items() if not np.isnan(column[-1])}
    waiting = ", ".join(f"{n:,} in {name}" for name, n in now.items() if n)
    return _lines(
        samples,
        values,
        heading=f"Tasks wait: {waiting}" if waiting else "No task waits",
        unit="tasks",
        reduce=np.nanmax,
        text=formats.thousands,
    )


def decision_rate() -> Lines:
    """Return the decisions of each agent per second."""
    samples = _samples()
    values = _by_agent(samples, lambda agent, s: agent["decisions"] / s, idle=0.0)
    total = sum(float(column[-1]) for column in values.values())
    return _lines(
        samples,
        values,
        heading=f"Agents make {formats.significant(total)} decisions/s",
        unit="decisions/s",
        reduce=np.nanmean,
        text=formats.significant,
    )


def decision_time() -> Lines:
    """Return the 99th percentile of each agent's decision time, the longest in each point."""
    samples = _samples()
    values = _by_agent(samples, lambda agent, _: 1e3 * agent["p99_s"], idle=None)
    last = [column[~np.isnan(column)][-1] for column in values.values()]
    heading = f"p99 of the decision time is {formats.duration(max(last) / 1e3)}" if last else EMPTY
    return _lines(
        samples,
        values,
        heading=heading,
        unit="ms",
        reduce=np.nanmax,
        text=lambda ms: formats.duration(ms / 1e3),
    )


def lost_commits() -> Lines:
    """Return the share of each agent's decisions that lost a commit."""
    samples = _samples()
    values = _by_agent(
        samples, lambda agent, _: 100 * agent["lost"] / agent["decisions"], idle=0.0
    )
    lost = sum(agent["lost"] for one in samples for agent in one.agents.values())
    made = sum(agent["decisions"] for one in samples for agent in one.agents.values())
    share = formats.percent(lost / made) if made else "–"
    return _lines(
        samples,
        values,
        heading=f"{share} of the decisions lost a commit",
        unit="% of decisions",
        reduce=np.nanmean,
        text=lambda percent: formats.percent(percent / 100),
    )


def streams() -> Lines:
    """Return the open event streams."""
    samples = _samples()
    values = {"open": _column([one.streams for one in samples])} if samples else {}
    now = [one.streams for one in samples if one.streams is not None]
    heading = f"{formats.plural(now[-1], 'event stream')} open" if now else EMPTY
    return _lines(
        samples,
        values,
        heading=heading,
        unit="streams",
        reduce=np.nanmax,
        text=formats.thousands,
    )


def _samples() -> list[_Sample]:
    rows = SystemSample.objects.filter(at__gte=database_now() - SHOWN).order_by("at")
    return [
        _Sample(*row) for row in rows.values_list("at", "seconds", "queues", "agents", "streams")
    ]


def _column(values: Iterable[float | None]) -> Floats:
    """Return one value per sample; NaN where it is not known."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _by_agent(
    samples: Sequence[_Sample],
    read: Callable[[Mapping[str, Any], float], float],
    *,
    idle: float | None,
) -> dict[str, Floats]:
    """Return a column for each of the agents with most decisions.

    Parameters
    ----------
    read : value of an agent in one sample, which covers a number of seconds
    idle : value of an agent without a decision in a sample; None = not known
    """
    made: dict[str, int] = {}
    for one in samples:
        for name, agent in one.agents.items():
            made[name] = made.get(name, 0) + agent["decisions"]
    names = sorted(sorted(made, key=lambda name: -made[name])[:MAX_LINES])

    def value(one: _Sample, name: str) -> float | None:
        agent = one.agents.get(name)
        return idle if agent is None else read(agent, one.seconds)

    return {name: _column([value(one, name) for one in samples]) for name in names}


def _lines(
    samples: Sequence[_Sample],
    values: Mapping[str, Floats],
    *,
    heading: str,
    unit: str,
    reduce: Callable[..., Any],
    text: Callable[[float], str],
) -> Lines:
    """Return a figure of at most `MAX_POINTS` points, each reduced from its samples."""
    starts = np.unique(np.linspace(0, len(samples), MAX_POINTS + 1, dtype=int)[:-1])
    bounds = [*starts.tolist(), len(samples)] if samples else [0]
    parts = list(pairwise(bounds))
    return Lines(
        heading=heading,
        below=f"last 6 hours, wall time, n = {len(samples):,} samples",
        unit=unit,
        times=tuple(samples[end - 1].at for _, end in parts),
        series={
            name: np.array([_reduced(column[start:end], reduce) for start, end in parts])
            for name, column in values.items()
        },
        text=text,
        nothing=EMPTY,
    )


def _reduced(values: Floats, reduce: Callable[..., Any]) -> float:
    return float("nan") if np.isnan(values).all() else float(reduce(values))
