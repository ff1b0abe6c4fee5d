"""The emulator's migrations: started if units are free, reported when completed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from apps.emulation.core.engine import Engine
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.port import LaunchOrder, Site
from apps.execution.core.migration import (
    MIN_S,
    MigrationOrder,
    MigrationOutcome,
    MigrationReport,
    migration_s,
    parts_after_migration,
)

STALL_NOISE: Final = 0.15  # sigma of the log-normal pause of migrating units


@dataclass(frozen=True, slots=True)
class _RunningMigration:
    order: MigrationOrder
    until_s: float


class Migrations:
    """The emulator's migrations between two ticks.

    Parameters
    ----------
    reports : list to which reports are added
    patience_s : max wall seconds that a migration waits for units that another job still uses
    """

    def __init__(
        self, engine: Engine, site: Site, reports: list[MigrationReport], *, patience_s: float
    ) -> None:
        self._engine, self._site = engine, site
        self._reports, self._patience_s = reports, patience_s
        self._running: dict[int, _RunningMigration] = {}
        self._waits_until_s: dict[int, float] = {}

    @property
    def known(self) -> list[int]:
        """Ids of started migrations whose end the control plane has not confirmed."""
        running = [x.order.migration for x in self._running.values()]
        return sorted({*running, *(report.migration for report in self._reports)})

    def begin(
        self,
        orders: Sequence[MigrationOrder],
        truth_of: Callable[[int], Truth | None],
        wall_s: float,
    ) -> None:
        """Start migrations; those without free units are claimed again for `patience_s`.

        The control plane may assign released units before this process has read that their job
        was cancelled.

        Parameters
        ----------
        truth_of : truth of a launch; None if it does not run here
        """
        until_s = {x.migration: wall_s + self._patience_s for x in orders}
        self._waits_until_s = {
            key: self._waits_until_s.get(key, until) for key, until in until_s.items()
        }
        for order in orders:
            truth = truth_of(order.launch)
            try:
                if truth is not None and self._has_room(order):
                    self._start(order, self._stall_s(order, truth))
                    self._report(order, MigrationOutcome.STARTED)
                elif wall_s >= self._waits_until_s[order.migration]:
                    self._report(
                        order,
                        MigrationOutcome.FAILED,
                        "the job was not running, or its new units were not free",
                    )
            except ValueError as error:
                self._report(order, MigrationOutcome.FAILED, str(error))

    def complete(self, launch: LaunchOrder, at_s: float) -> LaunchOrder:
        """Report a completed migration; returns the launch with its new parts."""
        order = self._running.pop(launch.launch).order
        self._reports.append(MigrationReport(order.migration, at_s, MigrationOutcome.DONE))
        parts = parts_after_migration(
            launch.parts,
            units=order.units,
            from_server=order.from_server,
            to_server=order.to_server,
        )
        return replace(launch, parts=parts)

    def forget(self, launch: int) -> None:
        """Drop the migration of an ended launch; the control plane has ended it."""
        self._running.pop(launch, None)

    def move_to(self, engine: Engine, site: Site) -> None:
        """Continue the running migrations on a new engine, which has restarted the jobs."""
        self._engine, self._site = engine, site
        running, self._running = self._running, {}
        for migration in running.values():
            try:
                self._start(migration.order, max(0.0, migration.until_s - engine.now))
            except ValueError as error:
                self._report(migration.order, MigrationOutcome.FAILED, str(error))

    def _has_room(self, order: MigrationOrder) -> bool:
        to = self._position(order.to_server)
        free = self._engine.machines.units[to] - self._engine.used_units[to]
        return bool(free >= order.units)

    def _start(self, order: MigrationOrder, stall_s: float) -> None:
        if order.launch not in self._engine:
            raise ValueError(f"launch {order.launch} does not run here")
        source, to = self._position(order.from_server), self._position(order.to_server)
        now = self._engine.now
        self._engine.migrate(order.launch, source, to, order.units, now, stall_s)
        self._running[order.launch] = _RunningMigration(order, now + stall_s)

    def _stall_s(self, order: MigrationOrder, truth: Truth) -> float:
        """Draw the true duration, from the true memory usage."""
        network = self._site.machines.network_bps
        expected_s = migration_s(
            truth.demand.memory_bytes * order.units,
            float(network[self._position(order.from_server)]),
            float(network[self._position(order.to_server)]),
        )
        rng = generator(self._site.seed, "migration", str(order.migration))
        return max(MIN_S, expected_s * rng.lognormal(0.0, STALL_NOISE))

    def _position(self, server: int) -> int:
        position = int(self._site.server_id.searchsorted(server))
        known = self._site.server_id[position : position + 1]
        if known.size == 0 or known[0] != server:
            raise ValueError(f"server {server} is not emulated")
        return position

    def _report(self, order: MigrationOrder, outcome: MigrationOutcome, message: str = "") -> None:
        self._reports.append(MigrationReport(order.migration, self._engine.now, outcome, message))
