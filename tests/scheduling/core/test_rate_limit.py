"""Limits of rates."""

from apps.scheduling.core.rate_limit import RateLimit


def test_a_new_limit_allows_one_burst() -> None:
    assert RateLimit(per_s=200.0, burst=32).available(5.0) == 32


def test_evaluations_are_earned_with_time() -> None:
    limit = RateLimit(per_s=200.0, burst=32)
    limit.available(5.0)
    limit.spend(32)
    assert [limit.available(5.0), limit.available(5.125)] == [0, 25]


def test_a_pause_earns_one_burst_at_most() -> None:
    limit = RateLimit(per_s=200.0, burst=32)
    limit.available(5.0)
    limit.spend(32)
    assert limit.available(65.0) == 32


def test_no_more_evaluations_begin_in_a_minute_than_the_limit_allows() -> None:
    limit = RateLimit(per_s=200.0, burst=32)
    begun = 0
    for tick in range(6001):  # every 10 ms
        count = limit.available(tick / 100.0)
        limit.spend(count)
        begun += count
    assert 12_000 <= begun <= 12_032
