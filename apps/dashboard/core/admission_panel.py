"""The state of the admission control on the Queues page."""

from dataclasses import dataclass
from datetime import datetime

from apps.dashboard.core import formats
from apps.scheduling.core.admission.types import AdmissionNow, Control, QueueState


@dataclass(frozen=True, slots=True)
class AdmissionRow:
    """One bucket, or class; times are cluster time."""

    queue: QueueState

    @property
    def freed(self) -> str:
        """Units freed per minute."""
        return _per_minute(self.queue.freed_per_s)

    @property
    def requested(self) -> str:
        """Units requested per minute."""
        return _per_minute(self.queue.arrived_per_s)

    @property
    def load(self) -> str:
        """The load factor, and whether its queue grows."""
        factor = self.queue.load_factor
        if factor is None:
            return "–"
        return f"{factor:.2f}" if factor < 1.0 else f"{factor:.2f}, grows"


def _per_minute(per_s: float | None) -> str:
    return "–" if per_s is None else f"{per_s * 60.0:.2f}"


@dataclass(frozen=True, slots=True)
class AdmissionPanel:
    """The admission control in use; ``at`` is None until an agent has stored its state."""

    control: str
    at: datetime | None
    rows: tuple[AdmissionRow, ...]

    @property
    def has_classes(self) -> bool:
        """Whether the rows are classes of jobs with pools, not buckets of units."""
        return self.control == Control.ARQ

    @property
    def title(self) -> str:
        """How many of the buckets have jobs that wait for their units."""
        if self.at is None:
            return "No agent has reported the admission control yet"
        short = sum(1 for row in self.rows if row.queue.waiting)
        if not short:
            return "No job waits for better units"
        kind, several = ("class", "classes") if self.has_classes else ("bucket", "buckets")
        count = formats.plural(len(self.rows), kind, several)
        return f"Jobs wait for units of {short} of {count}"


def admission_panel(now: AdmissionNow | None) -> AdmissionPanel | None:
    """Return the panel, with the buckets that have servers or waiting jobs; None without one."""
    if now is None:
        return None
    rows = tuple(AdmissionRow(queue) for queue in now.queues if queue.servers or queue.waiting)
    return AdmissionPanel(now.control, now.at, rows)
