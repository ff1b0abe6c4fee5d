"""What the projects have used of the cluster, decayed, and their shares of it."""

from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from apps.accounts.models import ProjectShare
from apps.common.infrastructure.database import fetch_rows
from apps.scheduling.core.sharing.fair_share import NOTHING, Amounts

# A weight is `core.fair_share.interval_weight`. PostgreSQL refuses powers that are too small for a
# float, hence the limit of 1000 half-lives.
_WEIGHT: Final = (
    "power(2.0, -least(1000.0, greatest(0.0, %(now)s::float8 - {moment}) / %(half_life)s::float8))"
)
_COLUMNS: Final = """
a.job_id, a.acquired_s, coalesce(a.released_s, %(now)s) AS released_s,
a.cores, a.memory_bytes, a.network_bps, a.storage_bytes
"""
_RELEASED: Final = f"""
SELECT {_COLUMNS} FROM inventory_change c JOIN scheduling_allocation a ON a.id = c.allocation_id
WHERE c.kind = 'release'
"""  # noqa: S608 - constants
_USES: Final = f"""
WITH parts AS (
    SELECT true AS is_settled, r.* FROM (
        {_RELEASED} AND c.seq > %(after)s AND c.seq <= %(until)s) r
    UNION ALL
    SELECT false, r.* FROM ({_RELEASED} AND c.seq > %(until)s) r
    UNION ALL
    SELECT false, {_COLUMNS} FROM scheduling_allocation a WHERE a.released_seq IS NULL),
weighted AS (
    SELECT p.*, {_WEIGHT.format(moment="p.released_s")}
                - {_WEIGHT.format(moment="p.acquired_s")} AS weight
    FROM parts p)
SELECT j.project_id, w.is_settled, sum(w.weight * w.cores), sum(w.weight * w.memory_bytes),
       sum(w.weight * w.network_bps), sum(w.weight * w.storage_bytes)
FROM weighted w JOIN workloads_job j ON j.id = w.job_id GROUP BY 1, 2
"""  # noqa: S608 - constants
_SETTLED: Final = """
SELECT NOT EXISTS (
    SELECT FROM scheduling_allocation a
    WHERE a.job_id = %(job)s AND (a.released_seq IS NULL OR a.released_seq > coalesce(
        (SELECT sequence FROM accounts_projectshare WHERE project_id = %(project)s), 0)))
"""
_CAPACITY: Final = """
SELECT coalesce(sum(cores), 0)::float8, coalesce(sum(memory_bytes), 0)::float8,
       coalesce(sum(network_bps), 0)::float8, coalesce(sum(storage_bytes), 0)::float8
FROM inventory_server
"""


def is_on() -> bool:
    """Return whether waiting jobs are ordered by the shares of their projects."""
    return settings.FAIR_SHARE_HALF_LIFE_S > 0.0


def dominant_shares() -> dict[UUID, float]:
    """Return the dominant shares by project; empty without fair share."""
    return {key: max(shares) for key, shares in project_shares().items()}


def project_shares() -> dict[UUID, Amounts]:
    """Return the shares by project and resource as last stored; empty without fair share."""
    if not is_on():
        return {}
    rows = ProjectShare.objects.values_list("project_id", "shares")
    return {
        key: (units, memory, network, storage) for key, (units, memory, network, storage) in rows
    }


def share_rows(projects: Collection[UUID] | None) -> list[ProjectShare] | None:
    """Return the stored shares of some projects, smallest first; None without fair share.

    Parameters
    ----------
    projects : None = all
    """
    if not is_on():
        return None
    rows = ProjectShare.objects.select_related("project").order_by("position")
    return list(rows if projects is None else rows.filter(project_id__in=projects))


class Uses(NamedTuple):
    """Decayed mean amounts by project: of allocations that ended in a part of the change log.

    ``others`` : of the allocations that are live or ended later
    """

    settled: dict[UUID, Amounts]
    others: dict[UUID, Amounts]


def uses(*, after: int, until: int, now_s: float, half_life_s: float) -> Uses:
    """Return what projects have used recently and use now; O(changes after ``after`` + live).

    Parameters
    ----------
    after, until : change-log numbers; releases up to ``after`` are left out
    """
    values = {"after": after, "until": until, "now": now_s, "half_life": half_life_s}
    found = Uses({}, {})
    for project, is_settled, *amounts in fetch_rows(_USES, values):
        units, memory, network, storage = map(float, amounts)
        side = found.settled if is_settled else found.others
        side[project] = (units, memory, network, storage)
    return found


def is_counted(job: UUID, project: UUID) -> bool:
    """Return whether the stored share of a project counts all allocations of a job as ended."""
    return bool(fetch_rows(_SETTLED, {"job": job, "project": project})[0][0])


def cluster_capacity() -> Amounts:
    """Return the units, memory, network and storage of all servers."""
    return fetch_rows(_CAPACITY)[0] or NOTHING
