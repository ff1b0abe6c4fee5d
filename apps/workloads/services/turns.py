"""SQL with which agents take waiting rows of every project in turn."""

from typing import Final

JOB_IS_NEW: Final = "j.state IN ('submitted', 'queued') AND NOT j.held AND j.shape_id IS NULL"
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
PROJECTS_OF_NEW_JOBS: Final = _PROJECTS.format(table="workloads_job", condition=JOB_IS_NEW)
PROJECTS_OF_SHAPES: Final = _PROJECTS.format(table="workloads_waitingshape", condition="true")
EQUAL_SHARE: Final = """
(SELECT greatest(1, %(limit)s / greatest(1, count(id)))::int FROM projects)
"""
