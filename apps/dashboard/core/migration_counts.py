"""Number of migrations of a plan by state."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigrationCounts:
    """Migrations of a plan by state.

    Attributes
    ----------
    skipped : during the plan, as the job had ended or could not be migrated
    excluded : before the plan began, by an operator
    """

    waiting: int = 0
    moving: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    excluded: int = 0

    @property
    def planned(self) -> int:
        """Number of migrations that are not excluded."""
        ended = self.done + self.failed + self.cancelled + self.skipped
        return self.waiting + self.moving + ended

    @property
    def others(self) -> str:
        """Summary of the migrations that are not done, e.g. "9 skipped, 1 excluded"."""
        by_state = (
            (self.moving, "running"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.skipped, "skipped"),
            (self.excluded, "excluded"),
        )
        return ", ".join(f"{count:,} {state}" for count, state in by_state if count)

    def badge(self, state: str) -> str:
        """Return the displayed state; a plan is "done" only if all its migrations are."""
        if state != "done" or self.done == self.planned:
            return state
        return "partly done" if self.done else "nothing done"
