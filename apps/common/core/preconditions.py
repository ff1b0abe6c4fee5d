"""Preconditions of edits (optimistic locking)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from apps.common.core.errors import ConflictError


class ChangedMeanwhileError(ConflictError):
    """Another edit happened after the caller read the object."""

    def __init__(self, *, expected: int, generation: int) -> None:
        super().__init__(f"The object is at generation {generation}, not {expected}.")
        self.expected = expected
        self.generation = generation


def generation_of(fields: Mapping[str, Any]) -> int:
    """Return a digest of 48 bits as the generation of an object without a counter of edits.

    Parameters
    ----------
    fields : all that edits change, as JSON; equal fields have equal generations
    """
    text = json.dumps(fields, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def require_generation(expected: int | None, generation: int) -> None:
    """Check the expected generation of an edit; None skips the check.

    Raises
    ------
    ChangedMeanwhileError : they differ.
    """
    if expected is not None and expected != generation:
        raise ChangedMeanwhileError(expected=expected, generation=generation)
