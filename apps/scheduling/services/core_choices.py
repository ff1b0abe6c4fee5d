"""Choice of cores on servers with several L3 groups, for commits and migrations.

A policy chooses a server and a number of units. On a server whose agent has reported several L3
groups, the units are then exchanged for others of the same server, by the rule of `core.chips`.
All functions run in the caller's transaction, which has locked the units of these servers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apps.common.infrastructure.database import fetch_rows
from apps.scheduling.core.cluster.chips import (
    Chip,
    Container,
    CoreChoice,
    assign_cores,
    container_of,
)

UnitChips = Mapping[int, int]  # unit id -> L3 group


class Wanted(NamedTuple):
    """Cores that a job is to have on a server.

    Attributes
    ----------
    caused, tolerated : (N,) scores of its units; empty = unknown
    """

    size: int
    caused: Sequence[float]
    tolerated: Sequence[float]


class _Resident(NamedTuple):
    """An allocation on a server, and its units there."""

    units: list[int]
    caused: list[float]
    tolerated: list[float]


def choose_cores(
    chips: UnitChips,
    owners: Mapping[int, int | None],
    wanted: Sequence[Wanted],
    *,
    barred: Iterable[int] = (),
) -> list[CoreChoice]:
    """Choose cores of one server for new allocations, as many of the first as there is room for.

    Parameters
    ----------
    owners : of all units of the server; None = free
    barred : unit ids that are free, and reserved for other jobs
    """
    kept = set(barred)
    free = {unit for unit in chips if owners[unit] is None and unit not in kept}
    before = _chips(chips, free, _residents(chips, owners))
    cores = max(chip.cores for chip in before)
    containers, left = list[Container](), len(free)
    for each in wanted:
        left -= each.size
        if left < 0:
            break
        containers.append(container_of(each.size, cores, each.caused, each.tolerated))
    return assign_cores(containers, before)


def _residents(chips: UnitChips, owners: Mapping[int, int | None]) -> list[_Resident]:
    held: dict[int, list[int]] = defaultdict(list)
    for unit in chips:
        owner = owners[unit]
        if owner is not None:
            held[owner].append(unit)
    rows = fetch_rows(
        "SELECT id, caused, tolerated FROM scheduling_allocation WHERE id = ANY(%s)",
        [sorted(held)],
    )
    return [_Resident(held[key], caused, tolerated) for key, caused, tolerated in rows]


def _chips(chips: UnitChips, free: set[int], residents: Iterable[_Resident]) -> list[Chip]:
    """Return the chips of a server with the containers that run there."""
    groups: dict[int, list[int]] = defaultdict(list)
    for unit, group in chips.items():
        groups[group].append(unit)
    by_group = [frozenset(units) for _, units in sorted(groups.items())]
    found = [Chip(len(units), tuple(sorted(free & units))) for units in by_group]
    cores = max(chip.cores for chip in found)
    for resident in residents:
        container = container_of(len(resident.units), cores, resident.caused, resident.tolerated)
        for group, units in enumerate(by_group):
            here = [unit for unit in resident.units if unit in units]
            found[group] = found[group].after(container, here)
    return found
