"""Outcomes of the compiled form of `expected` beside those of its parts."""

from collections.abc import Sequence
from typing import Any


def assert_alike(found: Sequence[tuple[Any, ...]], plain: Sequence[tuple[Any, ...]]) -> None:
    """Check that outcomes are equal, apart from the rounding of scores to steps.

    The two forms add the terms of a score in different orders. So one in a million scores, which
    is almost between two steps, may be rounded to the other one, and no other.

    Parameters
    ----------
    found, plain : values of outcomes, the last of which are the keys and verdicts of candidates
    """
    for ours, theirs in zip(found, plain, strict=True):
        if ours == theirs:
            continue
        *values, candidates = ours
        *expected, others = theirs
        assert values == expected
        assert [(key[1:], why) for key, why in candidates] == [(k[1:], w) for k, w in others]
        pairs = zip(candidates, others, strict=True)
        assert max(abs(one[0] - other[0]) for (one, _), (other, _) in pairs) <= 1
