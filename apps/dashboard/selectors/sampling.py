"""Sample quality: ranks of the chosen units, against the promise x^R."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures.quality_cdf import QualityCdf, kolmogorov_limit, largest_distance
from apps.scheduling.core.registry import sampling_policy
from apps.scheduling.models import Decision
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.testbed.models import SamplingCheck
from apps.testbed.selectors.sampling_checks import SAMPLE_SIZES

LAST_RANKED = 1_000
ENOUGH_RANKS = 35  # from here on, the asymptotic limit is accurate enough
THRESHOLD = 0.8


def guarantee(decision: Decision) -> QualityCdf:
    """Return the promise of one decision and the measured ranks."""
    r = decision.sample_size
    own = _live_ranks(decision.policy, r).size >= ENOUGH_RANKS
    return _cdf(
        comparable_ranks(decision.policy, r),
        r,
        threshold=decision.rank_threshold,
        source="Live decisions" if own else f"Live decisions of any R, converted to R = {r}",
    )


def quality(sample_size: str, source: str) -> QualityCdf:
    """Return measured ranks at one sample size, of the offline check or of live decisions.

    Both are of the policy that decides on jobs that ask for a sample.
    """
    r = (
        int(sample_size)
        if sample_size in {str(size) for size in SAMPLE_SIZES}
        else SAMPLE_SIZES[0]
    )
    if source == "check":
        return _checked(r)
    ranks = _live_ranks(sampling_policy(policy_in_use()), r)
    return _cdf(ranks, r, threshold=THRESHOLD, source="Live decisions")


def _cdf(ranks: NDArray[np.float64], r: int, *, threshold: float, source: str) -> QualityCdf:
    return QualityCdf(
        sample_size=r,
        ranks=ranks,
        shares=np.arange(1, ranks.size + 1) / max(1, ranks.size),
        samples=ranks.size,
        distance=largest_distance(ranks, r),
        limit=kolmogorov_limit(ranks.size),
        threshold=threshold,
        source=source,
    )


def _checked(r: int) -> QualityCdf:
    """Return the latest offline check at one sample size."""
    row = SamplingCheck.objects.filter(size=r).order_by("-created_at").first()
    if row is None:
        nothing = np.zeros(0)
        return _cdf(nothing, r, threshold=THRESHOLD, source="Offline check")
    return QualityCdf(
        sample_size=r,
        ranks=np.array(row.xs, dtype=float),
        shares=np.array(row.cdf, dtype=float),
        samples=row.decisions,
        distance=row.ks_distance,
        limit=kolmogorov_limit(row.decisions),
        threshold=THRESHOLD,
        source=f"Offline check at {formats.percent(row.load, 0)} load",
    )


def comparable_ranks(policy: str, sample_size: int) -> NDArray[np.float64]:
    """Return a policy's ranks at a sample size; if there are few, those of all sizes converted.

    A rank D at R' that follows its promise has D^R' uniform, so D^(R'/R) follows the promise of R.
    """
    own = _live_ranks(policy, sample_size)
    if own.size >= ENOUGH_RANKS:
        return own
    rows = Decision.objects.filter(policy=policy, rank__isnull=False, units=1, sample_size__gt=0)
    pairs = rows.order_by("-at").values_list("rank", "sample_size")[:LAST_RANKED]
    table = np.array(list(pairs), dtype=float).reshape(-1, 2)
    return np.sort(table[:, 0] ** (table[:, 1] / sample_size))


def _live_ranks(policy: str, sample_size: int) -> NDArray[np.float64]:
    """Return a policy's latest ranks at a sample size, ascending; one-unit jobs only, as for x^R.

    Other policies may not draw uniformly.
    """
    rows = Decision.objects.filter(
        policy=policy, sample_size=sample_size, rank__isnull=False, units=1
    ).order_by("-at")
    return np.sort(np.array(rows.values_list("rank", flat=True)[:LAST_RANKED], dtype=float))


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """Offline and live ranks at one sample size."""

    sample_size: int
    promised: float
    checked: QualityCdf
    live: QualityCdf

    @property
    def check_query(self) -> str:
        """Query of the offline figure."""
        return f"?source=check&r={self.sample_size}"

    @property
    def live_query(self) -> str:
        """Query of the live figure."""
        return f"?source=live&r={self.sample_size}"

    @property
    def check_name(self) -> str:
        """Name of the offline figure."""
        return f"Rank at R = {self.sample_size}, offline check"

    @property
    def live_name(self) -> str:
        """Name of the live figure."""
        return f"Rank at R = {self.sample_size}, live decisions"


def sampling_summary() -> tuple[SamplingRow, ...]:
    """Return the three sample sizes side by side."""
    return tuple(
        SamplingRow(r, THRESHOLD**r, quality(str(r), "check"), quality(str(r), "live"))
        for r in SAMPLE_SIZES
    )
