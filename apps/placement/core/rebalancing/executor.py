"""Which migrations of a plan can start now, and which cannot start at all.

Migrations are ordered so that each fits after all earlier ones: a server is emptied before it is
filled again. Resources are vectors (units, memory, network, storage).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


class Resources(NamedTuple):
    """Free resources of a server, or resources required by a container."""

    units: float
    memory_bytes: float
    network_bps: float
    storage_bytes: float

    def covers(self, required: "Resources") -> bool:
        """Whether no required amount is larger."""
        return all(free >= needed for free, needed in zip(self, required, strict=True))

    def minus(self, other: "Resources") -> "Resources":
        """Element-wise difference."""
        return Resources(*(a - b for a, b in zip(self, other, strict=True)))

    def plus(self, other: "Resources") -> "Resources":
        """Element-wise sum."""
        return Resources(*(a + b for a, b in zip(self, other, strict=True)))


NO_RESOURCES: Final = Resources(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PendingMigration:
    """A migration of a plan that has not ended.

    Attributes
    ----------
    job : any hashable job id
    needs, frees : resources claimed at the target, and released at the source when it is done
    is_moving : in progress: the target's resources are claimed, the source's not yet released
    """

    ordinal: int
    bundle: int
    job: object
    source: int
    target: int
    needs: Resources
    frees: Resources
    is_moving: bool = False


@dataclass(frozen=True, slots=True)
class DueMigrations:
    """Ordinals of migrations to start now, and of those that will never fit."""

    begin: tuple[int, ...]
    hopeless: tuple[int, ...]


def due_migrations(
    migrations: Sequence[PendingMigration],
    free: Mapping[int, Resources],
    *,
    busy: Collection[object],
    limit: int,
) -> DueMigrations:
    """Select the migrations that can start. O(migrations).

    A migration that does not fit yet waits for earlier ones to release resources, and reserves
    what it needs against later ones. It is hopeless if no earlier one leaves its target.

    Parameters
    ----------
    migrations : not ended, in order
    free : resources of each open server; a missing server accepts nothing
    busy : jobs with a migration in progress; a job migrates one container at a time
    limit : max number of migrations to start
    """
    in_progress = [migration for migration in migrations if migration.is_moving]
    busy_jobs = {*busy, *(migration.job for migration in in_progress)}
    sources = {migration.source for migration in in_progress}
    left = dict(free)
    begin: list[int] = []
    hopeless: list[int] = []
    for migration in migrations:
        if migration.is_moving:
            continue
        target = migration.target
        available = left.get(target, NO_RESOURCES)
        fits = available.covers(migration.needs)
        if not fits and (target not in sources or target not in free):
            hopeless.append(migration.ordinal)
            continue
        left[target] = available.minus(migration.needs)
        sources.add(migration.source)
        if fits and migration.job not in busy_jobs and len(begin) < limit:
            busy_jobs.add(migration.job)
            begin.append(migration.ordinal)
    return DueMigrations(tuple(begin), tuple(hopeless))


def migrations_without_room(
    migrations: Sequence[PendingMigration], free: Mapping[int, Resources]
) -> tuple[int, ...]:
    """Return the ordinals of migrations that would not fit even after all earlier ones.

    Parameters
    ----------
    migrations, free : as in `due_migrations`; none is in progress
    """
    left, misfits = dict(free), list[int]()
    for migration in migrations:
        available = left.get(migration.target, NO_RESOURCES)
        if migration.target not in free or not available.covers(migration.needs):
            misfits.append(migration.ordinal)
            continue
        left[migration.target] = available.minus(migration.needs)
        left[migration.source] = left.get(migration.source, NO_RESOURCES).plus(migration.frees)
    return tuple(misfits)


def bundles_without_room(
    migrations: Sequence[PendingMigration], free: Mapping[int, Resources]
) -> tuple[int, ...]:
    """Return the bundles that cannot be executed completely.

    Removing a bundle can leave another one without room, so the check is repeated.

    Parameters
    ----------
    migrations, free : as in `migrations_without_room`
    """
    removed: list[int] = []
    kept = list(migrations)
    while misfits := migrations_without_room(kept, free):
        first = next(m.bundle for m in kept if m.ordinal == misfits[0])
        removed.append(first)
        kept = [migration for migration in kept if migration.bundle != first]
    return tuple(removed)


def migration_spans(
    migrations: Sequence[tuple[object, float]], *, per_minute: int, turn_s: float = 0.0
) -> list[tuple[float, float]]:
    """Start and end of each migration in seconds from now, if none waits for free resources.

    Parameters
    ----------
    migrations : job and duration in seconds, in order; a job migrates one container at a time
    per_minute : max number of starts per cluster minute, >= 1
    turn_s : delay between two migrations of a job
    """
    free_s: dict[object, float] = {}
    spans = []
    for place, (job, seconds) in enumerate(migrations):
        begins_s = max(60.0 * (place // per_minute), free_s.get(job, 0.0))
        free_s[job] = begins_s + seconds + turn_s
        spans.append((begins_s, begins_s + seconds))
    return spans
