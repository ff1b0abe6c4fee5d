"""Repeat the batch of a stored decision on the cluster as it was. Writes nothing."""

import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.classification import selectors as classification
from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core import registry
from apps.scheduling.core.admission.placing import ADMISSION
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.records.batch_inputs import StoredBatch, UnreadableBatchError
from apps.scheduling.core.reservations.backfill import place_batch
from apps.scheduling.core.tarcil.job_sampling import (
    DEFAULT_GUARANTEE,
    FOLLOWING_LOAD,
    TopFreeShares,
    sampling_at,
)
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.scheduling.models import Decision, DecisionBatch
from apps.scheduling.selectors.past import PastCluster, PastFollower, UnknownPastError
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job

logger = logging.getLogger(__name__)

MAX_PROFILES: Final = 4096  # kept between batches
# Kept between batches, each with its rankings: 80 MB for 12,500 servers and 256 applications. The
# agents of one policy prefer different shares of the servers, and each needs a policy of its own.
MAX_POLICIES: Final = 16
_NOT_STORED: Final = "its request was not stored"
_BY_SIZING: Final = "it was decided by sizing, before any server was examined"
_NO_OPEN_SERVER: Final = "no open server could run the job, so no policy examined any"
_WITHOUT_SNAPSHOT: Final[dict[str, str]] = {
    Reason.INFEASIBLE_TARGET: _BY_SIZING,
    Reason.COST_EXCEEDED: _BY_SIZING,
    Reason.NO_MATCHING_SERVER: _NO_OPEN_SERVER,
    Reason.SERVERS_CLOSED: _NO_OPEN_SERVER,
    Reason.INVALID: "the job was invalid, so no policy examined any server",
    Reason.POLICY_FAILED: "its policy failed and gave no outcome",
}


class NotRepeatableError(Exception):
    """The inputs of a decision are not stored, or its policy fails; the message says which."""


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedBatch:
    """A batch with the cluster that it was decided on.

    The cluster is valid until the `BatchRepeater` repeats the next batch.

    Attributes
    ----------
    parameters : of the policy
    """

    row: DecisionBatch
    stored: StoredBatch
    past: PastCluster
    facts: TopologyFacts
    policy: Policy
    parameters: Mapping[str, float]
    requests: list[Request]
    outcomes: list[Placed | Refused]
    shares: TopFreeShares = field(default_factory=TopFreeShares)

    def request_for(self, policy: str, request: Request, job: Job) -> Request:
        """Return a request with the R that it would have had for a policy.

        A job keeps the R, or the guarantee, that it names. Otherwise R is that of the policy.
        """
        if policy == self.row.policy or job.sample_size is not None or job.guarantee is not None:
            return request
        size = None
        if policy in FOLLOWING_LOAD:
            x = DEFAULT_GUARANTEE.rank_threshold
            # as an agent, before the admission control chooses a pool
            everywhere = replace(request, pool=None)
            share = self.shares.of(everywhere, self.past.copy.snapshot(), self.facts, x)
            size = sampling_at(share, settings.MAX_SAMPLE).size
        return replace(request, sample_size=size)

    @property
    def topology(self) -> Topology:
        """Servers and units at that time."""
        return self.past.copy.topology


class BatchRepeater:
    """Repeats batches; cheap in the order of their change-log numbers, as the cluster is kept."""

    def __init__(self) -> None:
        self._cluster = PastFollower()
        self._facts: TopologyFacts | None = None
        self._profiles: dict[UUID, Profile] = {}
        self._policies: OrderedDict[tuple[Any, ...], Policy] = OrderedDict()

    def repeat(self, row: DecisionBatch) -> RepeatedBatch:
        """Rebuild the cluster at a batch, and decide the whole batch again.

        Raises
        ------
        NotRepeatableError : something that it followed from is not stored, or its policy fails.
        """
        try:
            return self._repeat(row)
        except PolicyFailedError as error:
            logger.exception("batch %s cannot be repeated", row.pk)
            raise NotRepeatableError(str(error)) from error

    def _repeat(self, row: DecisionBatch) -> RepeatedBatch:
        try:
            stored = StoredBatch.read(bytes(row.inputs))
            past = self._cluster.at(row)
            requests = stored.requests(self._known(stored.profiles), past.copy.topology)
            policy = self.policy(row.policy, stored.body["parameters"])
        except (
            UnreadableBatchError,
            UnknownPastError,
            registry.UnknownPolicyError,
            registry.PolicyParameterError,
        ) as error:
            raise NotRepeatableError(str(error)) from error
        facts = self._facts_of(past.copy.topology)
        outcomes = place_batch(
            policy,
            past.copy.snapshot(),
            requests,
            np.random.default_rng(stored.seed),
            facts=facts,
            bindings=stored.bindings,
        )
        parameters = stored.body["parameters"]
        return RepeatedBatch(row, stored, past, facts, policy, parameters, requests, outcomes)

    def policy(self, name: str, parameters: Mapping[str, float]) -> Policy:
        """Return a policy, which keeps what it derives from the topology.

        Raises
        ------
        UnknownPolicyError, PolicyParameterError, PolicyFailedError : as `registry.make`.
        """
        key = (name, *sorted(parameters.items()))
        if key not in self._policies:
            self._policies[key] = registry.make(name, parameters)
            if len(self._policies) > MAX_POLICIES:
                self._policies.popitem(last=False)
        self._policies.move_to_end(key)
        return self._policies[key]

    def _known(self, ids: Collection[UUID]) -> Mapping[UUID, Profile]:
        missing = set(ids) - self._profiles.keys()
        if len(self._profiles) + len(missing) > MAX_PROFILES:
            self._profiles.clear()
            missing = set(ids)
        if missing:
            self._profiles |= classification.profiles(missing)
        return self._profiles

    def _facts_of(self, topology: Topology) -> TopologyFacts:
        if self._facts is None or self._facts.topology is not topology:
            self._facts = TopologyFacts(topology)
        return self._facts


def stored_decision(decision_id: UUID) -> Decision:
    """Return a decision that is to be repeated.

    Raises
    ------
    NotRepeatableError : it was deleted meanwhile.
    """
    found = Decision.objects.filter(pk=decision_id).first()
    if found is None:
        raise NotRepeatableError("it is no longer stored")
    return found


def repeated_batch(decision: Decision) -> RepeatedBatch:
    """Rebuild the cluster at a decision, and decide its whole batch again.

    Raises
    ------
    NotRepeatableError : something that it followed from is not stored.
    """
    key = decision.batch_id
    row = None if key is None else DecisionBatch.objects.filter(pk=key).first()
    if row is None:
        raise NotRepeatableError(_why_without_batch(decision))
    return BatchRepeater().repeat(row)


def _why_without_batch(decision: Decision) -> str:
    if decision.batch_id is not None:
        return "its request is no longer stored (BERTH_REPLAY_DAYS)"
    if not decision.snapshot:
        return _WITHOUT_SNAPSHOT.get(decision.reason_code, _NOT_STORED)
    if decision.reason_code == Reason.QUOTA_EXCEEDED:
        return "it was decided by the quota of the project, before any server was examined"
    if ADMISSION in decision.dropped:
        return "it was decided by the admission control, before a policy examined any server"
    return _NOT_STORED
