"""State of a running job outside the engine's arrays, and checks of orders and migrations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.emulation.core.events import EngineOrder
from apps.emulation.core.stragglers import busy_share
from apps.emulation.core.truth import split_share
from apps.inventory.core.snapshot import Ints


class EngineMigration(NamedTuple):
    """Units that migrate from one server to another until `until_s`."""

    server: int
    to: int
    units: int
    until_s: float


@dataclass(slots=True)
class RunningJob:
    """State of one running job.

    Attributes
    ----------
    parts : units by server; units of a migration count on their old server until it completes
    busy : share of the units that its tasks keep busy
    migration : its current migration
    """

    order: EngineOrder
    parts: dict[int, int]
    busy: float
    migration: EngineMigration | None = None

    def add(self, parts: Iterable[tuple[int, int]]) -> None:
        """Add units, and update the share of all units that its tasks keep busy."""
        for server, units in parts:
            self.parts[server] = self.parts.get(server, 0) + units
        order, units = self.order, sum(self.parts.values())
        if order.tasks is not None:
            spread = order.truth.task_spread
            self.busy = busy_share(order.tasks, units, spread, order.task_seed)


def layout_factor(run: RunningJob, rack: Ints) -> float:
    """Share of a job's speed that remains after waves, scale-out and rack distances.

    Parameters
    ----------
    rack : (S,) index of each server's rack
    """
    truth = run.order.truth
    factor = run.busy * truth.scale_out.efficiency(len(run.parts))
    if truth.rack_loss == 0.0:
        return factor
    by_rack = ((int(rack[server]), units) for server, units in run.parts.items())
    return factor * (1.0 - truth.rack_loss * split_share(by_rack))


def check_order(order: EngineOrder, free: Ints) -> None:
    """Check that an order can start.

    Parameters
    ----------
    free : (S,) free units

    Raises
    ------
    ValueError : names the violated condition.
    """
    servers = [server for server, _ in order.parts]
    if not servers or len(set(servers)) != len(servers):
        raise ValueError(f"parts of {order.key} must name at least one server, each once")
    for server, units in order.parts:
        if not 1 <= units <= free[server]:
            raise ValueError(f"server {server} has {free[server]} free units, not {units}")
    if not order.work_s > 0.0 or not 0.0 <= order.done_share <= 1.0:
        raise ValueError(f"work_s must be > 0 and done_share in [0, 1], got {order}")
    if order.tasks is not None and order.tasks < 1:
        raise ValueError(f"tasks must be at least 1, got {order.tasks}")


def check_growth(run: RunningJob, parts: Sequence[tuple[int, int]], free: Ints) -> None:
    """Check that units can be added to a job now.

    Parameters
    ----------
    free : (S,) free units

    Raises
    ------
    ValueError : names the violated condition.
    """
    if run.migration is not None:
        raise ValueError(f"job {run.order.key} is migrating to server {run.migration.to}")
    for server, units in parts:
        if not 1 <= units <= free[server]:
            raise ValueError(f"server {server} has {free[server]} free units, not {units}")


def check_migration(run: RunningJob, migration: EngineMigration, now: float, free: Ints) -> None:
    """Check that a migration can start now.

    Parameters
    ----------
    free : (S,) free units

    Raises
    ------
    ValueError : names the violated condition.
    """
    key, to = run.order.key, migration.to
    units = run.parts.get(migration.server, 0)
    if run.migration is not None:
        raise ValueError(f"job {key} is migrating already, to server {run.migration.to}")
    if not 1 <= migration.units <= units:
        raise ValueError(
            f"job {key} has {units} units on server {migration.server}, not {migration.units}"
        )
    if not 0 <= to < free.size or to == migration.server:
        raise ValueError(f"job {key} cannot migrate from server {migration.server} to {to}")
    if migration.units > free[to]:
        raise ValueError(f"server {to} has {free[to]} free units, not {migration.units}")
    if not now <= migration.until_s < np.inf:
        raise ValueError(f"stall_s must be finite and at least 0, got {migration.until_s - now}")
