"""What moves are predicted to do, to measures, jobs and servers, as JSON."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.instance import Communication
from apps.placement.core.live import (
    SLOWER,
    Cluster,
    as_json,
    exposed_jobs,
    job_speed,
    split_jobs,
)

MOST_JOBS: Final = 100
NOTABLE: Final = 0.01  # change of a job's speed from which on it is told


def prediction(
    cluster: Cluster, home: Ints, weights: Mapping[str, float], *, seconds: float
) -> dict[str, Any]:
    """JSON of what becomes of the cluster when its containers stand elsewhere.

    ``before`` and ``after`` as in `live.as_json`; ``jobs`` those that change, at most 100 of
    ``jobs_changed``: ``ratio`` of their speed then to now, what each ``gains`` and ``loses``
    (protected, gathered, its speed; empty: nothing); ``worst``: the one slowed most, or null;
    ``apart``: see `apart`.

    Parameters
    ----------
    home : (c,) server of each container afterwards
    seconds : for which containers stand still while they move, summed
    """
    jobs = _jobs(cluster, home)
    worst = min(jobs, key=lambda job: float(job["ratio"]), default=None)
    return {
        "before": as_json(cluster, cluster.home, weights),
        "after": as_json(cluster, home, weights),
        "moves": int((home != cluster.home).sum()),
        "move_seconds": seconds,
        "jobs": sorted(jobs, key=_weight)[:MOST_JOBS],
        "jobs_changed": len(jobs),
        "worst": worst if worst is not None and worst["ratio"] < 1.0 - NOTABLE else None,
        "apart": apart(cluster, home),
    }


def apart(cluster: Cluster, home: Ints) -> dict[str, Any]:
    """Count the ``jobs`` that are not inside of the server or rack they want to be in.

    For ``without_room`` of them no server (or rack) that is open to them and as fast as those
    they are on has units for all of one, whatever the price. ``meaning``: all that in a sentence,
    "" where there are none. O(split jobs x n).
    """
    free = (cluster.units - cluster.held_units).astype(np.float64)
    free = free + np.bincount(cluster.home, weights=cluster.size, minlength=free.size)
    free = free - np.bincount(home, weights=cluster.size, minlength=free.size)
    wish = cluster.counts_as()
    jobs = np.flatnonzero(split_jobs(cluster, home)).tolist()
    without_room = [
        job
        for job in jobs
        if _most_room(cluster, home, free, job, by_rack=wish[job] == Communication.RACK)
        < cluster.size[cluster.job == job].sum()
    ]
    return {
        "jobs": len(jobs),
        "without_room": len(without_room),
        "meaning": apart_said(len(jobs), len(without_room)),
    }


def apart_said(jobs: int, without_room: int) -> str:
    """Say why crossing traffic does not fall to nothing; see `apart`."""
    if not jobs:
        return ""
    stay, them, one = (
        ("1 job stays", "it", "it") if jobs == 1 else (f"{jobs:,} jobs stay", "them", "one")
    )
    no_room = f"no server (or rack) that suits {them} has room for all of {one}"
    costs = "would cost more than it gains, or slow somebody"
    if without_room == jobs:
        return f"{stay} apart: {no_room}."
    if not without_room:
        return f"{stay} apart: bringing {them} together {costs}."
    others = "other" if jobs - without_room == 1 else "others"
    some = f"for {without_room:,} of them {no_room}"
    return f"{stay} apart: {some}; bringing the {others} together {costs}."


def _most_room(cluster: Cluster, home: Ints, free: Floats, job: int, *, by_rack: bool) -> float:
    """Units that the roomiest server, or rack, has for a job, with those it holds there."""
    of = cluster.job == job
    speed = cluster.speed[job][cluster.platform]
    suits = cluster.is_open & cluster.is_allowed[job] & (speed >= speed[home[of]].max() * SLOWER)
    own = np.bincount(home[of], weights=cluster.size[of], minlength=free.size)
    room = np.where(suits, free, 0.0) + own
    if by_rack:
        room = np.bincount(cluster.rack, weights=room, minlength=len(cluster.rack_name))
    return float(room.max())


def servers(cluster: Cluster, home: Ints) -> dict[str, list[Any]]:
    """Columns by server: name, rack, share of its units held before and after, what comes in."""
    before = np.bincount(cluster.home, weights=cluster.size, minlength=cluster.units.size)
    after = np.bincount(home, weights=cluster.size, minlength=cluster.units.size)
    others = cluster.held_units - before
    comes: Bools = np.zeros(cluster.units.size, dtype=np.bool_)
    comes[home[home != cluster.home]] = True
    return {
        "name": list(cluster.server_name),
        "rack": [cluster.rack_name[rack] for rack in cluster.rack.tolist()],
        "before": _shares((before + others) / cluster.units),
        "after": _shares((after + others) / cluster.units),
        "is_target": comes.tolist(),
    }


def _shares(values: Floats) -> list[float]:
    shown: list[float] = values.round(4).tolist()
    return shown


def _jobs(cluster: Cluster, home: Ints) -> list[dict[str, Any]]:
    ratio = job_speed(cluster, home) / np.maximum(job_speed(cluster, cluster.home), 1e-300)
    moves = np.bincount(cluster.job[home != cluster.home], minlength=len(cluster.job_id))
    was_exposed, exposed = exposed_jobs(cluster, cluster.home), exposed_jobs(cluster, home)
    was_split, is_split = split_jobs(cluster, cluster.home), split_jobs(cluster, home)
    differs = (
        (np.abs(ratio - 1.0) >= NOTABLE)
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
                "faster" if ratio[job] >= 1.0 + NOTABLE else "",
            ),
            "loses": _word(
                exposed[job] and not was_exposed[job],
                is_split[job] and not was_split[job],
                "full speed" if ratio[job] <= 1.0 - NOTABLE else "",
            ),
        }
        for job in np.flatnonzero(differs).tolist()
    ]


def _word(protection: Any, togetherness: Any, otherwise: str) -> str:
    """Return the one thing that matters most of what a job gains, or loses."""
    if protection:
        return "protected"
    return "gathered" if togetherness else otherwise


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _weight(job: dict[str, Any]) -> tuple[int, float]:
    return -bool(job["gains"]) - bool(job["loses"]), -abs(job["ratio"] - 1.0)
