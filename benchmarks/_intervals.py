"""Texts of means and differences with their intervals, for tables."""

from apps.testbed.core.comparison import Difference, DifferenceOutcome, Interval


def mean_text(found: Interval | None, digits: int = 2) -> str:
    """Return a mean with half of the width of its interval."""
    if found is None:
        return "-"
    text = f"{found.estimate:.{digits}f}"
    return text if found.high is None else f"{text} ± {found.high - found.estimate:.{digits}f}"


def difference_text(difference: Difference, digits: int) -> str:
    """Return a difference with its corrected interval, bold where the interval excludes 0."""
    found = difference.corrected
    if found is None or found.low is None or found.high is None:
        return "-"
    each = (f"{x:+,.{digits}f}" for x in (found.estimate, found.low, found.high))
    text = "{} ({} to {})".format(*each)
    is_clear = difference.outcome in {DifferenceOutcome.BETTER, DifferenceOutcome.WORSE}
    return f"**{text}**" if is_clear else text
