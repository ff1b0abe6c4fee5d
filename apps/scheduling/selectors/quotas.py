"""What the projects may use, use and request, in units."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows
from apps.scheduling.core.quotas import QuotaRow, Standing, lent

# Neither a job that no server matches claims units, nor a gang that needs more than the maximum of
# its project: they would keep units from borrowers for ever, as they cannot start.
_STANDINGS: Final = """
SELECT p.id, p.name, coalesce(p.guaranteed_units, 0), p.max_units,
       coalesce(held.units, 0), coalesce(waiting.units, 0)
FROM accounts_project p
LEFT JOIN (
    SELECT j.project_id, sum(a.cores) AS units
    FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
    WHERE a.released_seq IS NULL GROUP BY j.project_id) held ON held.project_id = p.id
LEFT JOIN (
    SELECT j.project_id, sum(coalesce(s.units, j.units_requested, 1)) AS units
    FROM workloads_job j JOIN accounts_project o ON o.id = j.project_id
    LEFT JOIN workloads_waitingshape s ON s.id = j.shape_id
    WHERE j.state IN ('submitted', 'queued') AND NOT j.held AND NOT j.cancel_requested
      AND j.reason_code <> 'NoMatchingServer' AND coalesce(s.waits_for, 'units') = 'units'
      AND (s.min_units > o.max_units) IS NOT TRUE
    GROUP BY j.project_id) waiting ON waiting.project_id = p.id
ORDER BY p.name
"""
_ANY: Final = """
SELECT EXISTS (SELECT FROM accounts_project
               WHERE guaranteed_units IS NOT NULL OR max_units IS NOT NULL)
"""


def has_quotas() -> bool:
    """Return whether any project has a quota; without one, nothing is limited."""
    return bool(fetch_rows(_ANY)[0][0])


def standings() -> dict[UUID, Standing]:
    """Return the standings of all projects by id, in the order of their names.

    Reads the running and waiting jobs; O(both).
    """
    return {key: Standing(*values) for key, *values in fetch_rows(_STANDINGS)}


def quota_rows(projects: Collection[UUID] | None) -> list[QuotaRow] | None:
    """Return the standings of some projects that use, request or are guaranteed units.

    Parameters
    ----------
    projects : None = all

    Returns
    -------
    None if no project has a quota.
    """
    if not has_quotas():
        return None
    known = standings()
    of = lent(known)
    return [
        QuotaRow(each, of[key])
        for key, each in known.items()
        if (projects is None or key in projects)
        and (each.guaranteed or each.limit is not None or each.used or each.waiting)
    ]
