"""Jobs that wait in the queue of a class, and what the units that they wait for must have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from apps.scheduling.core.admission.types import Applicant
from apps.scheduling.core.types import Within


class Needs(NamedTuple):
    """What the units of a waiting job must have, and its priority.

    ``together`` : units that must be on one server
    """

    priority: int
    platforms: frozenset[str] | None
    labels: frozenset[str]
    excluded: frozenset[int]
    unit: tuple[float, ...]
    together: int

    @classmethod
    def of(cls, each: Applicant) -> "Needs":
        """Return the needs of a job."""
        request = each.request
        unit = request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes
        together = request.units if request.locality is Within.SERVER else 1
        sets = request.platforms, request.labels, request.excluded
        return cls(each.priority, *sets, unit, together)

    @classmethod
    def read(cls, row: Sequence[Any]) -> "Needs":
        """Read the result of `as_json`."""
        priority, platforms, labels, excluded, unit, together = row
        allowed = None if platforms is None else frozenset(platforms)
        return cls(
            priority, allowed, frozenset(labels), frozenset(excluded), tuple(unit), together
        )

    def as_json(self) -> list[Any]:
        """Return values of JSON."""
        platforms = None if self.platforms is None else sorted(self.platforms)
        sets = platforms, sorted(self.labels), sorted(self.excluded)
        return [self.priority, *sets, list(self.unit), self.together]

    def are_met_by(self, other: "Needs") -> bool:
        """Whether all units that another job may use suit this one."""
        if self.platforms is not None and (
            other.platforms is None or not other.platforms <= self.platforms
        ):
            return False
        return (
            self.labels <= other.labels
            and self.excluded <= other.excluded
            and all(own <= more for own, more in zip(self.unit, other.unit, strict=True))
            and self.together <= other.together
        )


@dataclass(slots=True)
class WaitingJob:
    """A job in the queue of a class, which ``run_s`` orders.

    ``needs`` : None if an older release stored it
    """

    number: int
    units: int
    run_s: float
    seen_s: float
    needs: Needs | None = None

    @property
    def order(self) -> tuple[int, float]:
        """Place in the queue: of higher priority, then shorter."""
        return 0 if self.needs is None else -self.needs.priority, self.run_s
