from collections import Counter

from apps.emulation.core.library import library
from tests.emulation.worlds import all_platforms


def test_the_library_holds_seven_applications_of_each_kind() -> None:
    entries = library(7, all_platforms())
    assert Counter(entry.kind for entry in entries) == {
        "analytics": 7,
        "latency_critical": 7,
        "single_node": 7,
        "batch": 7,
    }
    settings = {entry.kind: len(entry.cells) - 50 for entry in entries}
    assert settings == {"analytics": 18, "latency_critical": 0, "single_node": 0, "batch": 0}
    assert len({entry.application for entry in entries}) == 28


def test_the_library_is_the_same_every_time() -> None:
    assert library(7, all_platforms(), per_kind=1) == library(7, all_platforms(), per_kind=1)
