"""How the moves of a plan stand, counted in one way wherever they are told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Moves of a plan by what became of them.

    Attributes
    ----------
    passed_over : while it was carried out, as their job had ended or was left alone
    left_out : before it began; these were not to be made
    """

    waiting: int = 0
    moving: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    passed_over: int = 0
    left_out: int = 0

    @property
    def asked(self) -> int:
        """How many were to be made: all but those left out."""
        ended = self.done + self.failed + self.cancelled + self.passed_over
        return self.waiting + self.moving + ended

    @property
    def others(self) -> str:
        """What became of those that were not done, e.g. "9 passed over, 1 left out"."""
        named = (
            (self.moving, "under way"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.passed_over, "passed over"),
            (self.left_out, "left out"),
        )
        return ", ".join(f"{count:,} {what}" for count, what in named if count)

    def badge(self, state: str) -> str:
        """Return the state of the plan as it is shown: done is not said of a part."""
        if state != "done" or self.done == self.asked:
            return state
        return "partly done" if self.done else "nothing done"
