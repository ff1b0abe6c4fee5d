"""Jobs that the quotas of their projects let start."""

from collections.abc import Sequence
from dataclasses import replace

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.quotas import allowance
from apps.scheduling.core.types import RefusalReason, Refused
from apps.scheduling.selectors.quotas import has_quotas, standings
from apps.scheduling.services.proposals import SizedJob


def within_quotas(
    snapshot: Snapshot, ready: Sequence[SizedJob]
) -> tuple[list[SizedJob], list[tuple[SizedJob, Refused]]]:
    """Return the jobs within the quotas of their projects, and the refusals of the others.

    Several agents that decide at the same time may exceed a quota by the jobs of one turn.
    """
    if not has_quotas():
        return list(ready), []
    known = standings()
    opened = snapshot.server_open[snapshot.topology.unit_server]
    free = int((snapshot.unit_free & opened).sum())
    # Claims of others count as they were: a job that the policy refuses keeps its claim.
    covered = {key: each.claimed for key, each in known.items()}
    taken = dict.fromkeys(known, 0)
    within: list[SizedJob] = []
    refused: list[tuple[SizedJob, Refused]] = []
    for each in ready:
        project, units = each.job.project_id, each.request.units
        own = replace(known[project], used=known[project].used + taken[project])
        limit = allowance({**known, project: own}, project, free)
        if limit.covers(units):
            within.append(each)
            claimed = min(units, covered[project])
            covered[project] -= claimed
            taken[project] += units
            free = max(0, free - units + claimed)
        else:
            refused.append((each, _refused(each, limit.detail, snapshot, free)))
    return within, refused


def _refused(ready: SizedJob, detail: str, snapshot: Snapshot, free: int) -> Refused:
    return Refused(
        ready.request.job,
        RefusalReason.QUOTA_EXCEEDED,
        {"quota": free},
        detail=detail,
        sequence=snapshot.sequence,
    )
