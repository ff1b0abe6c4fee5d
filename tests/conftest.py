"""Fixtures every area may use, and marks that follow from the fixtures a test asks for."""

import pytest

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `database` on every test that may query, so that `-m database` misses none."""
    for item in items:
        fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if fixtures or item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.database)
