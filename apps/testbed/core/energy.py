"""Energy of servers that are off while empty, and each container's share of it.

A server of n slots with u in use draws idle + (peak - idle) u/n watts. A container is charged for
the load it adds and for its share of the idle power. Source: ClavisMO §3.1 (P), §4.3.
"""

from apps.emulation.core.events import Machines


class EnergyMeter:
    """Energy meter that starts at time 0; times must not decrease."""

    def __init__(self, machines: Machines) -> None:
        self._idle = machines.idle_watts.tolist()
        span = (machines.peak_watts - machines.idle_watts) / machines.units
        self._span: list[float] = span.tolist()
        servers = len(self._idle)
        self._used = [0] * servers
        self._seen_s = [0.0] * servers
        self._per_unit = [0.0] * servers
        self.joules = 0.0
        self.idle_joules = 0.0  # idle energy that the servers saved by being off

    def per_unit(self, server: int, now: float) -> float:
        """Joules charged to one unit of the server from time 0 until now."""
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
        """Add units in use (remove if negative); return the reading of `per_unit`."""
        reading = self.per_unit(server, now)
        self._used[server] += units
        return reading

    def close(self, now: float) -> None:
        """Account for all servers up to now."""
        for server in range(len(self._used)):
            self.per_unit(server, now)
