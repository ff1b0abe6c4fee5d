"""Energy of servers that are off while nobody holds them, and each holder's share of it.

A server of n slots with u in use draws idle + (peak - idle) u/n watts. Whoever holds a slot pays
for the load it adds and for its share of the idle watts. Source: ClavisMO §3.1 (P), §4.3.
"""

from apps.emulation.core.events import Machines


class Meter:
    """Counts from time 0; every change says when it was, never going back."""

    def __init__(self, machines: Machines) -> None:
        self._idle = machines.idle_watts.tolist()
        span = (machines.peak_watts - machines.idle_watts) / machines.units
        self._span: list[float] = span.tolist()
        servers = len(self._idle)
        self._used = [0] * servers
        self._seen_s = [0.0] * servers
        self._per_unit = [0.0] * servers
        self.joules = 0.0
        self.idle_joules = 0.0  # what the servers that were off would have drawn, had they idled

    def per_unit(self, server: int, now: float) -> float:
        """Joules that a unit held on the server ever since time 0 would have paid."""
        passed, used = now - self._seen_s[server], self._used[server]
        self._seen_s[server] = now
        if used:
            joules = passed * (self._idle[server] / used + self._span[server])
            self._per_unit[server] += joules
            self.joules += joules * used
        else:
            self.idle_joules += passed * self._idle[server]
        return self._per_unit[server]

    def change(self, server: int, units: int, now: float) -> float:
        """Hold so many more units (fewer, if negative); the reading of `per_unit` then."""
        reading = self.per_unit(server, now)
        self._used[server] += units
        return reading

    def close(self, now: float) -> None:
        """Count every server up to now."""
        for server in range(len(self._used)):
            self.per_unit(server, now)
