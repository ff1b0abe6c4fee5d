"""The lower tail of distributions: p99 and p99.9 are marked, with counts."""

import numpy as np
import pytest

from apps.dashboard.figures import attainment, quality_cdf
from apps.dashboard.figures.attainment import Attainment, KindAttainment
from apps.dashboard.figures.quality_cdf import QualityCdf, kolmogorov_limit, largest_distance
from apps.dashboard.figures.tails import TailPoint, tail_cells, tail_points

RATIOS = np.arange(1, 2_001) / 1_000  # 0.001 to 2


def ranks(count: int, sample_size: int = 8) -> QualityCdf:
    values = (np.arange(1, count + 1) / count) ** (1 / sample_size)
    return QualityCdf(
        sample_size=sample_size,
        ranks=values,
        shares=np.arange(1, count + 1) / count,
        samples=count,
        distance=largest_distance(values, sample_size),
        limit=kolmogorov_limit(count),
        threshold=0.8,
        source="Live decisions",
    )


def test_all_but_the_share_reach_the_quantile() -> None:
    assert tail_points(RATIOS) == (TailPoint(0.01, 0.02, 19), TailPoint(0.001, 0.002, 1))
    for point in tail_points(RATIOS):
        assert (point.value <= RATIOS).mean() >= 1 - point.share


@pytest.mark.parametrize(("count", "points"), [(0, 0), (99, 0), (100, 1), (999, 1), (1_000, 2)])
def test_a_quantile_needs_enough_values(count: int, points: int) -> None:
    assert len(tail_points(np.sort(np.linspace(0.5, 1.5, count)))) == points


def test_cells_name_the_value_and_the_number_below() -> None:
    assert tail_cells(RATIOS) == ("0.0200 (19 below)", "0.00200 (1 below)")
    assert tail_cells(RATIOS[:50]) == ("–", "–")


def test_attainment_marks_its_tail() -> None:
    data = Attainment((KindAttainment("ips", RATIOS),), scope="in the last 1 h")
    marks = [trace for trace in attainment.figure(data).data if trace.mode == "markers"]
    assert [list(trace.y) for trace in marks] == [[0.01, 0.001]]
    assert marks[0].text == (
        "99 % reach 0.0200, 19 jobs below",
        "99.9 % reach 0.00200, 1 job below",
    )
    assert attainment.sub(data).endswith("; 99 % reach 0.0200; 99.9 % reach 0.00200")
    assert attainment.table(data).head[-2:] == ("99 % reach", "99.9 % reach")
    assert attainment.table(data).rows[0][-2:] == ("0.0200 (19 below)", "0.00200 (1 below)")


def test_few_jobs_have_no_tail() -> None:
    data = Attainment((KindAttainment("ips", RATIOS[:20]),), scope="in the last 1 h")
    assert not [trace for trace in attainment.figure(data).data if trace.mode == "markers"]
    assert "reach" not in attainment.sub(data)


def test_ranks_mark_their_tail_and_what_was_promised() -> None:
    data = ranks(2_000)
    marks = [
        trace
        for trace in quality_cdf.figure(data).data
        if trace.mode == "markers" and trace.hovertemplate
    ]
    assert [trace.y[0] for trace in marks] == [0.01, 0.001]
    assert [trace.x[0] for trace in marks] == pytest.approx([0.01 ** (1 / 8), 0.001 ** (1 / 8)])
    rows = quality_cdf.table(data).rows[-2:]
    assert [row[0] for row in rows] == ["99 % reach a rank of", "99.9 % reach a rank of"]
    assert [row[1] for row in rows] == [row[2] for row in rows] == ["0.562", "0.422"]
