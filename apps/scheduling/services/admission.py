"""The admission control of an agent: its history, its verdicts, and the state that pages show.

Every agent follows the whole change log, so their histories agree; the jobs that arrive at other
agents are read from the database. The state is stored by the agent that is the first to do so
after an interval, and an agent that starts continues from it.
"""

import json
import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Final

import numpy as np
from django.conf import settings
from django.db import connection

from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.admission.placing import refused_as, within
from apps.scheduling.core.admission.registry import make_admission
from apps.scheduling.core.admission.types import (
    ADMITTED,
    FORGET_S,
    Admission,
    Applicant,
    Control,
    Delayed,
    with_rates_of_all_agents,
)
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.core.types import Refused
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.waits import admission_memory, requested_per_s
from apps.scheduling.services.backfill import bindings, start_s
from apps.scheduling.services.fair_share import in_fair_order
from apps.scheduling.services.proposals import SizedJob
from apps.scheduling.services.quotas import within_quotas
from apps.workloads.selectors import waiting_among

STORE_S: Final = 5.0  # wall seconds between two states

_STORE: Final = """
INSERT INTO scheduling_admissionstate AS s (control, agent, cluster_s, queues, memory, at)
VALUES (%(control)s, %(agent)s, %(now)s, %(queues)s, %(memory)s, clock_timestamp())
ON CONFLICT (control) DO UPDATE
SET agent = excluded.agent, cluster_s = excluded.cluster_s, queues = excluded.queues,
    memory = excluded.memory, at = excluded.at
WHERE s.at < clock_timestamp() - make_interval(secs => %(interval)s)
"""


def control_in_use() -> Control:
    """Return the admission control of the settings."""
    return Control(settings.ADMISSION)


def recalled_control(snapshot: Snapshot) -> Admission | None:
    """Return an admission control as agents last stored it; None = every job is decided at once.

    Without a stored history it lets no job wait, as that of the first agent of a cluster.
    """
    control = make_admission(control_in_use(), max_wait_s=settings.ADMISSION_MAX_WAIT_S)
    if control is not None:
        _recall(control, snapshot)
    return control


def _recall(control: Admission, snapshot: Snapshot, since_s: float = -math.inf) -> None:
    """Let a control continue from the history that agents stored last, if since ``since_s``."""
    stored = admission_memory(control.control, since_s)
    memory = json.loads(zlib.decompress(stored)) if stored else {}
    if "begun_s" in memory:  # agents before it was stored knew no rates
        control.recall(memory, snapshot)


def _applicant(ready: SizedJob, seen: Snapshot | None) -> Applicant:
    job, run_s = ready.job, float("nan") if ready.run is None else ready.run.value
    return Applicant(ready.request, job.waited_s, run_s, job.profiling_s, job.priority, seen)


def _seen_by(
    ready: Sequence[SizedJob], reserved: Sequence[Reservation], snapshot: Snapshot
) -> list[Snapshot | None]:
    """Return the cluster that each job sees: without what is reserved for others."""
    found: list[Snapshot | None] = [None] * len(ready)
    known: dict[tuple[object, ...], Snapshot] = {}
    for group in bindings(ready, reserved, start_s()) if reserved else ():
        by = group.units, group.room
        if any(by):
            known[by] = known.get(by) or group.seen_in(snapshot, {})
            for place in group.positions:
                found[place] = known[by]
    return found


def admitted_by(
    control: Admission,
    snapshot: Snapshot,
    ready: Sequence[SizedJob],
    facts: TopologyFacts,
    now_s: float,
    reserved: Sequence[Reservation],
) -> tuple[list[SizedJob], list[tuple[SizedJob, Refused]]]:
    """Return the jobs that an admission control admits, and the refusals of the others.

    It decides neither on jobs with a reservation, whose units nobody else may use meanwhile, nor
    on running jobs that lack units. For the others, these units are not free.
    """
    holders = {each.job for each in reserved}
    evaluated = [each.job.id not in holders and not each.job.missing for each in ready]
    seen = _seen_by(ready, reserved, snapshot)
    applicants = [
        _applicant(each, sees) for each, sees in compress(zip(ready, seen, strict=True), evaluated)
    ]
    found = iter(control.evaluate(applicants, snapshot, facts, now_s))
    admitted, refused = [], []
    for each, sees, is_evaluated in zip(ready, seen, evaluated, strict=True):
        verdict = next(found) if is_evaluated else ADMITTED
        if isinstance(verdict, Delayed):
            refused.append((each, refused_as(verdict, each.request.job, snapshot, sees)))
        else:
            request = within(each.request, verdict)
            admitted.append(each if request is each.request else replace(each, request=request))
    return admitted, refused


def _forget_others(control: Admission) -> None:
    """Let an admission control forget the jobs that no longer wait for units."""
    jobs = set(control.waiting)
    if jobs:
        control.forget(jobs - waiting_among(jobs))


class AdmissionDesk:
    """Admits jobs by the quotas of their projects and the admission control of the settings."""

    def __init__(self, agent: str, cluster: ClusterFollower) -> None:
        self._agent, self._cluster = agent, cluster
        self._control: Admission | None = make_admission(
            control_in_use(), max_wait_s=settings.ADMISSION_MAX_WAIT_S
        )
        self._stored_s = -STORE_S
        self._is_recalled = False

    def admit(
        self,
        snapshot: Snapshot,
        ready: Sequence[SizedJob],
        facts: TopologyFacts,
        reserved: Sequence[Reservation],
    ) -> tuple[list[SizedJob], list[tuple[SizedJob, Refused]]]:
        """Return the admitted jobs, in the order of fair share, and the refusals of the others.

        Quotas come first. The requests of admitted jobs name the pool of servers they may use.
        """
        ready, refused = within_quotas(snapshot, in_fair_order(ready, snapshot.topology), facts)
        if self._control is None:
            return ready, refused
        now_s = cluster_now()
        self._note_freed(self._control, snapshot, now_s)
        admitted, delayed = admitted_by(self._control, snapshot, ready, facts, now_s, reserved)
        return admitted, refused + delayed

    def end_turn(self, facts_of: Callable[[Snapshot], TopologyFacts]) -> None:
        """Forget jobs that no longer wait and store the state, if the last one is old."""
        now = time.monotonic()
        if self._control is None or now - self._stored_s < STORE_S:
            return
        self._stored_s, now_s = now, cluster_now()
        snapshot = self._cluster.follow().snapshot()
        self._note_freed(self._control, snapshot, now_s)
        _forget_others(self._control)
        own = self._control.state(snapshot, facts_of(snapshot), now_s)
        requested = requested_per_s(now_s) if self._control.control is Control.ARQ else None
        queues = [row.as_json() for row in with_rates_of_all_agents(own, requested)]
        values = {
            "control": self._control.control.value,
            "agent": self._agent,
            "now": now_s,
            "queues": json.dumps(queues),
            "memory": zlib.compress(json.dumps(self._control.memory()).encode(), level=1),
            "interval": STORE_S / 2.0,
        }
        with connection.cursor() as cursor:
            cursor.execute(_STORE, values)

    def _note_freed(self, control: Admission, snapshot: Snapshot, now_s: float) -> None:
        """Note the units that were freed in the changes read since the last call.

        At first, the control continues from the stored history, unless it has become too old:
        nothing is known of the time since.
        """
        if not self._is_recalled:
            _recall(control, snapshot, now_s - FORGET_S)
            self._is_recalled = True
        ids = np.array(self._cluster.take_released(), dtype=np.int64)
        known = snapshot.topology.unit_id
        if not ids.size or not known.size:
            return
        units = np.minimum(np.searchsorted(known, ids), known.size - 1)
        control.note_freed(snapshot, units[known[units] == ids], now_s)
