"""The tree of errors. Expected outcomes are values; exceptions are for broken contracts."""

from dataclasses import dataclass


class ControlPlaneError(Exception):
    """Base of all errors that Berth raises deliberately."""


class TransientError(ControlPlaneError):
    """A retry may succeed: a service was unavailable or a lock was lost."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem of one input field."""

    pointer: str  # JSON Pointer of the field, e.g. "/spec/target/value"
    code: str  # machine-readable, e.g. "too_low"
    detail: str  # names the value and what is accepted


class InvalidInputError(ControlPlaneError, ValueError):
    """Invalid input; lists every problem, not only the first."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.detail}" for p in problems))
        self.problems = problems


class NotFoundError(ControlPlaneError):
    """The object does not exist, or the caller may not see it."""


class CredentialError(ControlPlaneError):
    """The caller's credential is unknown or revoked."""


class ConflictError(ControlPlaneError):
    """The state of the object does not allow the change."""
