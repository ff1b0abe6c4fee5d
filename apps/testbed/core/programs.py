"""Programs of the placement scenarios: how ClavisMO's tazes and turtles behave, as truths.

A node has two units, one for each container. The behaviour of a program follows the paper's
description and was fixed before any policy ran; `docs/placement-scenarios.md` separates the
paper's numbers from ours. Source: ClavisMO §1, §2, §4.
"""

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.draws import ANALYTICS
from apps.emulation.core.platforms import Catalogue, catalogue
from apps.emulation.core.truth import (
    BLOCK_BYTES,
    DECAY_SCORE,
    QOS,
    Demand,
    Phases,
    Traffic,
    Truth,
    UniversalScaling,
)
from apps.inventory.core.snapshot import Floats

MEMORY: Final = SOURCES.index("memory_bandwidth")
NETWORK: Final = SOURCES.index("network_bandwidth")
DISK: Final = SOURCES.index("storage_bandwidth")
RESOURCES: Final = (MEMORY, NETWORK, DISK)
TAZ_CAUSED: Final = 80.0  # caused score of a taz in its main resource
OTHER_TAZ_SLOWDOWN: Final = 1.12  # of a taz next to a taz of another resource (a loss > 10 %)
BACKGROUND: Final = 5.0  # caused score in all other resources
CALM: Final = 95.0  # tolerated score of a turtle in every resource
PLATFORM: Final = "cr1.8xlarge"
NODES: Final[Catalogue] = catalogue([PLATFORM], seed=0)


@dataclass(frozen=True, slots=True)
class Program:
    """Interference that a program causes, and its sensitivity to interference and slow links.

    Attributes
    ----------
    resource : main resource, one of RESOURCES
    caused : score in the main resource, 0-100
    slowdown : run time next to another container of the program over that alone, >= 1
    apart : run time of a job on two nodes over that on one, without interference, >= 1
    rack_loss : as in `emulation.core.truth.Truth`
    traffic_bps : bits/s its containers exchange, each
    """

    name: str
    resource: int
    caused: float
    slowdown: float = 1.0
    apart: float = 1.0
    rack_loss: float = 0.0
    traffic_bps: float = 1e6

    def truth(self) -> Truth:
        """Return the true behaviour of the program on the nodes of the scenarios."""
        caused, tolerated = self._scores()
        phases = Phases(np.zeros(1), np.ones(1), tolerated[None], caused[None], 3600.0)
        together = self.slowdown * self.apart - 1.0
        return Truth(
            name=self.name,
            kind=ANALYTICS,
            catalogue=NODES,
            platform_speed=np.ones(1),
            bytes_per_s=BLOCK_BYTES / 60.0,
            metric_per_s=BLOCK_BYTES / 60.0,
            scale_up=UniversalScaling(contention=self.slowdown - 1.0, coherency=0.0),
            # Containers on one node contend, so the cost of separation includes that slowdown.
            scale_out=UniversalScaling(
                contention=together if self.apart > 1.0 else 0.0, coherency=0.0
            ),
            tolerated=tolerated,
            caused=caused,
            phases=phases,
            demand=Demand(1.0, memory_bytes=1e9, network_bps=self.traffic_bps, storage_bytes=1e9),
            traffic=Traffic(service_s=1.0, swing=0.0, peak_s=0.0),
            rack_loss=self.rack_loss,
            is_in_step=True,
        )

    def talking(self, traffic_bps: float, rack_loss: float) -> "Program":
        """Return the program with other traffic."""
        return replace(self, traffic_bps=traffic_bps, rack_loss=rack_loss)

    def _scores(self) -> tuple[Floats, Floats]:
        """(N,) caused and (N,) tolerated scores that give the specified slowdowns."""
        caused, tolerated = np.full(N_SOURCES, BACKGROUND), np.full(N_SOURCES, CALM)
        caused[self.resource] = self.caused
        if self.slowdown > 1.0 / QOS:
            tolerated[list(RESOURCES)] = tolerated_by(TAZ_CAUSED, OTHER_TAZ_SLOWDOWN)
            tolerated[self.resource] = tolerated_by(self.caused, self.slowdown)
        return caused, tolerated


def tolerated_by(pressure: float, slowdown: float) -> float:
    """Tolerated score of a program that a pressure slows down by a factor > 1/0.95."""
    return max(1.0, pressure - DECAY_SCORE * math.log(QOS * slowdown))


def stressor(resource: int, level: float) -> Program:
    """Return a training program: a higher level (0-100) causes more and tolerates less."""
    lost = (level - (99.0 - level)) / DECAY_SCORE
    slowdown = math.exp(max(lost, 0.0)) / QOS if lost > 0.0 else 1.0
    return Program(f"stress {resource} {level:.0f}", resource, level, slowdown)


def taz(name: str, resource: int, slowdown: float, **links: float) -> Program:
    """Return a taz with a given slowdown next to a copy of itself."""
    return Program(name, resource, TAZ_CAUSED, slowdown, **links)


def turtle(name: str, resource: int, caused: float, **links: float) -> Program:
    """Return a turtle with a small use of one resource."""
    return Program(name, resource, caused, **links)


_LOUD: Final = 400e6
_SHUFFLE: Final = 200e6
# SPEC MPI2007 and SPEC HEP on Parapluie (§4.3), by the letters of figures 6-9
HPC: Final = MappingProxyType(
    {
        "A": taz("A", MEMORY, 1.5),
        "B": taz("B", MEMORY, 1.35),
        "D": turtle("D", MEMORY, 15.0),
        "E": taz("E", MEMORY, 1.15, apart=1.6, traffic_bps=_LOUD),
        "F": taz("F", MEMORY, 1.2, apart=1.6, traffic_bps=_LOUD),
        "G": turtle("G", MEMORY, 20.0),
        "H": taz("H", MEMORY, 1.4),
        "J": taz("J", MEMORY, 1.7),
    }
)
# HiBench and PUMA on India (§4.4), by the letters of figures 10-13
HADOOP: Final = MappingProxyType(
    {
        "T": taz("T", DISK, 1.7),
        "U": turtle("U", MEMORY, 20.0),
        "V": turtle("V", MEMORY, 15.0),
        "W": taz("W", MEMORY, 1.75),
        "X": taz("X", MEMORY, 2.63),
        "Y": turtle("Y", NETWORK, 30.0, rack_loss=0.6, traffic_bps=_SHUFFLE),
        "Z": turtle("Z", NETWORK, 30.0, rack_loss=0.6, traffic_bps=_SHUFFLE),
    }
)
# programs of the jobs of the Facebook days (§4.5), one for each size class
MIX: Final = (
    taz("classification", MEMORY, 2.63),
    turtle("grep", MEMORY, 20.0),
    taz("sort", DISK, 1.7),
    turtle("wordcount", MEMORY, 15.0),
    taz("join", MEMORY, 1.75),
    turtle("histogram", MEMORY, 25.0),
    taz("index", NETWORK, 1.4),
    turtle("aggregate", DISK, 25.0),
    taz("kmeans", MEMORY, 1.25),
    turtle("scan", DISK, 20.0),
)
