"""How many rows of a list match: exact, or bounded where an exact count would read history."""

from dataclasses import dataclass
from typing import Final

from apps.dashboard.core import formats

COUNT_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Matches:
    """Number of matching rows.

    Attributes
    ----------
    count : exact, or `COUNT_LIMIT` if more match
    is_exact : False if more than ``count`` match
    """

    count: int
    is_exact: bool = True

    @property
    def words(self) -> str:
        """The number, e.g. "1,234" or "more than 10,000"."""
        number = formats.thousands(self.count)
        return number if self.is_exact else f"more than {number}"


def range_words(rows: int, matches: Matches | None, *, is_first: bool) -> str:
    """Return the rows of a page among all that match, e.g. "1–50 of 1,234 match".

    Parameters
    ----------
    matches : None if counting took too long
    is_first : whether it is the first page; later pages do not know their position
    """
    if matches is None:
        return f"{formats.thousands(rows)} on this page"
    if matches.is_exact and rows == matches.count:
        return f"all {formats.thousands(rows)} match" if rows != 1 else "1 matches"
    shown = f"1–{formats.thousands(rows)}" if is_first and rows > 1 else formats.thousands(rows)
    return f"{shown} of {matches.words} match"
