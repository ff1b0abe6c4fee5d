"""Which migrations can start: limits by free resources, by job and by budget."""

import pytest

from apps.placement.core.rebalancing.executor import (
    DueMigrations,
    PendingMigration,
    Resources,
    bundles_without_room,
    due_migrations,
    migration_spans,
    migrations_without_room,
)


def free(units: float, memory: float = 100.0) -> Resources:
    return Resources(units, memory, 100.0, 100.0)


def migration(
    place: int, job: str, source: int, target: int, units: float = 1, *, bundle: int = -1,
    is_moving: bool = False, memory: float = 1.0,
) -> PendingMigration:  # fmt: skip
    need = Resources(units, memory, 1.0, 1.0)
    return PendingMigration(
        place, place if bundle < 0 else bundle, job, source, target, need, need, is_moving
    )


FREE = {1: free(2), 2: free(2), 3: free(0)}


def test_migrations_start_in_order_up_to_the_limit() -> None:
    migrations = [migration(0, "a", 3, 1), migration(1, "b", 3, 1), migration(2, "c", 3, 2)]
    assert due_migrations(migrations, FREE, busy=(), limit=2) == DueMigrations(
        begin=(0, 1), hopeless=()
    )


def test_a_job_migrates_one_container_at_a_time() -> None:
    migrations = [migration(0, "a", 3, 1), migration(1, "a", 3, 2), migration(2, "b", 3, 2)]
    assert due_migrations(migrations, FREE, busy=(), limit=9).begin == (0, 2)


def test_jobs_with_another_migration_wait() -> None:
    assert due_migrations([migration(0, "a", 3, 1)], FREE, busy={"a"}, limit=9) == DueMigrations(
        (), ()
    )


def test_a_migration_waits_for_room_that_an_earlier_one_frees() -> None:
    migrations = [migration(0, "a", 3, 1), migration(1, "b", 2, 3)]
    assert due_migrations(migrations, FREE, busy=(), limit=9) == DueMigrations(
        begin=(0,), hopeless=()
    )


def test_a_migration_waits_for_one_in_progress_that_frees_room() -> None:
    migrations = [migration(0, "a", 3, 1, is_moving=True), migration(1, "b", 2, 3)]
    assert due_migrations(migrations, FREE, busy=(), limit=9) == DueMigrations((), ())


def test_a_migration_is_hopeless_if_no_earlier_one_frees_room() -> None:
    migrations = [migration(0, "b", 2, 3), migration(1, "a", 3, 1)]
    assert due_migrations(migrations, FREE, busy=(), limit=9) == DueMigrations(
        begin=(1,), hopeless=(0,)
    )


def test_a_migration_to_a_closed_server_is_hopeless() -> None:
    migrations = [migration(0, "a", 9, 1), migration(1, "b", 2, 9)]
    assert due_migrations(migrations, FREE, busy=(), limit=9).hopeless == (1,)


def test_a_migration_does_not_take_room_that_an_earlier_one_waits_for() -> None:
    migrations = [migration(0, "a", 3, 1, units=2), migration(1, "b", 3, 1, units=1)]
    assert due_migrations(migrations, FREE, busy={"a"}, limit=9) == DueMigrations(
        begin=(), hopeless=(1,)
    )


def test_memory_is_limited_like_units() -> None:
    migrations = [migration(0, "a", 3, 1, memory=99.0), migration(1, "b", 3, 1, memory=2.0)]
    assert due_migrations(migrations, FREE, busy=(), limit=9) == DueMigrations(
        begin=(0,), hopeless=(1,)
    )


def test_a_limit_of_zero_starts_nothing_and_gives_up_nothing() -> None:
    assert due_migrations([migration(0, "a", 3, 1)], FREE, busy=(), limit=0) == DueMigrations(
        (), ()
    )


def test_migrations_use_room_freed_by_earlier_ones() -> None:
    migrations = [
        migration(0, "a", 3, 1, units=2),
        migration(1, "b", 2, 3, units=2),
        migration(2, "c", 1, 2, units=4),
    ]
    assert migrations_without_room(migrations, FREE) == ()
    assert migrations_without_room(migrations[::-1], FREE) == (2, 1)


def test_removing_a_bundle_removes_those_that_need_its_room() -> None:
    migrations = [
        migration(0, "a", 3, 1, units=3, bundle=0),
        migration(1, "b", 3, 2, bundle=0),
        migration(2, "c", 2, 3, units=1, bundle=1),
        migration(3, "d", 2, 1, units=1, bundle=2),
    ]
    assert bundles_without_room(migrations, FREE) == (0, 1)


@pytest.mark.parametrize("migrations", [[], [migration(0, "a", 3, 1)]])
def test_bundles_that_fit_are_not_removed(migrations: list[PendingMigration]) -> None:
    assert bundles_without_room(migrations, FREE) == ()


@pytest.mark.parametrize(
    ("moves", "per_minute", "spans"),
    [
        ([], 5, []),
        ([("a", 10.0), ("b", 30.0)], 5, [(0.0, 10.0), (0.0, 30.0)]),
        ([("a", 10.0), ("a", 30.0)], 5, [(0.0, 10.0), (10.0, 40.0)]),
        ([("a", 10.0), ("b", 5.0), ("c", 1.0)], 2, [(0.0, 10.0), (0.0, 5.0), (60.0, 61.0)]),
        ([("a", 90.0), ("a", 5.0)], 1, [(0.0, 90.0), (90.0, 95.0)]),
    ],
    ids=["nothing", "parallel", "one job in sequence", "budget", "longest wait"],
)
def test_spans_respect_the_budget_and_the_order_within_a_job(
    moves: list[tuple[object, float]], per_minute: int, spans: list[tuple[float, float]]
) -> None:
    assert migration_spans(moves, per_minute=per_minute) == spans


def test_a_delay_separates_two_migrations_of_a_job() -> None:
    moves: list[tuple[object, float]] = [("a", 10.0), ("b", 5.0), ("a", 10.0), ("a", 10.0)]
    spans = migration_spans(moves, per_minute=9, turn_s=90.0)
    assert spans == [(0.0, 10.0), (0.0, 5.0), (100.0, 110.0), (200.0, 210.0)]
