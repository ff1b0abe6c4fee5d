"""Batches of decisions, stored with the first of their decisions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from apps.common.core.ids import uuid7
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.records.batch_inputs import BatchInputs
from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.services.proposals import SizedJob

_INSERT = """
INSERT INTO scheduling_decisionbatch
    (id, at, sequence, servers, platforms, jobs, policy, code_version, inputs)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING
"""


@dataclass(frozen=True, slots=True, eq=False)
class DecidedBatch:
    """A batch that a policy has decided; stored when one of its decisions is."""

    inputs: BatchInputs
    id: UUID = field(default_factory=uuid7)


class BatchPlace(NamedTuple):
    """The batch of a decision, and its position there, from 0."""

    batch: DecidedBatch
    position: int


def decided_batch(
    policy: str,
    snapshot: Snapshot,
    ready: Sequence[SizedJob],
    *,
    parameters: Mapping[str, float],
    seed: int,
    bindings: Sequence[Binding],
) -> DecidedBatch:
    """Return the batch of jobs that a policy with these parameters decides on a snapshot."""
    return DecidedBatch(
        BatchInputs(
            sequence=snapshot.sequence,
            servers=snapshot.topology.server_id.size,
            platforms=len(snapshot.topology.platform_name),
            seed=seed,
            policy=policy,
            parameters=parameters,
            requests=[sized_job.request for sized_job in ready],
            profiles=[sized_job.profile_id for sized_job in ready],
            bindings=bindings,
        )
    )


def insert_batches(
    places: Iterable[BatchPlace | None], *, at: datetime, code_version: str
) -> None:
    """Store the batches of decisions, in the transaction of these; again is harmless."""
    batches: Mapping[UUID, DecidedBatch] = {p.batch.id: p.batch for p in places if p is not None}
    if not batches:
        return
    with connection.cursor() as cursor:
        for key in sorted(batches):
            inputs = batches[key].inputs
            counts = (inputs.servers, inputs.platforms, len(inputs.requests))
            cursor.execute(
                _INSERT,
                [key, at, inputs.sequence, *counts, inputs.policy, code_version, inputs.packed()],
            )
