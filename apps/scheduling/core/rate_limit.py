"""Limits of rates, with the time as an argument."""


class RateLimit:
    """A token bucket: ``per_s`` steps a second, at most ``burst`` at once.

    Times are seconds of any clock that does not go back.
    """

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._left = float(burst)
        self._at_s: float | None = None

    def available(self, now_s: float) -> int:
        """Return the number of steps that may be taken now."""
        if self._at_s is not None:
            earned = (now_s - self._at_s) * self._per_s
            self._left = min(float(self._burst), self._left + earned)
        self._at_s = now_s
        return int(self._left)

    def spend(self, count: int) -> None:
        """Count steps that are taken."""
        self._left -= count
