"""The `paper` world: distributions set by hand so that they resemble the papers' figures."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.emulation.core import draws
from apps.emulation.core import platforms as tables
from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.seeds import Stream
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints


class PaperWorld:
    """Rooflines of four bottlenecks, tolerated = 99 - caused, and one curve for all sources."""

    name: Final = "paper"
    title: Final = "Resembles the papers' figures: little heterogeneity, one interference curve."

    def catalogue(self, names: Sequence[str], *, seed: int, reference: int = 0) -> Catalogue:
        """Look up or draw the hidden capacities of platforms."""
        return tables.catalogue(names, seed=seed, reference=reference)

    def application_truth(
        self,
        seed: int,
        name: str,
        kind: str,
        platforms: Catalogue,
        stream: Stream = Stream.TEST,
    ) -> Truth:
        """Draw the hidden truth of one application."""
        return draws.application_truth(seed, name, kind, platforms)

    def server_speed(self, seed: int, server_id: Ints) -> Floats:
        """All servers of a platform are equally fast."""
        return np.ones(len(server_id))
