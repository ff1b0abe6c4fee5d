"""The admission control of a replay."""

from collections.abc import Sequence

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.admission.placing import Place, place_admitted
from apps.scheduling.core.admission.registry import make_admission
from apps.scheduling.core.admission.types import Applicant, Delayed
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.types import Placed, Refused
from apps.testbed.core.replay.model import ReplayOptions


class Admitting:
    """Production's admission control, which all agents share."""

    def __init__(self, cluster: MemoryCluster, options: ReplayOptions) -> None:
        self._cluster = cluster
        self._control = make_admission(options.admission.control, max_wait_s=options.max_wait_s)
        self._facts = TopologyFacts(cluster.topology)

    @property
    def is_on(self) -> bool:
        """Whether jobs pass an admission control."""
        return self._control is not None

    def note_freed(self, units: Shorts, now: float) -> None:
        """Note units (indices) that were freed."""
        if self._control is not None:
            self._control.note_freed(self._cluster.view(), units.astype(np.int64), now)

    def place(
        self,
        view: Snapshot,
        applicants: Sequence[Applicant],
        now: float,
        place: Place,
    ) -> tuple[list[Placed | Refused], dict[str, float]]:
        """Return one outcome per applicant, and when those are evaluated again that wait."""
        requests = [each.request for each in applicants]
        if self._control is None:
            raise ValueError("this replay has no admission control")
        verdicts = self._control.evaluate(applicants, view, self._facts, now)
        until_s = {
            request.job: verdict.until_s
            for request, verdict in zip(requests, verdicts, strict=True)
            if isinstance(verdict, Delayed)
        }
        return place_admitted(verdicts, requests, view, place), until_s
