"""Every reason has a sentence and an action; the reason of highest rank is shown."""

from pathlib import Path

import pytest

from apps.scheduling.core.types import RefusalReason
from apps.workloads.core.reasons import MEANINGS, Reason, resolve


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence_and_a_next_action(reason: Reason) -> None:
    meaning = MEANINGS[reason]
    assert meaning.sentence.endswith(".")
    assert meaning.next_action.endswith(".")
    assert 1 <= meaning.tier <= 10


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_every_refusal_reason_has_a_meaning(reason: RefusalReason) -> None:
    assert Reason(reason.value) in MEANINGS


def test_sentences_are_unique() -> None:
    assert len({meaning.sentence for meaning in MEANINGS.values()}) == len(Reason)


def test_the_reason_of_a_placement_fits_jobs_of_several_units() -> None:
    expected = MEANINGS[Reason.PLACED_BEST_EXPECTED].sentence
    assert expected == "Placed where the expected performance is the best of all units that fit."


def test_units_are_reserved_for_any_job_that_was_refused_earlier() -> None:
    assert "for a job that was refused earlier" in MEANINGS[Reason.UNITS_RESERVED].sentence


def test_tiers_have_the_documented_order() -> None:
    promised = [
        Reason.INVALID,
        Reason.HELD,
        Reason.UNCLASSIFIABLE,
        Reason.INFEASIBLE_TARGET,
        Reason.NO_FREE_UNIT,
        Reason.COMMIT_CONFLICT,
        Reason.STARTING,
    ]
    assert [MEANINGS[reason].tier for reason in promised] == [1, 2, 3, 4, 7, 8, 9]


def test_the_lowest_tier_wins_and_the_others_are_listed() -> None:
    resolved = resolve([Reason.CAPACITY_SHORT, Reason.HELD, Reason.COMMIT_CONFLICT])
    assert resolved == (Reason.HELD, (Reason.CAPACITY_SHORT, Reason.COMMIT_CONFLICT))


def test_the_winner_does_not_depend_on_the_order_given() -> None:
    tied = [Reason.NO_FREE_UNIT, Reason.SERVERS_CLOSED]
    assert resolve(tied) == resolve(reversed(tied))


def test_no_reasons_resolve_to_none() -> None:
    assert resolve([]) == (None, ())


def test_every_reason_is_raised_somewhere() -> None:
    """A code that no part of the program sets is a promise to users that nothing keeps."""
    declared = {"reasons.py", "labels.py", "types.py"}
    paths = [path for path in Path("apps").rglob("*.py") if path.name not in declared]
    source = "".join(path.read_text() for path in paths)
    assert [
        reason
        for reason in Reason
        if f"Reason.{reason.name}" not in source and f'"{reason.value}"' not in source
    ] == []
