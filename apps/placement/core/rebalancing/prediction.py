"""Predicted effect of migrations on metrics, jobs and servers, as JSON."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing.cluster import (
    MIN_SPEED_RATIO,
    RunningCluster,
    exposed_jobs,
    job_speed,
    metrics_json,
    split_jobs,
)

MAX_JOBS: Final = 100
MIN_SPEED_CHANGE: Final = 0.01  # relative change of a job's speed that is reported


def prediction(
    cluster: RunningCluster, assignment: Ints, weights: Mapping[str, float], *, seconds: float
) -> dict[str, Any]:
    """JSON of the predicted effect of a new placement.

    ``before`` and ``after`` as in `metrics_json`; ``jobs``: up to 100 of the ``jobs_changed``,
    with the ``ratio`` of the new speed to the current one and what each ``gains`` and ``loses``
    (protection, gathering, speed; empty for no change); ``worst``: the job slowed down most, or
    null; ``apart``: see `split_summary`.

    Parameters
    ----------
    assignment : (c,) server of each container afterwards
    seconds : total duration of the migrations
    """
    jobs = _jobs(cluster, assignment)
    worst = min(jobs, key=lambda job: float(job["ratio"]), default=None)
    return {
        "before": metrics_json(cluster, cluster.assignment, weights),
        "after": metrics_json(cluster, assignment, weights),
        "moves": int((assignment != cluster.assignment).sum()),
        "move_seconds": seconds,
        "jobs": sorted(jobs, key=_weight)[:MAX_JOBS],
        "jobs_changed": len(jobs),
        "worst": worst if worst is not None and worst["ratio"] < 1.0 - MIN_SPEED_CHANGE else None,
        "apart": split_summary(cluster, assignment),
    }


def split_summary(cluster: RunningCluster, assignment: Ints) -> dict[str, Any]:
    """Count the ``jobs`` that span several of the servers or racks they should stay inside.

    For ``without_room`` of them, no allowed server (or rack) that is at least as fast has enough
    units. ``meaning`` explains the counts in one sentence, "" for none. O(split jobs x n).
    """
    free = (cluster.units - cluster.held_units).astype(np.float64)
    free = free + np.bincount(cluster.assignment, weights=cluster.size, minlength=free.size)
    free = free - np.bincount(assignment, weights=cluster.size, minlength=free.size)
    scope = cluster.counts_as()
    jobs = np.flatnonzero(split_jobs(cluster, assignment)).tolist()
    without_room = [
        job
        for job in jobs
        if _max_room(cluster, assignment, free, job, by_rack=scope[job] == Communication.RACK)
        < cluster.size[cluster.job == job].sum()
    ]
    return {
        "jobs": len(jobs),
        "without_room": len(without_room),
        "meaning": split_sentence(len(jobs), len(without_room)),
    }


def split_sentence(jobs: int, without_room: int) -> str:
    """Explain why crossing traffic remains; see `split_summary`."""
    if not jobs:
        return ""
    stay, them = ("1 job stays", "it") if jobs == 1 else (f"{jobs:,} jobs stay", "them")
    no_room = "no suitable server (or rack) has enough free units"
    costs = "would cost more than it gains or slow down other jobs"
    if without_room == jobs:
        return f"{stay} split: {no_room}."
    if not without_room:
        return f"{stay} split: gathering {them} {costs}."
    others = "other" if jobs - without_room == 1 else "others"
    return f"{stay} split: for {without_room:,}, {no_room}; gathering the {others} {costs}."


def _max_room(
    cluster: RunningCluster, assignment: Ints, free: Floats, job: int, *, by_rack: bool
) -> float:
    """Max over servers (or racks) of the units a job could use, including those it has there."""
    of = cluster.job == job
    speed = cluster.speed[job][cluster.platform]
    suits = (
        cluster.is_open
        & cluster.is_allowed[job]
        & (speed >= speed[assignment[of]].max() * MIN_SPEED_RATIO)
    )
    own = np.bincount(assignment[of], weights=cluster.size[of], minlength=free.size)
    room = np.where(suits, free, 0.0) + own
    if by_rack:
        room = np.bincount(cluster.rack, weights=room, minlength=len(cluster.rack_name))
    return float(room.max())


def server_columns(cluster: RunningCluster, assignment: Ints) -> dict[str, list[Any]]:
    """Columns by server: name, rack, share of units in use before and after, is a target."""
    before = np.bincount(cluster.assignment, weights=cluster.size, minlength=cluster.units.size)
    after = np.bincount(assignment, weights=cluster.size, minlength=cluster.units.size)
    others = cluster.held_units - before
    is_target: Bools = np.zeros(cluster.units.size, dtype=np.bool_)
    is_target[assignment[assignment != cluster.assignment]] = True
    return {
        "name": list(cluster.server_name),
        "rack": [cluster.rack_name[rack] for rack in cluster.rack.tolist()],
        "before": _shares((before + others) / cluster.units),
        "after": _shares((after + others) / cluster.units),
        "is_target": is_target.tolist(),
    }


def _shares(values: Floats) -> list[float]:
    rounded: list[float] = values.round(4).tolist()
    return rounded


def _jobs(cluster: RunningCluster, assignment: Ints) -> list[dict[str, Any]]:
    ratio = job_speed(cluster, assignment) / np.maximum(
        job_speed(cluster, cluster.assignment), 1e-300
    )
    moves = np.bincount(
        cluster.job[assignment != cluster.assignment], minlength=len(cluster.job_id)
    )
    was_exposed, exposed = (
        exposed_jobs(cluster, cluster.assignment),
        exposed_jobs(cluster, assignment),
    )
    was_split, is_split = split_jobs(cluster, cluster.assignment), split_jobs(cluster, assignment)
    differs = (
        (np.abs(ratio - 1.0) >= MIN_SPEED_CHANGE)
        | (moves > 0)
        | (was_exposed != exposed)
        | (was_split != is_split)
    )
    return [
        {
            "id": cluster.job_id[job],
            "name": cluster.job_name[job],
            "ratio": float(ratio[job]),
            "attainment": _known(cluster.attainment[job]),
            "moves": int(moves[job]),
            "gains": _word(
                was_exposed[job] and not exposed[job],
                was_split[job] and not is_split[job],
                "faster" if ratio[job] >= 1.0 + MIN_SPEED_CHANGE else "",
            ),
            "loses": _word(
                exposed[job] and not was_exposed[job],
                is_split[job] and not was_split[job],
                "full speed" if ratio[job] <= 1.0 - MIN_SPEED_CHANGE else "",
            ),
        }
        for job in np.flatnonzero(differs).tolist()
    ]


def _word(is_protected: Any, is_gathered: Any, speed: str) -> str:
    """Name the most important change of a job: protection, gathering or speed."""
    if is_protected:
        return "protected"
    return "gathered" if is_gathered else speed


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _weight(job: dict[str, Any]) -> tuple[int, float]:
    return -bool(job["gains"]) - bool(job["loses"]), -abs(job["ratio"] - 1.0)
