"""What the projects may use, use and request, in units."""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_prepared, fetch_rows, number_array
from apps.scheduling.core.sharing.quotas import QuotaRow, Standing, WaitingGang, lent
from apps.workloads.core.reasons import PERMANENT, Reason
from apps.workloads.core.shapes import Needs, WaitsFor
from apps.workloads.models import NEW_JOB

# Jobs that no server matches, whose policy fails, or with a permanent reason claim no units, nor
# does a gang that needs more than the maximum of its project: they would keep units from borrowers
# for ever, as they cannot start. Jobs that wait for better units (QualityShort) claim none either:
# others may take those that are free.
_NO_CLAIM: Final = {
    Reason.NO_MATCHING_SERVER,
    Reason.POLICY_FAILED,
    Reason.QUALITY_SHORT,
    *PERMANENT,
}
_CLAIMS: Final = f"<> ALL('{{{','.join(sorted(_NO_CLAIM))}}}')"
# A job that migrates holds the units of both servers, and works with those of one.
IS_USED: Final = "(a.moved_from IS NULL OR a.moved_s IS NOT NULL)"
_OF_PROJECTS: Final = f"""
SELECT p.id, p.name, coalesce(p.guaranteed_units, 0), p.max_units,
       coalesce(held.units, 0), coalesce(waiting.units, 0){{needs}}
FROM accounts_project p
LEFT JOIN (
    SELECT running.project_id, sum(a.cores) AS units
    FROM scheduling_allocation a JOIN workloads_job running ON running.id = a.job_id
    WHERE a.released_seq IS NULL AND {IS_USED}
    GROUP BY running.project_id) held ON held.project_id = p.id
"""  # noqa: S608 - a constant
MAX_NEEDS: Final = 100  # rows; a project with more shapes and new jobs claims units of any server
_ALL_STANDINGS: Final = f"""
{_OF_PROJECTS.format(needs="")}
LEFT JOIN (
    SELECT j.project_id, sum(coalesce(s.units, j.units_requested, 1)) AS units
    FROM workloads_job j JOIN accounts_project o ON o.id = j.project_id
    LEFT JOIN workloads_waitingshape s ON s.id = j.shape_id
    WHERE j.state IN ('submitted', 'queued') AND NOT j.held AND NOT j.cancel_requested
      AND coalesce(s.reason_code, j.reason_code) {_CLAIMS}
      AND coalesce(s.waits_for, 'units') = 'units'
      AND (s.min_units > o.max_units) IS NOT TRUE
    GROUP BY j.project_id) waiting ON waiting.project_id = p.id
ORDER BY p.name
"""  # noqa: S608 - constants
# A project claims at most its unused units, and each job requests one or more. So only as many
# jobs are summed, in the order of the indexes job_by_shape and job_to_evaluate.
_STANDINGS: Final = f"""
{_OF_PROJECTS.format(needs=", servers.needs")}
CROSS JOIN LATERAL (
    SELECT greatest(0, coalesce(p.guaranteed_units, 0) - coalesce(held.units, 0))::bigint
        AS units) unused
LEFT JOIN LATERAL (
    SELECT sum(each.units) AS units FROM (
        (SELECT s.units FROM workloads_waitingshape s, LATERAL (
             SELECT FROM workloads_job j
             WHERE j.shape_id = s.id AND NOT j.cancel_requested
             ORDER BY j.created_at, j.id LIMIT unused.units) job
         WHERE s.project_id = p.id AND s.waits_for = 'units'
           AND s.reason_code {_CLAIMS}
           AND (s.min_units > p.max_units) IS NOT TRUE
         LIMIT unused.units)
        UNION ALL
        (SELECT coalesce(j.units_requested, 1) FROM workloads_job j
         WHERE j.project_id = p.id AND {NEW_JOB.format(job="j.")} AND NOT j.cancel_requested
           AND j.reason_code {_CLAIMS}
         ORDER BY j.priority DESC, j.created_at, j.id LIMIT unused.units)
        LIMIT unused.units) each
    WHERE unused.units > 0) waiting ON true
LEFT JOIN LATERAL (
    SELECT CASE WHEN count(*) <= {MAX_NEEDS} THEN coalesce(jsonb_agg(DISTINCT needs), '[]') END
        AS needs
    FROM (
        (SELECT jsonb_build_array(s.platforms, s.labels, s.unit_memory_bytes,
                                  s.unit_network_bps, s.unit_storage_bytes) AS needs
         FROM workloads_waitingshape s
         WHERE s.project_id = p.id AND s.waits_for = 'units' AND s.reason_code {_CLAIMS}
           AND (s.min_units > p.max_units) IS NOT TRUE LIMIT {MAX_NEEDS} + 1)
        UNION ALL
        (SELECT jsonb_build_array(nullif(n.constraints->'platforms', '[]'), ARRAY(
                    SELECT key || '=' || value FROM jsonb_each_text(n.constraints->'labels')),
                    n.unit_memory_bytes, n.unit_network_bps, n.unit_storage_bytes)
         FROM workloads_job n
         WHERE n.project_id = p.id AND {NEW_JOB.format(job="n.")} AND NOT n.cancel_requested
           AND n.reason_code {_CLAIMS} AND n.id <> ALL(%(decided)s)
         ORDER BY n.priority DESC, n.created_at, n.id LIMIT {MAX_NEEDS} + 1)
        LIMIT {MAX_NEEDS} + 1) each
    WHERE waiting.units > 0) servers ON true
ORDER BY p.name
"""  # noqa: S608 - constants
# Gangs that the quota refuses, and those with a reservation, which their quota must not refuse
# when its units are free. A gang beyond the maximum of its project can never start. Index of
# shapes: shape_of_gang_beyond_quota.
_GANGS: Final = """
SELECT DISTINCT ON (project_id) project_id, id, units, priority, start_s FROM (
    SELECT j.project_id, j.id, cardinality(r.unit_ids) AS units, j.priority, j.submitted_s,
           r.start_s
    FROM scheduling_reservation r JOIN workloads_job j ON j.id = r.job_id
    WHERE j.state IN ('submitted', 'queued') AND NOT j.held AND NOT j.cancel_requested
    UNION ALL
    SELECT s.project_id, j.id, s.min_units, s.priority, j.submitted_s, NULL
    FROM workloads_waitingshape s JOIN accounts_project p ON p.id = s.project_id, LATERAL (
        SELECT id, submitted_s FROM workloads_job
        WHERE shape_id = s.id AND NOT cancel_requested ORDER BY created_at, id LIMIT 1) j
    WHERE s.reason_code = 'QuotaExceeded' AND s.min_units > 1
      AND (s.min_units > p.max_units) IS NOT TRUE) each
WHERE submitted_s <= %s
ORDER BY project_id, priority DESC, submitted_s, id
"""
# jobs may hold units of servers that are not active
_CAPACITY: Final = """
SELECT coalesce(sum(CASE WHEN state = 'active' THEN cores ELSE used_cores END), 0)
FROM inventory_server
"""
_ANY: Final = """
SELECT EXISTS (SELECT FROM accounts_project
               WHERE guaranteed_units IS NOT NULL OR max_units IS NOT NULL)
"""


def has_quotas() -> bool:
    """Return whether any project has a quota; without one, nothing is limited."""
    return bool(fetch_prepared(_ANY, ())[0][0])


def standings(decided: Collection[UUID] = ()) -> dict[UUID, Standing]:
    """Return the standings of all projects by id, in the order of their names.

    ``waiting`` counts only as many jobs as can claim the unused units of the project. Reads the
    running jobs, and as many waiting jobs as units that are guaranteed and unused; for ``needs``,
    at most `MAX_NEEDS` shapes and new jobs.

    Parameters
    ----------
    decided : jobs whose needs the caller knows: ``needs`` leaves them out
    """
    rows = fetch_rows(_STANDINGS, {"decided": number_array(sorted(decided))})
    return {
        key: replace(Standing(*values), needs=None if needs is None else _needs(needs))
        for key, *values, needs in rows
    }


def _needs(text: str) -> frozenset[Needs]:
    return frozenset(
        Needs(
            WaitsFor.UNITS,
            platforms=None if platforms is None else tuple(platforms),
            labels=tuple(labels),
            unit_memory_bytes=memory,
            unit_network_bps=network,
            unit_storage_bytes=storage,
        )
        for platforms, labels, memory, network, storage in json.loads(text)
    )


def gangs_submitted_until(cluster_s: float) -> dict[UUID, WaitingGang]:
    """Return of each project the waiting gang for which it keeps a part of its quota, if any.

    The most urgent and oldest of those that the quota refuses or that have a reservation. Reads
    the reservations and one job of each such shape.

    Parameters
    ----------
    cluster_s : time of the submission, at the latest
    """
    return {key: WaitingGang(*values) for key, *values in fetch_rows(_GANGS, [cluster_s])}


def quota_rows(projects: Collection[UUID] | None) -> list[QuotaRow] | None:
    """Return the standings of some projects that use, request or are guaranteed units.

    Reads the running and waiting jobs; O(both).

    Parameters
    ----------
    projects : None = all

    Returns
    -------
    None if no project has a quota.
    """
    if not has_quotas():
        return None
    known = {key: Standing(*values) for key, *values in fetch_rows(_ALL_STANDINGS)}
    ((capacity,),) = fetch_rows(_CAPACITY)
    of = lent(known, capacity)
    return [
        QuotaRow(each, of[key])
        for key, each in known.items()
        if (projects is None or key in projects)
        and (each.guaranteed or each.limit is not None or each.used or each.waiting)
    ]
