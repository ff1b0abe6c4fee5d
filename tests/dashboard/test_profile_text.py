"""Texts of profiles."""

from dataclasses import replace

import pytest

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import Driver, Neighbour
from apps.dashboard.core import profile_text as say
from apps.dashboard.core.profile_cells import ProfileCell, count_known, read_cells
from tests.dashboard.profile_parts import CAUSED, OUT, PLATFORMS, RATE, TOLERATED, UP, cell, cells

KIND = "latency_critical"
TOLERATES = cell(MatrixName.TOLERATED, "memory_bandwidth", 40.2)


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (
            TOLERATES,
            "Tolerates memory-bandwidth pressure up to 40 %; loses 5 % or more above that",
        ),
        (replace(TOLERATES, value=99.6), "Tolerates any memory-bandwidth pressure"),
        (replace(TOLERATES, value=0.3), "Loses 5 % or more under any memory-bandwidth pressure"),
        (CAUSED.cells[1], "One unit puts 62 % of memory-bandwidth pressure on other units"),
        (UP.cells[0], "One unit is the reference"),
        (UP.cells[3], "8 units of one server do the work of 7.2"),
        (OUT.cells[0], "One server is the reference"),
        (OUT.cells[4], "On 16 servers, each reaches 75 % of its speed alone"),
        (PLATFORMS.cells[0], "The highest-end platform is the reference"),
        (PLATFORMS.cells[1], "On A it reaches 40 % of its speed on J"),
        (PLATFORMS.cells[2], "1.2 × as fast on B as on J"),
        (replace(PLATFORMS.cells[1], value=1.001), "As fast on A as on J"),
        (RATE.cells[0], "One unit of J achieves 12.3 k queries/s"),
        (RATE.cells[1], "One unit of J processes 4.2 MB/s"),
    ],
)
def test_a_cell_is_a_sentence(shown: ProfileCell, sentence: str) -> None:
    assert say.sentence(shown, KIND, "J") == sentence


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("latency_critical", "12.3 k queries/s"),
        ("single_node", "12.3 k instr./s"),
        ("analytics", "12.3 kB/s"),
        ("batch", "12.3 kB/s"),
        ("", "12.3 kB/s"),
    ],
)
def test_the_rate_is_in_the_unit_of_the_kind(kind: str, sentence: str) -> None:
    assert say.value_text(MatrixName.BASE_RATE, "metric", 12_300.0, kind) == sentence


def test_an_inferred_cell_shows_its_interval() -> None:
    guessed = replace(TOLERATES, source=Source.INFERRED, low=31.0, high=52.4)
    assert say.certainty(guessed, KIND) == "inferred, 90 % interval 31–52 %"


def test_certainty_of_measured_and_overridden_cells() -> None:
    assert say.certainty(TOLERATES, KIND) == "measured, 8 samples"
    assert say.certainty(replace(TOLERATES, source=Source.OVERRIDE), KIND) == "set by hand"


def test_an_interval_names_a_common_unit_once() -> None:
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


def test_facts_cover_speed_scaling_and_interference() -> None:
    assert [fact.sentence for fact in say.facts(cells(), KIND)] == [
        "One unit of J achieves 12.3 k queries/s",
        "Fastest on B; slowest on A, at 33 % of that speed",
        "Scales to 8 units of one server; 16 keep 75 % of linear",
        "Scales to 8 servers; 16 keep 75 % of linear",
        "Tolerates L1-instruction pressure up to 35 %; loses 5 % or more above that",
        "Tolerates memory-bandwidth pressure up to 41 %; loses 5 % or more above that",
        "One unit puts 62 % of memory-bandwidth pressure on other units",
    ]


def test_single_server_kinds_have_no_scale_out_fact() -> None:
    sentence = " ".join(fact.sentence for fact in say.facts(cells(), "single_node"))
    assert "servers" not in sentence


def test_a_curve_that_scales_to_the_end() -> None:
    good = cells(scale_up=[replace(c, value=int(c.column)) for c in UP.cells])
    sentences = [fact.sentence for fact in say.facts(good, KIND)]
    assert "Scales to 32 units of one server, keeping 100 % of linear" in sentences


def test_a_curve_that_does_not_scale() -> None:
    flat = [replace(c, value=1.0) for c in OUT.cells[:1]]
    flat += [replace(c, value=0.3) for c in OUT.cells[1:]]
    sentences = [fact.sentence for fact in say.facts(cells(scale_out=flat), KIND)]
    assert "Gains little from more servers; 2 keep 30 % of linear" in sentences


def test_a_curve_with_an_overridden_reference_is_described() -> None:
    low = [replace(c, value=0.2) for c in OUT.cells]
    sentences = [fact.sentence for fact in say.facts(cells(scale_out=low), KIND)]
    assert "Gains little from more servers; 2 keep 20 % of linear" in sentences


def test_the_interval_of_a_share_is_given_as_a_share() -> None:
    guessed = [replace(c, source=Source.INFERRED) for c in UP.cells]
    certainties = {
        fact.sentence: fact.certainty for fact in say.facts(cells(scale_up=guessed), KIND)
    }
    assert certainties["Scales to 8 units of one server; 16 keep 75 % of linear"] == (
        "inferred, 90 % interval 71–79 %"
    )


def neighbour(*drivers: Driver) -> Neighbour:
    return Neighbour("other", 0.8, 1, 0.9, drivers)


def test_common_columns_are_grouped_by_matrix_and_direction() -> None:
    similar = neighbour(
        Driver(MatrixName.SCALE_OUT, "16", is_above=False),
        Driver(MatrixName.SCALE_OUT, "8", is_above=False),
        Driver(MatrixName.TOLERATED, "llc_capacity", is_above=True),
    )
    assert say.shared(similar) == (
        "both keep less speed on 8 and 16 servers and tolerate more LLC-capacity pressure"
    )


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [
        (Driver(MatrixName.CAUSED, "tlb", is_above=True), "both cause more TLB pressure"),
        (
            Driver(MatrixName.SCALE_UP, "4", is_above=False),
            "both gain less from 4 units of a server",
        ),
        (Driver(MatrixName.HETEROGENEITY, "A", is_above=True), "both are faster on A"),
    ],
)
def test_every_matrix_has_a_text_for_common_columns(driver: Driver, sentence: str) -> None:
    assert say.shared(neighbour(driver)) == sentence


def test_neighbours_without_a_dominant_column() -> None:
    assert say.shared(neighbour()) == "similar in most measures"


def test_only_an_application_unlike_the_library_has_a_caution() -> None:
    codes = ["scale_up:unfamiliar", "tolerated:one_cell", "heterogeneity:far", "scale_up:far"]
    assert say.caution("etl", codes) == (
        "The measured values of etl do not fit the applications of the library"
        " (scale-up, platforms), so this prediction is less certain than usual."
    )
    assert say.caution("etl", ["tolerated:one_cell", "scale_up:no_cell"]) == ""


def test_flags_have_a_name_and_an_explanation() -> None:
    assert say.flag("far") == say.Flag(
        "outside the library's range",
        "A measured value lies far outside the range of the library.",
    )
    assert say.flag("scale_up:unfamiliar").name == "Scale-up: unlike the library"
    assert say.flag("scale_up:one_cell").name == "Scale-up: only one cell measured"
    assert say.flag("some_thing_new") == say.Flag("some thing new", "some_thing_new")


def test_drift_text_gives_the_direction() -> None:
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
def test_values_are_entered_in_the_displayed_unit(
    matrix: MatrixName, kind: str, typed: tuple[str, float]
) -> None:
    assert say.typed_unit(matrix, kind) == typed


def test_measured_and_overridden_cells_are_counted() -> None:
    by_hand = replace(TOLERATED.cells[0], source=Source.OVERRIDE)
    some = cells(tolerated=(by_hand, *TOLERATED.cells[1:]))
    known_counts = count_known(some)
    # 2 + 3 + 6 + 6 + 10 + 10 cells, the last of each inferred
    assert (known_counts.measured, known_counts.by_hand, known_counts.cells) == (30, 1, 37)
    assert known_counts.share == pytest.approx(31 / 37)


def test_unknown_values_of_stored_cells_become_nan() -> None:
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
    (cell,) = read[MatrixName.CAUSED]
    assert (cell.matrix, cell.source, cell.samples) == (MatrixName.CAUSED, Source.INFERRED, 0)
    assert repr((cell.standard_error, cell.at_s)) == "(nan, nan)"
