"""Turns of the shadows: read new decisions, repeat their batches, decide by the shadow's policy.

A turn runs in a worker, after the commits, and locks no row that agents need. It reads what
replays read: the requests of batches, checkpoints and the change log. All counters and results of
a page are stored in one transaction that also moves the cursor, if the cursor is still where the
page began; so a message that is delivered twice, or a worker that dies, counts nothing twice.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from apps.common.infrastructure.database import database_now
from apps.scheduling.core import registry
from apps.scheduling.core.cluster.chips import named_units
from apps.scheduling.core.policy_errors import PolicyFailedError, failures_of
from apps.scheduling.core.records.redecide import Moment, moment_of
from apps.scheduling.core.records.shadow import Choice, Comparison, comparison, is_sampled, kind_of
from apps.scheduling.core.types import Placed, Refused, Request
from apps.scheduling.models import (
    Allocation,
    Decision,
    DecisionBatch,
    Outcome,
    Shadow,
    ShadowDecision,
    ShadowEnd,
)
from apps.scheduling.selectors.shadows import (
    MAX_COMPARED,
    SETTLED,
    decisions_after,
    running_shadows,
    shadow_decisions,
)
from apps.scheduling.services.repeats import BatchRepeater, NotRepeatableError, RepeatedBatch
from apps.scheduling.services.shadows import end_shadow

logger = logging.getLogger(__name__)

PAGE: Final = 200  # decisions that are read together
MAX_AGE: Final = timedelta(minutes=1)  # of a sampled decision; an older one is dropped
SEVERAL: Final = "several"  # platforms


@dataclass(slots=True)
class _Found:
    """What one page adds to the counters and results of a shadow."""

    decided: int = 0
    neither: int = 0
    dropped: int = 0
    unavailable: int = 0
    rows: list[ShadowDecision] = field(default_factory=list)


class ShadowWorker:
    """Lets the policies of all shadows decide; one per process.

    Its copies of the cluster are its only state.

    Parameters
    ----------
    clock : CPU seconds
    settled : decisions younger than this are left for the next turn
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.thread_time, settled: timedelta = SETTLED
    ) -> None:
        self._clock, self._settled = clock, settled
        self._repeaters: dict[UUID, BatchRepeater] = {}

    def turn(self, *, budget_s: float) -> int:
        """Decide on what is new for up to ``budget_s`` CPU seconds; returns how many decisions."""
        running, now = running_shadows(), database_now()
        self._repeaters = {s.pk: self._repeaters.get(s.pk, BatchRepeater()) for s in running}
        return sum(self._follow_or_end(s, now, budget_s / len(running)) for s in running)

    def _follow_or_end(self, shadow: Shadow, now: datetime, budget_s: float) -> int:
        """Decide on what is new, or end the shadow if its policy cannot decide."""
        try:
            return self._follow(shadow, now, budget_s)
        except PolicyFailedError as error:
            logger.exception("shadow %s ends", shadow.pk)
            end_shadow(shadow, ShadowEnd.FAILED, error=error.detail)
            return 0

    def _follow(self, shadow: Shadow, now: datetime, budget_s: float) -> int:
        end_s, decided = self._clock() + budget_s, 0
        repeater = self._repeaters[shadow.pk]
        try:
            repeater.policy(shadow.policy, shadow.parameters)
        except (registry.UnknownPolicyError, registry.PolicyParameterError):
            end_shadow(shadow, ShadowEnd.POLICY)
            return 0
        limit = now - self._settled
        until = limit if shadow.until is None else min(limit, shadow.until)
        while self._clock() < end_s:
            page = decisions_after(shadow, until, limit=PAGE)
            if not page:
                if shadow.until is not None and limit >= shadow.until:
                    end_shadow(shadow, ShadowEnd.TIME)
                break
            begun_s = self._clock()
            found = self._decide(shadow, page, now, end_s)
            if not _store(shadow, page, found, self._clock() - begun_s):
                break  # another worker was faster, or it was stopped
            decided += found.decided
            if shadow_decisions(shadow).count() >= MAX_COMPARED:
                end_shadow(shadow, ShadowEnd.FULL)
                break
        return decided

    def _decide(
        self, shadow: Shadow, page: Sequence[Decision], now: datetime, end_s: float
    ) -> _Found:
        sampled = [row for row in page if is_sampled(row.pk, shadow.share)]
        by_batch: dict[UUID, list[Decision]] = defaultdict(list)
        for row in sampled:
            if row.batch_id is not None and now - row.at <= MAX_AGE:
                by_batch[row.batch_id].append(row)
        found = _Found(dropped=len(sampled) - sum(map(len, by_batch.values())))
        batches = DecisionBatch.objects.in_bulk(by_batch)
        for missing in by_batch.keys() - batches.keys():
            found.unavailable += len(by_batch[missing])
        for batch in sorted(batches.values(), key=lambda row: (row.sequence, row.pk)):
            if self._clock() >= end_s:
                found.dropped += len(by_batch[batch.pk])
                continue
            self._decide_batch(shadow, batch, by_batch[batch.pk], found)
        return found

    def _decide_batch(
        self,
        shadow: Shadow,
        row: DecisionBatch,
        decisions: Sequence[Decision],
        found: _Found,
    ) -> None:
        repeater = self._repeaters[shadow.pk]
        try:
            batch = repeater.repeat(row)
        except NotRepeatableError:
            found.unavailable += len(decisions)
            return
        # with the number of agents of the live decision: the shadow decides in its place
        agent_parameters = registry.agent_parameters(shadow.policy, batch.parameters)
        policy = repeater.policy(shadow.policy, {**shadow.parameters, **agent_parameters})
        allocated = _allocated(decisions)
        for decision in decisions:
            position = decision.position or 0
            outcome = batch.outcomes[position]
            if not _is_repeated(decision, outcome, batch, allocated.get(decision.pk, frozenset())):
                found.unavailable += 1
                continue
            request = batch.requests[position]
            moment = _moment(batch, position)
            live = _choice(moment, request, outcome)
            asked = batch.request_for(shadow.policy, request, decision.job)
            with failures_of(shadow.policy):  # it may name units that do not exist
                outcome = moment.decide(policy, asked, seed=decision.seed)
                other = _choice(moment, request, outcome)
            compared = comparison(live, other)
            found.decided += 1
            if compared is None:
                found.neither += 1
                continue
            found.rows.append(_row(shadow, decision, row.pk, request, (live, other), compared))


def _moment(batch: RepeatedBatch, position: int) -> Moment:
    return moment_of(
        batch.past.copy.snapshot(),
        batch.requests,
        batch.outcomes,
        position,
        facts=batch.facts,
        bindings=batch.stored.bindings,
    )


def _allocated(decisions: Sequence[Decision]) -> Mapping[UUID, frozenset[int]]:
    """Return the ids of the units that the policy chose and the commits allocated, by decision.

    The cores of a command may be others (`core_choices`).
    """
    keys = [decision.pk for decision in decisions]
    rows = Allocation.objects.filter(decision_id__in=keys, moved_from__isnull=True)
    found: dict[UUID, set[int]] = defaultdict(set)
    for key, units, choice in rows.values_list("decision_id", "unit_ids", "core_choice"):
        found[key].update(named_units(units, choice))
    return {key: frozenset(units) for key, units in found.items()}


def _is_repeated(
    decision: Decision, outcome: Placed | Refused, batch: RepeatedBatch, allocated: frozenset[int]
) -> bool:
    """Whether the repeated outcome is that of the decision; a commit may have lost some units."""
    if outcome.seed != decision.seed:
        return False
    if isinstance(outcome, Refused):
        return decision.outcome == Outcome.REFUSED
    chosen = batch.topology.unit_id[outcome.units].tolist()
    return decision.outcome != Outcome.REFUSED and allocated <= frozenset(chosen)


def _choice(moment: Moment, request: Request, outcome: Placed | Refused) -> Choice:
    if isinstance(outcome, Refused):
        return Choice(reason=outcome.reason.value)
    topology = moment.snapshot.topology
    servers = set(topology.unit_server[outcome.units].tolist())
    prediction = moment.prediction(request, outcome.units)
    return Choice(
        units=frozenset(topology.unit_id[outcome.units].tolist()),
        servers=frozenset(topology.server_name[server] for server in servers),
        platforms=frozenset(
            topology.platform_name[topology.server_platform[server]] for server in servers
        ),
        performance=prediction.performance,
        neighbours=prediction.neighbours,
    )


def _row(
    shadow: Shadow,
    decision: Decision,
    batch_id: UUID,
    request: Request,
    choices: tuple[Choice, Choice],
    compared: Comparison,
) -> ShadowDecision:
    live, other = choices
    platforms = sorted(live.platforms)
    return ShadowDecision(
        shadow=shadow,
        decision_id=decision.pk,
        batch_id=batch_id,
        at=decision.at,
        policy=decision.policy,
        kind=kind_of(request),
        platform=platforms[0] if len(platforms) == 1 else SEVERAL if platforms else "",
        live_placed=live.is_placed,
        shadow_placed=other.is_placed,
        same_units=compared.same_units,
        same_servers=compared.same_servers,
        same_platforms=compared.same_platforms,
        job_regret=compared.job,
        neighbour_regret=compared.neighbours,
        difference=compared.difference,
        live=live.as_json(),
        shadowed=other.as_json(),
    )


def _store(shadow: Shadow, page: Sequence[Decision], found: _Found, busy_s: float) -> bool:
    """Store a page and move the cursor; False if that was done or the shadow ended meanwhile."""
    last = page[-1]
    rows = Shadow.objects.filter(
        pk=shadow.pk, ended_at=None, cursor_at=shadow.cursor_at, cursor_id=shadow.cursor_id
    )
    with transaction.atomic():
        is_first = rows.update(
            cursor_at=last.at,
            cursor_id=last.pk,
            seen=F("seen") + len(page),
            decided=F("decided") + found.decided,
            neither=F("neither") + found.neither,
            dropped=F("dropped") + found.dropped,
            unavailable=F("unavailable") + found.unavailable,
            busy_s=F("busy_s") + busy_s,
        )
        if is_first:
            ShadowDecision.objects.bulk_create(found.rows)
    shadow.cursor_at, shadow.cursor_id = last.at, last.pk
    return bool(is_first)
