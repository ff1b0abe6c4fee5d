"""The result of repeating a stored decision."""

from enum import StrEnum


class ReplayVerdict(StrEnum):
    """Whether a repeated decision is the stored one."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    UNAVAILABLE = "unavailable"
