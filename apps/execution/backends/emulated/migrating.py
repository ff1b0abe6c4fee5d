"""The emulator's migrations: begun where there is room, told when the units have arrived."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from apps.emulation.core.engine import Engine
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.port import LaunchOrder, MoveOrder, MoveReport, Site
from apps.execution.core.migration import LEAST_S, MoveOutcome, move_s, moved_parts

STALL_NOISE: Final = 0.15  # of the logarithm of how long units stand still


@dataclass(frozen=True, slots=True)
class _UnderWay:
    order: MoveOrder
    until_s: float


class Migrating:
    """Migrations between two ticks.

    Parameters
    ----------
    reports : where to tell what becomes of them; not yet delivered
    patience_s : wall seconds a migration may wait for units that another job still holds
    """

    def __init__(
        self, engine: Engine, site: Site, reports: list[MoveReport], *, patience_s: float
    ) -> None:
        self._engine, self._site = engine, site
        self._reports, self._patience_s = reports, patience_s
        self._under_way: dict[int, _UnderWay] = {}
        self._waits_until_s: dict[int, float] = {}

    @property
    def known(self) -> list[int]:
        """Migrations that were begun, and whose end the control plane has not taken in."""
        begun = [one.order.migration for one in self._under_way.values()]
        return sorted({*begun, *(report.migration for report in self._reports)})

    def begin(
        self, orders: Sequence[MoveOrder], truth_of: Callable[[int], Truth | None], wall_s: float
    ) -> None:
        """Begin migrations; those without room are handed out again, and wait for a while.

        Units are given on as soon as the control plane has released them, which it may have done
        before we have heard of the cancellation.

        Parameters
        ----------
        truth_of : of a launch; None where it does not run here
        """
        until_s = {x.migration: wall_s + self._patience_s for x in orders}
        self._waits_until_s = {
            key: self._waits_until_s.get(key, until) for key, until in until_s.items()
        }
        for order in orders:
            truth = truth_of(order.launch)
            try:
                if truth is not None and self._has_room(order):
                    self._set_off(order, self._stall_s(order, truth))
                    self._tell(order, MoveOutcome.STARTED)
                elif wall_s >= self._waits_until_s[order.migration]:
                    self._tell(
                        order, MoveOutcome.FAILED, "the job or its new units were not there"
                    )
            except ValueError as error:
                self._tell(order, MoveOutcome.FAILED, str(error))

    def arrived(self, launch: LaunchOrder, at_s: float) -> LaunchOrder:
        """Tell that the units of a launch have arrived; the launch as it runs now."""
        order = self._under_way.pop(launch.launch).order
        self._reports.append(MoveReport(order.migration, at_s, MoveOutcome.DONE))
        parts = moved_parts(
            launch.parts,
            units=order.units,
            from_server=order.from_server,
            to_server=order.to_server,
        )
        return replace(launch, parts=parts)

    def forget(self, launch: int) -> None:
        """Drop the migration of a launch that runs no more; the control plane has ended it."""
        self._under_way.pop(launch, None)

    def settle_on(self, engine: Engine, site: Site) -> None:
        """Go on with what is under way on other servers, where the jobs have begun anew."""
        self._engine, self._site = engine, site
        under_way, self._under_way = self._under_way, {}
        for one in under_way.values():
            try:
                self._set_off(one.order, max(0.0, one.until_s - engine.now))
            except ValueError as error:
                self._tell(one.order, MoveOutcome.FAILED, str(error))

    def _has_room(self, order: MoveOrder) -> bool:
        to = self._position(order.to_server)
        free = self._engine.machines.units[to] - self._engine.used_units[to]
        return bool(free >= order.units)

    def _set_off(self, order: MoveOrder, stall_s: float) -> None:
        if order.launch not in self._engine:
            raise ValueError(f"launch {order.launch} does not run here")
        source, to = self._position(order.from_server), self._position(order.to_server)
        now = self._engine.now
        self._engine.move(order.launch, source, to, order.units, now, stall_s)
        self._under_way[order.launch] = _UnderWay(order, now + stall_s)

    def _stall_s(self, order: MoveOrder, truth: Truth) -> float:
        """Draw how long it really takes: by the memory that is really in use."""
        network = self._site.machines.network_bps
        expected_s = move_s(
            truth.demand.memory_bytes * order.units,
            float(network[self._position(order.from_server)]),
            float(network[self._position(order.to_server)]),
        )
        rng = generator(self._site.seed, "migration", str(order.migration))
        return max(LEAST_S, expected_s * rng.lognormal(0.0, STALL_NOISE))

    def _position(self, server: int) -> int:
        position = int(self._site.server_id.searchsorted(server))
        known = self._site.server_id[position : position + 1]
        if known.size == 0 or known[0] != server:
            raise ValueError(f"server {server} is not emulated")
        return position

    def _tell(self, order: MoveOrder, outcome: MoveOutcome, message: str = "") -> None:
        self._reports.append(MoveReport(order.migration, self._engine.now, outcome, message))
