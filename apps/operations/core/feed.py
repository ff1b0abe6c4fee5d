"""What one reader of the event stream still has to get; bounded, whatever the reader does.

A reader that keeps up gets every event. One that falls behind gets the latest event per subject;
one that falls further behind gets a gap, with the position from which to list again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAX_PENDING: Final = 1000


class Item(NamedTuple):
    """One event on its way to readers, its bytes made once for all of them."""

    seq: int
    topic: str
    subject: str
    project: str | None
    message: bytes


@dataclass(slots=True)
class Feed:
    """The pending events of one reader.

    Attributes
    ----------
    position : last number handed out; what comes again at or below it is dropped
    topics : topics asked for; empty = all
    projects : ids of the projects the reader may see; None = all
    """

    position: int
    topics: frozenset[str] = frozenset()
    projects: frozenset[str] | None = None
    pending: list[Item] = field(default_factory=list)
    has_gap: bool = False
    _seen: int = 0

    def wants(self, item: Item) -> bool:
        """Return True where the event is the reader's business."""
        if self.topics and item.topic not in self.topics:
            return False
        return item.project is None or self.projects is None or item.project in self.projects

    def offer(self, items: Iterable[Item]) -> None:
        """Add new events, in order."""
        for item in items:
            self._seen = max(self._seen, item.seq)
            if self.wants(item):
                self.pending.append(item)
        if len(self.pending) > MAX_PENDING:
            self._shrink()

    def take(self) -> list[Item]:
        """Return what is pending and forget it; numbers only rise from call to call."""
        # What was read to catch up may overlap with what came in meanwhile.
        by_seq = {item.seq: item for item in self.pending if item.seq > self.position}
        fresh = [by_seq[seq] for seq in sorted(by_seq)]
        self.pending = []
        if fresh:
            self.position = fresh[-1].seq
        return fresh

    def take_gap(self) -> int | None:
        """Return the position to list again from if events were dropped, once; else None."""
        if not self.has_gap:
            return None
        self.has_gap = False
        self.position = max(self.position, self._seen)
        return self.position

    def _shrink(self) -> None:
        latest = {(item.topic, item.subject): item for item in self.pending}
        kept = sorted(latest.values(), key=lambda item: item.seq)
        if len(kept) > MAX_PENDING:
            kept, self.has_gap = [], True
        self.pending = kept
