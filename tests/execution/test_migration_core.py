"""Duration of a migration, and a job's parts after it."""

import pytest

from apps.execution.core.migration import MIN_S, migration_s, parts_after_migration


@pytest.mark.parametrize(
    ("memory_bytes", "from_bps", "to_bps", "seconds"),
    [
        (1e9, 1e9, 1e9, 16.0),
        (1e9, 1e9, 4e9, 16.0),
        (1e9, 4e9, 1e9, 16.0),
        (2e9, 1e9, 1e9, 32.0),
        (0.0, 1e9, 1e9, MIN_S),
        (1e6, 1e10, 1e10, MIN_S),
    ],
)
def test_migration_time_is_memory_over_half_the_slower_network(
    memory_bytes: float, from_bps: float, to_bps: float, seconds: float
) -> None:
    assert migration_s(memory_bytes, from_bps, to_bps) == pytest.approx(seconds)


@pytest.mark.parametrize("values", [(-1.0, 1e9, 1e9), (1e9, 0.0, 1e9), (1e9, 1e9, float("nan"))])
def test_a_migration_without_a_network_is_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="networks > 0"):
        migration_s(*values)


@pytest.mark.parametrize(
    ("parts", "units", "to", "after"),
    [
        (((1, 2),), 2, 5, ((5, 2),)),
        (((1, 2), (3, 1)), 2, 5, ((3, 1), (5, 2))),
        (((1, 2), (3, 1)), 2, 3, ((3, 3),)),
        (((1, 3),), 1, 2, ((1, 2), (2, 1))),
    ],
)
def test_parts_after_a_migration_name_each_server_once(
    parts: tuple[tuple[int, int], ...], units: int, to: int, after: tuple[tuple[int, int], ...]
) -> None:
    assert parts_after_migration(parts, units=units, from_server=1, to_server=to) == after


@pytest.mark.parametrize(("server", "units"), [(1, 3), (2, 1), (1, 0)])
def test_a_part_cannot_migrate_more_units_than_it_has(server: int, units: int) -> None:
    with pytest.raises(ValueError, match=f"server {server} holds"):
        parts_after_migration([(1, 2)], units=units, from_server=server, to_server=9)
