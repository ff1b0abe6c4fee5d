"""How a job ended that another scheduler ran."""

from dataclasses import dataclass

from apps.execution.core.port import Outcome


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job; the message says why it failed, for its submitter."""

    outcome: Outcome
    message: str = ""
    exit_code: int | None = None
