"""Rounds of two emulated applications on one emulated server of their own.

The engine and the hidden truths are those of the emulated backend, so a round reads what the
backend would report: rates with the noise of the application's monitor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, Machines
from apps.emulation.core.truth import Truth
from apps.testbed.core.pairs.rounds import Round

READINGS: Final = 10  # of one window
EVERY_S: Final = 10.0  # cluster seconds between them, as of the backend


def one_server(machines: Machines, platform: int) -> Machines:
    """Return an average server of a platform.

    Raises
    ------
    ValueError : no server has it.
    """
    found = np.flatnonzero(machines.platform == platform)
    if not found.size:
        raise ValueError(f"no emulated server has the platform {platform}")
    first = slice(found[0], found[0] + 1)
    columns = ("platform", "units", "memory_bytes", "network_bps", "storage_bytes", "idle_watts",
               "peak_watts")  # fmt: skip
    part = {name: getattr(machines, name)[first] for name in columns}
    return replace(machines, rack=np.full(1, -1, dtype=np.int64), speed=np.ones(1), **part)


def emulated_rounds(
    server: Machines,
    truths: tuple[Truth, Truth],
    units: Sequence[int],
    rounds: int,
    rng: np.random.Generator,
) -> Iterator[Round]:
    """Yield the rounds of a pair. O(rounds).

    Parameters
    ----------
    server : one server (`one_server`)
    truths : of both applications
    units : of each, together at most those of the server
    """
    for stream in rng.spawn(rounds):
        first, second, both = stream.spawn(3)
        alone = (
            _times(server, truths[:1], units[:1], first)[0],
            _times(server, truths[1:], units[1:], second)[0],
        )
        together = _times(server, truths, units, both)
        yield Round(alone, (together[0], together[1]))


def _times(
    server: Machines, truths: Sequence[Truth], units: Sequence[int], rng: np.random.Generator
) -> list[float]:
    """Return the mean seconds per unit of work of applications that run together."""
    engine, keys = Engine(server, rng), list(range(len(truths)))
    orders = zip(keys, truths, units, strict=True)
    engine.start(
        [EngineOrder(key, truth, [(0, count)], work_s=np.inf) for key, truth, count in orders], 0.0
    )
    rates = np.zeros(len(keys))
    for reading in range(1, READINGS + 1):
        engine.advance(reading * EVERY_S)
        rates += engine.jobs(keys).metric
    return [float(READINGS / rate) for rate in rates]
