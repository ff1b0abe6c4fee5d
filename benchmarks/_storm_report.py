"""What a storm did, and everything that must not happen in one."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class StormReport:
    """What the storm did, and everything that must not happen.

    Attributes
    ----------
    done : actions by name
    answers : responses of the API by status
    deadlocks : errors that reached a client or ended an action
    errors : other unexpected errors
    violations : failed checks, and jobs that were lost
    """

    done: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    deadlocks: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not (self.deadlocks or self.errors or self.violations)
