"""Preconditions of edits (optimistic locking)."""

from apps.common.core.errors import ConflictError


class ChangedMeanwhileError(ConflictError):
    """Another edit happened after the caller read the object."""

    def __init__(self, *, expected: int, generation: int) -> None:
        super().__init__(f"The object is at generation {generation}, not {expected}.")
        self.expected = expected
        self.generation = generation


def require_generation(expected: int | None, generation: int) -> None:
    """Check the expected generation of an edit; None skips the check.

    Raises
    ------
    ChangedMeanwhileError : they differ.
    """
    if expected is not None and expected != generation:
        raise ChangedMeanwhileError(expected=expected, generation=generation)
