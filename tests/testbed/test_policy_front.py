"""The picture of the two measures in docs/policies.md."""

import re

from benchmarks._results import load
from benchmarks.policy_front import PICTURE, Point, front, panels, picture

BEST, FAST, SLOW = Point("a", 0.9, 0.8), Point("b", 0.95, 0.7), Point("c", 0.8, 0.6)


def run(
    policy: str, seed: int, overall: float, share: float, **values: object
) -> dict[str, object]:
    measured = {"overall": overall, "near_full_speed": share, "policy": policy, "seed": seed}
    return {"world": "paper", "profiles": "inferred", "load": 0.5, **measured, **values}


def test_points_are_means_over_the_seeds_with_inferred_profiles() -> None:
    runs = [
        run("tarcil", 1, 0.5, 0.2),
        run("tarcil", 2, 0.7, 0.4),
        run("tarcil", 3, 9.0, 9.0, profiles="true"),
    ]
    ((key, (point,)),) = panels(runs).items()
    assert (key, point.policy) == (("paper", 0.5), "tarcil")
    assert (round(point.overall, 12), round(point.share, 12)) == (0.6, 0.3)


def test_the_front_has_the_points_that_no_other_beats_on_both_measures() -> None:
    assert front([SLOW, FAST, BEST]) == [BEST, FAST]


def test_of_equal_points_both_are_on_the_front() -> None:
    twin = Point("d", *BEST[1:])
    assert front([BEST, twin]) == [BEST, twin]


def test_every_policy_is_drawn_in_every_panel() -> None:
    runs = [
        run(name, 1, 0.5 + i / 10, 0.2, load=at)
        for i, name in enumerate("abc")
        for at in (0.5, 0.7)
    ]
    drawn = picture(runs)
    assert re.findall(r"<title>(\w): overall", drawn) == ["a", "b", "c"] * 2
    assert drawn == picture(list(reversed(runs)))


def test_the_picture_shows_the_stored_result() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(load("policies")["figures"])
