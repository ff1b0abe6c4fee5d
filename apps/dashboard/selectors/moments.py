"""The cluster at one moment: now, or as recorded at an earlier one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.dashboard.core.ranges import TimeRange
from apps.inventory.core.usage import UsageTotals
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_totals
from apps.workloads.selectors import job_counts


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """Use of the servers and numbers of jobs.

    Attributes
    ----------
    jobs : by state
    waiting : waiting jobs by reason code; recorded moments only
    """

    usage: UsageTotals
    jobs: Mapping[str, int]
    waiting: Mapping[str, int]

    def jobs_in(self, states: Iterable[str]) -> int:
        """Return the number of jobs in any of the states."""
        return sum(self.jobs.get(str(state), 0) for state in states)


def cluster_moment(span: TimeRange) -> ClusterMoment:
    """Return the cluster at the end of the range."""
    if not span.is_past:
        return ClusterMoment(cluster_totals().usage, job_counts(None).by_state, {})
    frame = frame_at(span.last_s)
    if frame is None:
        nothing = float("nan")
        return ClusterMoment(UsageTotals(0, 0, 0, 0, nothing, nothing, 0.0), {}, {})
    return ClusterMoment(
        UsageTotals(
            servers=frame.servers,
            reporting=frame.servers_on,
            units=frame.units,
            units_allocated=frame.units_allocated,
            cpu_share=frame.cpu_share if frame.servers_on else float("nan"),
            memory_share=frame.memory_share if frame.servers_on else float("nan"),
            watts=frame.watts,
        ),
        jobs=frame.facts.get("jobs") or {},
        waiting=frame.facts.get("waiting") or {},
    )


def frame_at(cluster_s: float) -> ClusterFrame | None:
    """Return the last frame at or before a cluster time, without its arrays; None before any."""
    frames = ClusterFrame.objects.filter(cluster_s__lte=cluster_s).order_by("-cluster_s")
    return frames.defer("server_cpu", "server_allocated").first()
