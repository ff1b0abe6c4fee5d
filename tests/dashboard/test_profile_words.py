"""Profiles in sentences."""

from dataclasses import replace

import pytest

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import Driver, Neighbour
from apps.dashboard.core import profile_words as say
from apps.dashboard.core.profile_cells import ProfileCell, known_in, read_cells
from tests.dashboard.profile_parts import CAUSED, OUT, PLATFORMS, RATE, TOLERATED, UP, cell, cells

KIND = "latency_critical"
TOLERATES = cell(MatrixName.TOLERATED, "memory_bandwidth", 40.2)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (TOLERATES, "Tolerates memory-bandwidth pressure up to 40 %; above it loses 5 % or more"),
        (replace(TOLERATES, value=99.6), "Tolerates any memory-bandwidth pressure"),
        (replace(TOLERATES, value=0.3), "Any memory-bandwidth pressure costs it 5 % or more"),
        (CAUSED.cells[1], "One unit puts 62 % of memory-bandwidth pressure on the others"),
        (UP.cells[0], "One unit is what the others are compared to"),
        (UP.cells[3], "8 units of one server do the work of 7.2"),
        (OUT.cells[0], "One server is what the others are compared to"),
        (OUT.cells[4], "On 16 servers each keeps 75 % of its speed alone"),
        (PLATFORMS.cells[0], "The highest-end platform, which the others are compared to"),
        (PLATFORMS.cells[1], "On A it reaches 40 % of its speed on J"),
        (PLATFORMS.cells[2], "1.2 × as fast on B as on J"),
        (replace(PLATFORMS.cells[1], value=1.001), "As fast on A as on J"),
        (RATE.cells[0], "One unit of J does 12.3 k queries/s"),
        (RATE.cells[1], "One unit of J works through 4.2 MB/s"),
    ],
)
def test_a_cell_is_a_sentence(shown: ProfileCell, said: str) -> None:
    assert say.sentence(shown, KIND, "J") == said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("latency_critical", "12.3 k queries/s"),
        ("single_node", "12.3 k instr./s"),
        ("analytics", "12.3 kB/s"),
        ("batch", "12.3 kB/s"),
        ("", "12.3 kB/s"),
    ],
)
def test_the_rate_is_in_the_unit_of_the_kind(kind: str, said: str) -> None:
    assert say.value_text(MatrixName.BASE_RATE, "metric", 12_300.0, kind) == said


def test_an_inferred_cell_says_how_sure_it_is() -> None:
    guessed = replace(TOLERATES, source=Source.INFERRED, low=31.0, high=52.4)
    assert say.certainty(guessed, KIND) == "inferred, 90 % sure of 31–52 %"


def test_measured_cells_tell_their_samples_and_overrides_their_hand() -> None:
    assert say.certainty(TOLERATES, KIND) == "measured, 8 samples"
    assert say.certainty(replace(TOLERATES, source=Source.OVERRIDE), KIND) == "set by hand"


def test_an_interval_names_its_unit_once_where_both_ends_share_it() -> None:
    wide = replace(RATE.cells[0], low=900.0, high=12_300.0)
    assert say.interval_text(TOLERATES, KIND) == "38–42 %"
    assert say.interval_text(wide, KIND) == "900 queries/s – 12.3 k queries/s"


def test_an_interval_of_no_width_is_one_number() -> None:
    assert say.interval_text(replace(TOLERATES, low=40.0, high=40.0), KIND) == "40 %"


def test_only_measured_cells_have_a_standard_error() -> None:
    assert say.error_text(TOLERATES, KIND) == "0.8 %"
    assert say.error_text(OUT.cells[4], KIND) == "1.5 %"
    assert say.error_text(OUT.cells[5], KIND) == "–"
    assert say.error_text(replace(TOLERATES, source=Source.OVERRIDE), KIND) == "–"


def test_facts_say_what_matters_most() -> None:
    assert [fact.sentence for fact in say.facts(cells(), KIND)] == [
        "One unit of J does 12.3 k queries/s",
        "Fastest on B; A, the slowest, reaches 33 % of that",
        "Scales to 8 units of one server; 16 keep 75 % of linear",
        "Scales to 8 servers; 16 keep 75 % of linear",
        "Tolerates L1-instruction pressure up to 35 %; above it loses 5 % or more",
        "Tolerates memory-bandwidth pressure up to 41 %; above it loses 5 % or more",
        "One unit puts 62 % of memory-bandwidth pressure on the others",
    ]


def test_kinds_that_run_on_one_server_say_nothing_of_more() -> None:
    said = " ".join(fact.sentence for fact in say.facts(cells(), "single_node"))
    assert "servers" not in said


def test_what_scales_to_the_end_says_so() -> None:
    good = cells(scale_up=[replace(c, value=int(c.column)) for c in UP.cells])
    said = [fact.sentence for fact in say.facts(good, KIND)]
    assert "Scales to 32 units of one server, keeping 100 % of linear" in said


def test_what_does_not_scale_at_all_says_so() -> None:
    flat = [replace(c, value=1.0) for c in OUT.cells[:1]]
    flat += [replace(c, value=0.3) for c in OUT.cells[1:]]
    said = [fact.sentence for fact in say.facts(cells(scale_out=flat), KIND)]
    assert "Gains little from more servers; 2 keep 30 % of linear" in said


def test_a_curve_set_by_hand_from_its_first_point_is_still_told() -> None:
    low = [replace(c, value=0.2) for c in OUT.cells]
    said = [fact.sentence for fact in say.facts(cells(scale_out=low), KIND)]
    assert "Gains little from more servers; 2 keep 20 % of linear" in said


def test_how_sure_a_share_is_is_told_as_a_share() -> None:
    guessed = [replace(c, source=Source.INFERRED) for c in UP.cells]
    told = {fact.sentence: fact.certainty for fact in say.facts(cells(scale_up=guessed), KIND)}
    assert told["Scales to 8 units of one server; 16 keep 75 % of linear"] == (
        "inferred, 90 % sure of 71–79 %"
    )


def neighbour(*drivers: Driver) -> Neighbour:
    return Neighbour("other", 0.8, 1, 0.9, drivers)


def test_neighbours_say_what_they_share_once_for_each_matrix_and_side() -> None:
    found = neighbour(
        Driver(MatrixName.SCALE_OUT, "16", is_above=False),
        Driver(MatrixName.SCALE_OUT, "8", is_above=False),
        Driver(MatrixName.TOLERATED, "llc_capacity", is_above=True),
    )
    assert say.shared(found) == (
        "both keep less speed on 8 and 16 servers and tolerate more LLC-capacity pressure"
    )


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (Driver(MatrixName.CAUSED, "tlb", is_above=True), "both cause more TLB pressure"),
        (
            Driver(MatrixName.SCALE_UP, "4", is_above=False),
            "both gain less from 4 units of a server",
        ),
        (Driver(MatrixName.HETEROGENEITY, "A", is_above=True), "both are faster on A"),
    ],
)
def test_every_matrix_has_words_for_what_is_shared(driver: Driver, said: str) -> None:
    assert say.shared(neighbour(driver)) == said


def test_neighbours_without_a_common_column_are_alike_in_everything() -> None:
    assert say.shared(neighbour()) == "alike in a little of everything"


def test_flags_are_words_with_a_reason() -> None:
    assert say.flag("far") == say.Flag(
        "far from the library",
        "A measured value lies far outside everything in the library.",
    )
    assert say.flag("scale_up:one_cell").name == "Scale-up: one cell only"
    assert say.flag("some_thing_new") == say.Flag("some thing new", "some_thing_new")


def test_drift_says_the_side() -> None:
    assert say.drift_text(-0.28) == "24 % slower"
    assert say.drift_text(0.1) == "11 % faster"


@pytest.mark.parametrize(
    ("matrix", "kind", "typed"),
    [
        (MatrixName.BASE_RATE, "latency_critical", ("queries/s", 1.0)),
        (MatrixName.BASE_RATE, "analytics", ("B/s", 1.0)),
        (MatrixName.SCALE_UP, KIND, ("×", 1.0)),
        (MatrixName.SCALE_OUT, KIND, ("%", 0.01)),
        (MatrixName.CAUSED, KIND, ("%", 1.0)),
    ],
)
def test_people_type_values_in_the_unit_they_read(
    matrix: MatrixName, kind: str, typed: tuple[str, float]
) -> None:
    assert say.typed_unit(matrix, kind) == typed


def test_known_cells_are_counted_by_how_they_are_known() -> None:
    by_hand = replace(TOLERATED.cells[0], source=Source.OVERRIDE)
    some = cells(tolerated=(by_hand, *TOLERATED.cells[1:]))
    found = known_in(some)
    # 2 + 3 + 6 + 6 + 10 + 10 cells, the last of each inferred
    assert (found.measured, found.by_hand, found.cells) == (30, 1, 37)
    assert found.share == pytest.approx(31 / 37)


def test_stored_cells_are_read_with_what_is_not_known_as_nan() -> None:
    part = {
        "columns": ["a"],
        "value": [2.0],
        "low": [1.0],
        "high": [3.0],
        "source": ["inferred"],
        "samples": [0],
        "standard_error": [None],
        "at_s": [None],
    }
    read = read_cells({name.value: part for name in MatrixName})
    (one,) = read[MatrixName.CAUSED]
    assert (one.matrix, one.source, one.samples) == (MatrixName.CAUSED, Source.INFERRED, 0)
    assert repr((one.standard_error, one.at_s)) == "(nan, nan)"
