"""Edits that insist on the version they were made from."""

from apps.common.core.errors import ConflictError


class ChangedMeanwhileError(ConflictError):
    """Somebody edited the object since the caller read it."""

    def __init__(self, *, expected: int, generation: int) -> None:
        super().__init__(f"The object is at generation {generation}, not {expected}.")
        self.expected = expected
        self.generation = generation


def require_generation(expected: int | None, generation: int) -> None:
    """Check an edit's version against the present one; None insists on nothing.

    Raises
    ------
    ChangedMeanwhileError : they differ.
    """
    if expected is not None and expected != generation:
        raise ChangedMeanwhileError(expected=expected, generation=generation)
