"""The admission control of a replay."""

from collections.abc import Mapping, Sequence

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.admission.placing import Place, place_admitted
from apps.scheduling.core.admission.registry import make_admission
from apps.scheduling.core.admission.types import ADMITTED, Applicant, Delayed
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.types import Placed, Refused, Request
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
        requests: Sequence[Request],
        applicants: Mapping[str, Applicant],
        now: float,
        place: Place,
    ) -> tuple[list[Placed | Refused], dict[str, float]]:
        """Return one outcome per request, and when those are evaluated again that wait.

        Parameters
        ----------
        applicants : by job; the other jobs are admitted
        """
        if self._control is None:
            raise ValueError("this replay has no admission control")
        found = self._control.evaluate([*applicants.values()], view, self._facts, now)
        verdicts = dict(zip(applicants, found, strict=True))
        until_s = {
            job: verdict.until_s
            for job, verdict in verdicts.items()
            if isinstance(verdict, Delayed)
        }
        in_order = [verdicts.get(request.job, ADMITTED) for request in requests]
        return place_admitted(in_order, requests, view, place), until_s
