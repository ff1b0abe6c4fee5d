"""SQL with which agents take waiting rows of every project, user and flow in turn.

A flow is the new jobs of one user with the same application, constraints and resources
(`Job.flow_key`). As in fair queueing, flows take turns, and so do users and projects: thousands
of requests of one user, or with one constraint, do not hold back other requests.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from apps.workloads.models import NEW_JOB, NEW_JOB_OF_FLOW

JOB_IS_NEW: Final = NEW_JOB.format(job="j.")
JOB_IS_NEW_IN_FLOW: Final = NEW_JOB_OF_FLOW.format(job="j.")
JOB_IS_UNCLAIMED: Final = "(j.claimed_until IS NULL OR j.claimed_until < %(now)s)"

# A recursive query steps from project to project in the index; DISTINCT would read all rows.
_PROJECTS: Final = """
projects(id) AS (
    (SELECT j.project_id FROM {table} j WHERE {condition} ORDER BY j.project_id LIMIT 1)
    UNION ALL
    SELECT (SELECT j.project_id FROM {table} j WHERE {condition} AND j.project_id > p.id
            ORDER BY j.project_id LIMIT 1)
    FROM projects p WHERE p.id IS NOT NULL)
"""
PROJECTS_OF_OPEN_RUNS: Final = _PROJECTS.format(
    table="profiling_profilingrun", condition="j.state IN ('queued', 'running')"
)
PROJECTS_OF_NEW_JOBS: Final = _PROJECTS.format(table="workloads_job", condition=JOB_IS_NEW)
PROJECTS_OF_SHAPES: Final = _PROJECTS.format(table="workloads_waitingshape", condition="true")
EQUAL_SHARE: Final = """
(SELECT greatest(1, %(limit)s / greatest(1, count(id)))::int FROM projects)
"""
# Shares of the cluster that order projects; a project without one has used nothing.
SHARES: Final = "unnest(%(projects)s::uuid[], %(shares)s::float8[]) AS shares(project, dominant)"
SHARE: Final = "coalesce(shares.dominant, 0.0)"
NO_SHARES: Final[Mapping[UUID, float]] = MappingProxyType({})

_USERS: Final = f"""
users(project_id, user_id) AS (
    (SELECT j.project_id, j.created_by_id FROM workloads_job j WHERE {JOB_IS_NEW_IN_FLOW}
     ORDER BY j.project_id, j.created_by_id LIMIT 1)
    UNION ALL
    SELECT next.* FROM users u, LATERAL (
        SELECT j.project_id, j.created_by_id FROM workloads_job j
        WHERE {JOB_IS_NEW_IN_FLOW} AND (j.project_id, j.created_by_id) > (u.project_id, u.user_id)
        ORDER BY j.project_id, j.created_by_id LIMIT 1) next)
"""  # noqa: S608 - constants
# The flows of each user by key: those after %(start)s, and then those up to it. The users of a
# project share a quarter of its claims equally, and no user has more flows than claims.
_FLOWS: Final = f"""
flows(project_id, user_id, key, place, is_second_lap, share) AS (
    SELECT project_id, user_id, %(start)s::uuid, 0, false,
           greatest(1, {EQUAL_SHARE} / 4 / count(*) OVER (PARTITION BY project_id))
    FROM users
    UNION ALL
    SELECT f.project_id, f.user_id, coalesce(next.key, '{"0" * 32}'::uuid), f.place + 1,
           f.is_second_lap OR next.key IS NULL, f.share
    FROM flows f LEFT JOIN LATERAL (
        SELECT j.flow_key AS key FROM workloads_job j
        WHERE j.project_id = f.project_id AND j.created_by_id = f.user_id AND {JOB_IS_NEW_IN_FLOW}
          AND j.flow_key > f.key
        ORDER BY j.flow_key LIMIT 1) next ON true
    WHERE f.place < f.share
      AND NOT (f.is_second_lap AND (f.key >= %(start)s::uuid OR next.key IS NULL)))
"""  # noqa: S608 - constants
FLOWS_OF_NEW_JOBS: Final = f"{PROJECTS_OF_NEW_JOBS}, {_USERS}, {_FLOWS}"


def shares_as_values(shares: Mapping[UUID, float]) -> dict[str, Any]:
    """Return the parameters of `SHARES`."""
    return {"projects": list(shares), "shares": list(shares.values())}
