"""The one tree of errors. Expected outcomes are values; these are for broken promises."""

from dataclasses import dataclass


class ControlPlaneError(Exception):
    """Base of every error Berth raises on purpose."""


class TransientError(ControlPlaneError):
    """Worth trying again: a service was away, a lock was lost."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with one field of an input."""

    pointer: str  # JSON Pointer of the field, e.g. "/spec/target/value"
    code: str  # machine-readable, e.g. "too_low"
    detail: str  # names the value seen and what would be right


class InvalidInputError(ControlPlaneError, ValueError):
    """Input that breaks the rules; carries every problem found, not only the first."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.detail}" for p in problems))
        self.problems = problems


class NotFoundError(ControlPlaneError):
    """The object does not exist, or the caller may not know that it does."""


class ConflictError(ControlPlaneError):
    """The object's state does not allow the change."""
