"""Which waiting jobs may have units reserved for them, while later jobs are backfilled."""

from enum import StrEnum


class Backfill(StrEnum):
    """Which jobs get reservations (`BERTH_BACKFILL`); both bind later jobs in the same way."""

    EASY = "easy"  # gangs that have waited long (Lifka 1995)
    CONSERVATIVE = "conservative"  # every refused job (Mu'alem and Feitelson 2001)
