"""How long a move takes, and what a job's parts are after it."""

import pytest

from apps.execution.core.migration import LEAST_S, move_s, moved_parts


@pytest.mark.parametrize(
    ("memory_bytes", "from_bps", "to_bps", "seconds"),
    [
        (1e9, 1e9, 1e9, 16.0),
        (1e9, 1e9, 4e9, 16.0),
        (1e9, 4e9, 1e9, 16.0),
        (2e9, 1e9, 1e9, 32.0),
        (0.0, 1e9, 1e9, LEAST_S),
        (1e6, 1e10, 1e10, LEAST_S),
    ],
)
def test_memory_goes_over_half_the_slower_network(
    memory_bytes: float, from_bps: float, to_bps: float, seconds: float
) -> None:
    assert move_s(memory_bytes, from_bps, to_bps) == pytest.approx(seconds)


@pytest.mark.parametrize("values", [(-1.0, 1e9, 1e9), (1e9, 0.0, 1e9), (1e9, 1e9, float("nan"))])
def test_a_move_without_a_network_has_no_time(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="networks > 0"):
        move_s(*values)


@pytest.mark.parametrize(
    ("parts", "units", "to", "after"),
    [
        (((1, 2),), 2, 5, ((5, 2),)),
        (((1, 2), (3, 1)), 2, 5, ((3, 1), (5, 2))),
        (((1, 2), (3, 1)), 2, 3, ((3, 3),)),
        (((1, 3),), 1, 2, ((1, 2), (2, 1))),
    ],
)
def test_parts_after_a_move_name_each_server_once(
    parts: tuple[tuple[int, int], ...], units: int, to: int, after: tuple[tuple[int, int], ...]
) -> None:
    assert moved_parts(parts, units=units, from_server=1, to_server=to) == after


@pytest.mark.parametrize(("server", "units"), [(1, 3), (2, 1), (1, 0)])
def test_more_than_a_part_has_cannot_move(server: int, units: int) -> None:
    with pytest.raises(ValueError, match=f"server {server} holds"):
        moved_parts([(1, 2)], units=units, from_server=server, to_server=9)
