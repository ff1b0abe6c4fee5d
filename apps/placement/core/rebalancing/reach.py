"""What a growing number of migrations reaches: the prefixes of a search result.

A search orders its bundles by gain per migration, and every prefix of it can be carried out. The
curve of the objectives over the number of migrations is therefore measured on prefixes, not
interpolated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.rebalancing.bundles import Bundle
from apps.placement.core.rebalancing.cluster import RunningCluster, job_speed, metrics_json
from apps.placement.core.rebalancing.obstacles import obstacle_sentence
from apps.placement.core.rebalancing.planner import RebalancingResult

MAX_PREFIXES: Final = 41
MAX_FALLING: Final = 20  # jobs listed
_MEASURES: Final = ("F", "watts", "diversity", "crossing", "servers_on", "targets_met")


def reach_json(
    cluster: RunningCluster,
    outcome: RebalancingResult,
    weights: Mapping[str, float],
    seconds: Sequence[float],
    *,
    limit: int = MAX_PREFIXES,
) -> dict[str, Any]:
    """Columns over prefixes of the bundles, from no migration to all of them, as JSON.

    ``moves``, ``bundles``, ``seconds`` (total downtime), the measures of `metrics_json`,
    ``normalised`` and ``charged`` by objective, ``fallen``: jobs that meet their target now and
    would miss it; ``falling``: the worst of these jobs, with the ``ratio`` of their new speed to
    the current one by prefix; ``elbow``: see `elbow`; ``obstacles`` and ``meaning``: why no more
    migrations pay. O(limit·(n + c·N)).

    Parameters
    ----------
    seconds : downtime of each migration, in order
    limit : maximum number of prefixes
    """
    kept = prefixes([len(bundle.migrations) for bundle in outcome.bundles], limit)
    measured, ratios = _measured(cluster, outcome.bundles, kept, weights)
    moves = np.cumsum([0, *(len(bundle.migrations) for bundle in outcome.bundles)])[kept]
    downtime = np.append(0.0, np.cumsum(seconds))[moves]
    falls = _falls(cluster, ratios)
    return {
        "bundles": kept,
        "moves": moves.tolist(),
        "seconds": downtime.tolist(),
        **{name: [each[name] for each in measured] for name in _MEASURES},
        **{name: _by_objective(measured, name) for name in ("normalised", "charged")},
        "fallen": falls.sum(axis=1).tolist(),
        "falling": _falling(cluster, ratios, falls),
        "elbow": elbow(moves, np.array([each["F"] for each in measured])),
        "obstacles": {reason.value: count for reason, count in outcome.obstacles.items()},
        "meaning": obstacle_sentence(outcome.obstacles, is_complete=outcome.is_complete),
    }


def prefixes(migrations: Sequence[int], limit: int) -> list[int]:
    """Return numbers of bundles, ascending from 0 to all, evenly spaced by migrations.

    Parameters
    ----------
    migrations : of each bundle
    limit : maximum number of prefixes, >= 2
    """
    total = np.cumsum([0, *migrations])
    if total.size <= limit:
        return list(range(total.size))
    wanted = np.linspace(0, total[-1], limit)
    return sorted(set(np.searchsorted(total, wanted).tolist()))


def elbow(moves: Ints, values: Floats) -> int:
    """Index farthest below the line from the first to the last point; 0 for fewer than 3 points.

    After the elbow, a migration gains less than the average one. Source: Satopää et al. (2011),
    "Finding a kneedle in a haystack", on a curve that only falls.

    Parameters
    ----------
    moves : (m,) ascending
    values : (m,) F
    """
    if moves.size < 3 or values[0] <= values[-1]:
        return 0
    share = (moves - moves[0]) / (moves[-1] - moves[0])
    line = values[0] + share * (values[-1] - values[0])
    return int((line - values).argmax())


def _measured(
    cluster: RunningCluster,
    bundles: Sequence[Bundle],
    kept: Sequence[int],
    weights: Mapping[str, float],
) -> tuple[list[dict[str, Any]], Floats]:
    """Return the metrics of each prefix, and (m, j) ratios of the new speed to the current one."""
    assignment, applied = cluster.assignment.copy(), 0
    before = np.maximum(job_speed(cluster, assignment), 1e-300)
    measured, ratios = [], []
    for count in kept:
        for bundle in bundles[applied:count]:
            for migration in bundle.migrations:
                assignment[migration.container] = migration.target
        applied = count
        measured.append(metrics_json(cluster, assignment, weights))
        ratios.append(job_speed(cluster, assignment) / before)
    return measured, np.array(ratios)


def _falls(cluster: RunningCluster, ratios: Floats) -> Bools:
    """(m, j) whether a job meets its target now and would miss it."""
    meets = cluster.attainment >= 1.0
    falls: Bools = meets & (cluster.attainment * ratios < 1.0)
    return falls


def _falling(cluster: RunningCluster, ratios: Floats, falls: Bools) -> list[dict[str, Any]]:
    """Return the jobs that would miss their target after some prefix, the lowest first."""
    jobs = np.flatnonzero(falls.any(axis=0))
    lowest = (cluster.attainment * ratios)[:, jobs].min(axis=0, initial=np.inf)
    ordered = jobs[np.argsort(lowest, kind="stable")[:MAX_FALLING]]
    return [
        {
            "id": cluster.job_id[job],
            "name": cluster.job_name[job],
            "attainment": float(cluster.attainment[job]),
            "ratio": np.round(ratios[:, job], 4).tolist(),
        }
        for job in ordered.tolist()
    ]


def _by_objective(measured: Sequence[Mapping[str, Any]], name: str) -> dict[str, list[float]]:
    return {key: [each[name][key] for each in measured] for key in measured[0][name]}
