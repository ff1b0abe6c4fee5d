"""The cluster as an agent saw it, rebuilt from a checkpoint and the change log."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.inventory import selectors as inventory
from apps.inventory.core.backends import EMULATED
from apps.inventory.models import Change, Server
from apps.inventory.models import ChangeKind as LoggedKind
from apps.operations.models import Retention
from apps.scheduling.core.cluster.checkpoints import unpacked
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.models import ClusterCheckpoint, DecisionBatch
from apps.scheduling.selectors import PAGE, change_of

NO_STATE: Final = "no state of the cluster is stored from before this decision"
FAR: Final = 20_000  # entries of the log: a checkpoint is closer


class UnknownPastError(Exception):
    """The state of the cluster at that moment is no longer stored; the message says why."""


class PastCluster(NamedTuple):
    """A copy of the cluster at an earlier number of the change log.

    Attributes
    ----------
    checkpoint : change-log number from which it was rebuilt; 0 = from an idle cluster
    changes : number of entries of the log that were applied to it
    """

    copy: ClusterCopy
    checkpoint: int
    changes: int


def cluster_of(batch: DecisionBatch, *, is_compiled: bool = False) -> PastCluster:
    """Return the cluster that a batch was decided on.

    Costs a read of the servers, of one checkpoint and of the log since: some 20 µs for each entry.

    Raises
    ------
    UnknownPastError : there is no checkpoint, or servers were removed or changed.
    """
    start = ClusterCheckpoint.objects.filter(sequence__lte=batch.sequence).order_by("-sequence")
    checkpoint = start.first()
    if checkpoint is None and not _is_log_complete():
        raise UnknownPastError(NO_STATE)
    copy = _idle(batch, 0 if checkpoint is None else checkpoint.sequence, is_compiled=is_compiled)
    if checkpoint is not None:
        copy.restore(*unpacked(bytes(checkpoint.state)))
    begun = copy.sequence
    return PastCluster(copy, begun, _advance(copy, batch.sequence))


def _is_log_complete() -> bool:
    """Return True if no entry of the change log was ever deleted."""
    return not Retention.objects.filter(name="changes", deleted__gt=0).exists()


def _idle(batch: DecisionBatch, sequence: int, *, is_compiled: bool) -> ClusterCopy:
    """Return an idle copy with the servers that there were."""
    try:
        topology = inventory.topology().first(batch.servers, batch.platforms)
    except ValueError as error:
        raise UnknownPastError("servers were removed since this decision") from error
    # after the read of the servers: a change that is missed here is not in them either
    if _have_changed(topology.server_id.tolist(), batch.sequence):
        raise UnknownPastError("servers were changed since this decision")
    rows = Server.objects.order_by("id").values_list("oversubscription", flat=True)
    allowed = np.array(rows[: batch.servers], dtype=np.float64)
    return ClusterCopy(
        topology, oversubscription=allowed, sequence=sequence, is_compiled=is_compiled
    )


def _have_changed(server_ids: Sequence[int], sequence: int) -> bool:
    """Return True if a machine has got another platform, memory or labels since.

    Other entries about the servers themselves are those of a new server, or of the switches above
    racks, which name no server. Emulated servers do not change.
    """
    last = max(server_ids, default=0)
    entries = Change.objects.filter(kind=LoggedKind.TOPOLOGY, seq__gt=sequence)
    changed = entries.filter(server_id__lte=last).values("server_id")
    return Server.objects.filter(pk__in=changed).exclude(backend=EMULATED).exists()


def _advance(copy: ClusterCopy, until: int) -> int:
    """Apply the log up to a number; returns how many entries that was.

    Raises
    ------
    UnknownPastError : some of them were deleted.
    """
    changes = 0
    while entries := inventory.changes_since(copy.sequence, limit=PAGE, until=until):
        if any(e.kind == LoggedKind.PRUNED for e in entries):
            raise UnknownPastError(NO_STATE)
        copy.apply(change_of(e) for e in entries if e.kind != LoggedKind.TOPOLOGY)
        copy.sequence = entries[-1].seq
        changes += len(entries)
    copy.sequence = until
    return changes


class PastFollower:
    """The cluster at one batch after another; cheap while their change-log numbers increase."""

    def __init__(self) -> None:
        self._past: PastCluster | None = None
        self._size = (0, 0)

    def at(self, batch: DecisionBatch) -> PastCluster:
        """Return the cluster that a batch was decided on; compiled. Changes the one before.

        Raises
        ------
        UnknownPastError : there is no checkpoint, or servers were removed or changed.
        """
        past, self._past = self._past, None  # a copy that an error left half-way is not used
        if past is not None and self._leads_to(past.copy, batch):
            changes = past.changes + _advance(past.copy, batch.sequence)
            past = past._replace(changes=changes)
        else:
            past = cluster_of(batch, is_compiled=True)
        self._past, self._size = past, (batch.servers, batch.platforms)
        return past

    def _leads_to(self, copy: ClusterCopy, batch: DecisionBatch) -> bool:
        if self._size != (batch.servers, batch.platforms):
            return False
        if not 0 <= batch.sequence - copy.sequence <= FAR:
            return False
        between = Change.objects.filter(seq__gt=copy.sequence, seq__lte=batch.sequence)
        return not between.filter(kind=LoggedKind.TOPOLOGY).exists()
