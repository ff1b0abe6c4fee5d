"""Rounds of two emulated applications."""

import numpy as np
import pytest

from apps.emulation.core.events import Machines
from apps.emulation.core.truth import Truth, interference_factor
from apps.emulation.core.worlds import WORLDS
from apps.testbed.core.pairs.emulated import emulated_rounds, one_server
from apps.testbed.core.pairs.rounds import measured_slowdown

SEED = 2011
PLATFORMS = ("J", "A")
WORLD = WORLDS["paper"]
CATALOGUE = WORLD.catalogue(PLATFORMS, seed=SEED)


def machines() -> Machines:
    """Three servers: the last one has the second platform."""
    return Machines(
        platforms=CATALOGUE,
        platform=np.array([0, 0, 1]),
        units=np.array([4, 4, 8]),
        rack=np.array([0, 1, 1]),
        memory_bytes=np.full(3, 64e9),
        network_bps=np.full(3, 1e10),
        storage_bytes=np.full(3, 1e12),
        idle_watts=np.full(3, 100.0),
        peak_watts=np.full(3, 200.0),
        speed=np.array([0.5, 1.0, 0.7]),
    )


def truth(name: str) -> Truth:
    return WORLD.application_truth(SEED, name, "single_node", CATALOGUE)


def test_a_server_of_its_own_has_the_speed_of_its_platform() -> None:
    server = one_server(machines(), 1)
    assert (server.units.tolist(), server.platform.tolist()) == ([8], [1])
    assert server.speed.tolist() == [1.0]


def test_a_platform_without_a_server_is_refused() -> None:
    with pytest.raises(ValueError, match="platform 5"):
        one_server(machines(), 5)


def test_the_slowdown_is_that_of_the_hidden_truth() -> None:
    pair, units = (truth("alpha"), truth("beta")), (1, 2)
    rounds = list(
        emulated_rounds(one_server(machines(), 0), pair, units, 40, np.random.default_rng(3))
    )
    for side, other in ((0, 1), (1, 0)):
        pressure = units[other] * pair[other].phases.caused[0] / 3
        truly = interference_factor(
            np.minimum(pressure, 100.0), pair[side].phases.tolerated[0], pair[side].curves
        )
        # ratios of means of ten readings with 2 % noise, over 40 rounds: standard error 0.0014
        found = measured_slowdown(rounds, side).value
        assert np.log(found) == pytest.approx(-np.log(truly), abs=0.006)


def test_the_same_seed_gives_the_same_rounds() -> None:
    pair, server = (truth("alpha"), truth("beta")), one_server(machines(), 0)
    first, again = (
        list(emulated_rounds(server, pair, (1, 1), 3, np.random.default_rng(9))) for _ in range(2)
    )
    assert first == again
