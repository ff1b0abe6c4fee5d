"""The pending events of one reader of the event stream, bounded.

A reader that keeps up gets every event. A slow reader gets only the latest event of each subject.
An even slower one gets a gap with the position from which to list again.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from apps.operations.core.states import Topic

MAX_PENDING: Final = 1000


class Item(NamedTuple):
    """One event with its bytes, which all readers share.

    Attributes
    ----------
    project : id of the owning project, or None
    user : id of the user who started the operation of the event, or None
    """

    seq: int
    topic: str
    subject: str
    project: str | None
    message: bytes
    user: str | None = None


def is_visible(
    *, topic: str, project: object, user: object, reader: object, projects: Container[object]
) -> bool:
    """Return True if a reader who does not see everything may see an event.

    Events of an operation are visible to the user who started it and in its project. Other events
    without a project are visible to everyone.

    Parameters
    ----------
    project, user : ids of the event's project and of the user who started its operation, or None
    reader : id of the reader
    projects : ids of the reader's projects
    """
    if project in projects or (user is not None and user == reader):
        return True
    return project is None and topic != Topic.OPERATIONS


@dataclass(slots=True)
class Feed:
    """The pending events of one reader.

    Attributes
    ----------
    position : last number delivered; events at or below it are duplicates
    topics : requested topics; empty means all
    projects : ids of the projects that the reader may see; None means all events
    user : id of the reader
    """

    position: int
    topics: frozenset[str] = frozenset()
    projects: frozenset[str] | None = None
    user: str | None = None
    pending: list[Item] = field(default_factory=list)
    has_gap: bool = False
    _highest: int = 0

    def wants(self, item: Item) -> bool:
        """Return True if the reader requested the event and may see it."""
        if self.topics and item.topic not in self.topics:
            return False
        return self.projects is None or is_visible(
            topic=item.topic,
            project=item.project,
            user=item.user,
            reader=self.user,
            projects=self.projects,
        )

    def offer(self, items: Iterable[Item]) -> None:
        """Add new events, in order."""
        for item in items:
            self._highest = max(self._highest, item.seq)
            if self.wants(item):
                self.pending.append(item)
        if len(self.pending) > MAX_PENDING:
            self._shrink()

    def take(self) -> list[Item]:
        """Remove and return the pending events; numbers ascend from call to call."""
        # The backlog may overlap with events that arrived during its read.
        by_seq = {item.seq: item for item in self.pending if item.seq > self.position}
        fresh = [by_seq[seq] for seq in sorted(by_seq)]
        self.pending = []
        if fresh:
            self.position = fresh[-1].seq
        return fresh

    def take_gap(self) -> int | None:
        """Return the position to list again from, once, if events were dropped; else None."""
        if not self.has_gap:
            return None
        self.has_gap = False
        self.position = max(self.position, self._highest)
        return self.position

    def _shrink(self) -> None:
        latest = {(item.topic, item.subject): item for item in self.pending}
        kept = sorted(latest.values(), key=lambda item: item.seq)
        if len(kept) > MAX_PENDING:
            kept, self.has_gap = [], True
        self.pending = kept
