"""Names that are similar to one that does not exist."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final

MIN_PREFIX: Final = 2
CUTOFF: Final = 0.5  # similarity of difflib, 0 to 1


def nearest_names(
    name: str, starting_with: Callable[[str], Sequence[str]], *, limit: int = 5
) -> list[str]:
    """Return existing names that are similar to a name, the most similar first.

    Parameters
    ----------
    starting_with : returns a limited number of existing names with a prefix; called with ever
        shorter prefixes of the name, at most log2 of its length times, until there are names
    """
    length = len(name)
    while length >= MIN_PREFIX:
        found = list(starting_with(name[:length]))
        if close := get_close_matches(name, found, n=limit, cutoff=CUTOFF):
            return close
        length = min(length - 1, (3 * length) // 4)
    return []
