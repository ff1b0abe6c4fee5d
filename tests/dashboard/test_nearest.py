"""Names near one that does not exist."""

import pytest

from apps.dashboard.core.nearest import nearest_names

NAMES = ["srv-0212", "srv-0213", "srv-1212", "web", "webcam"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("srv-0214", ["srv-0213", "srv-0212"]),
        ("srv-02122", ["srv-0212", "srv-0213"]),
        ("wep", ["web"]),
        ("x", []),
        ("", []),
        ("nothing", []),
    ],
)
def test_the_most_similar_names_come_first(name: str, near: list[str]) -> None:
    found = nearest_names(
        name, lambda start: [one for one in NAMES if one.startswith(start)], limit=2
    )
    assert found == near


def test_few_prefixes_of_a_long_name_are_tried() -> None:
    tried: list[str] = []

    def starting_with(prefix: str) -> list[str]:
        tried.append(prefix)
        return []

    nearest_names("a" * 100, starting_with)
    assert len(tried) < 20
