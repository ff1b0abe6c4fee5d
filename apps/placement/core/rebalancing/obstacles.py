"""Why further migrations do not pay: the reasons that a search found, counted."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Obstacle(StrEnum):
    """Reason why a candidate does not become a bundle."""

    NO_ROOM = "no_room"  # no suitable server has room for one of its containers
    SLOWER = "slower"  # a job would become too slow
    COST = "cost"  # its gain does not exceed the cost of its migrations
    PINNED = "pinned"  # one of its containers must stay where it is
    MOVED = "moved"  # an earlier bundle has migrated one of its containers
    LIMIT = "limit"  # too many migrations


_CLAUSES: Final[Mapping[Obstacle, tuple[str, str]]] = {
    Obstacle.NO_ROOM: ("finds no suitable server with room", "find no suitable server with room"),
    Obstacle.SLOWER: ("would slow down a job too much", "would slow down a job too much"),
    Obstacle.COST: ("gains less than it costs", "gain less than they cost"),
    Obstacle.PINNED: (
        "needs a container that cannot be migrated now",
        "need a container that cannot be migrated now",
    ),
    Obstacle.MOVED: (
        "would migrate a container a second time",
        "would migrate a container a second time",
    ),
    Obstacle.LIMIT: ("exceeds the number of migrations", "exceed the number of migrations"),
}


def obstacle_sentence(counts: Mapping[Obstacle, int], *, is_complete: bool) -> str:
    """Explain in one or two sentences why the search stopped here, most frequent reason first.

    Parameters
    ----------
    counts : candidates that were refused at the end of the search, by reason
    is_complete : the search evaluated every candidate
    """
    total = sum(counts.values())
    ended = "" if is_complete else "The search reached its limit before it tried every bundle. "
    if not total:
        return ended.strip() or "No further bundle of migrations is possible."
    order = sorted((o for o in counts if counts[o]), key=lambda o: -counts[o])
    if len(order) == 1:
        subject = (
            "The one further bundle tried"
            if total == 1
            else f"All {total:,} further bundles tried"
        )
        return f"{ended}{subject} {_CLAUSES[order[0]][total > 1]}."
    clauses = [f"{counts[o]:,} {_CLAUSES[o][counts[o] > 1]}" for o in order]
    listed = f"{', '.join(clauses[:-1])} and {clauses[-1]}"
    return f"{ended}Of {total:,} further bundles tried, {listed}."
