"""What every world draws: platforms, servers and applications."""

from collections.abc import Sequence
from typing import Protocol

from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.seeds import Stream
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints


class World(Protocol):
    """Distributions of the hidden truth. All draws depend only on their arguments."""

    @property
    def name(self) -> str:
        """Name in the registry and on the command line."""

    @property
    def title(self) -> str:
        """One sentence for people who choose a world."""

    def catalogue(self, names: Sequence[str], *, seed: int, reference: int = 0) -> Catalogue:
        """Look up or draw the hidden capacities of platforms.

        A platform outside the world's tables depends on its name and the seed only.

        Raises
        ------
        ValueError : no platform, or `reference` is not one of them.
        """

    def application_truth(
        self,
        seed: int,
        name: str,
        kind: str,
        platforms: Catalogue,
        stream: Stream = Stream.TEST,
    ) -> Truth:
        """Draw the hidden truth of one application.

        Parameters
        ----------
        seed : of the cluster
        kind : one of `draws.KINDS`
        platforms : of this world; adding one does not change the rest of the truth
        stream : purpose of the application

        Raises
        ------
        ValueError : unknown kind.
        """

    def server_speed(self, seed: int, server_id: Ints) -> Floats:
        """Draw the (S,) speeds of servers relative to their platform, by id >= 0."""
