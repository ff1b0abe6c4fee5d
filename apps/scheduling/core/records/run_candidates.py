"""Candidates of the decisions of a run, which share the arrays that one call has filled."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Bools
from apps.scheduling.core.records.ranked_candidates import RankedCandidates
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import EXPLAINED

if TYPE_CHECKING:
    from apps.scheduling.core.rankings.batch import Found  # imports numba

_FIRST: Final = as_readonly(np.zeros(1, dtype=np.int64))
_UNKNOWN: Final = float("nan")


class RunCandidates(RankedCandidates):
    """The candidates of one decision of a run, best first; the first is chosen.

    Most are only packed, together with those of the other jobs. So their scores are not cut out
    of the arrays of the run before somebody reads them.

    Attributes
    ----------
    found : the candidates of all jobs of the run
    job : position of the job in the run
    """

    def __init__(self, found: "Found", job: int, size: int, eligible: int) -> None:
        self.found, self.job, self.picked = found, job, _FIRST
        self._size, self._eligible = size, eligible
        self._built = None

    def __len__(self) -> int:
        return self._size

    @property
    def scores(self) -> Scores:
        """The scores, best first, as views of the arrays of the run."""
        found, own = self.found, (self.job, slice(self._size))
        return Scores(
            units=found.units[own],
            servers=found.servers[own],
            key=found.key[own],
            quality=np.full(self._size, np.nan),
            target=_UNKNOWN,
            closeness=found.score[own],
            headroom=found.headroom[own],
            examined=self._eligible,
            expectations=found.expectations[own],
            listed=EXPLAINED,
        )


def listed(candidates: Sequence[RunCandidates]) -> tuple[list[int], Bools]:
    """Return the positions of decisions of one run, and which places (n, K) they fill."""
    jobs = [each.job for each in candidates]
    sizes = candidates[0].found.size[jobs]
    return jobs, np.arange(EXPLAINED) < sizes[:, None]
