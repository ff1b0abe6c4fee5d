"""The page of `world_report`: every figure has its table, and the file stands alone."""

import numpy as np

from apps.dashboard.figures import world_fit
from apps.testbed.core.world_fit.compare import ComparedFigure, Interval
from apps.testbed.core.world_fit.groups import GROUPS
from apps.testbed.core.world_fit.report import GroupReport, WorldReport


def found() -> WorldReport:
    figure = ComparedFigure(
        "noise", "mean", Interval(1.0, 0.9, 1.1), None, {"measured": 1.05, "paper": 2.0}, {}
    )
    samples = {name: np.arange(4.0) for name in world_fit.COLOURS}
    return WorldReport(tuple(GroupReport(group, (figure,), samples) for group in GROUPS))


def test_a_figure_draws_the_measurements_and_the_worlds_over_each_other() -> None:
    group = found().groups[0]
    drawn = world_fit.figure(group)
    assert [trace.name for trace in drawn.data] == ["held in", "held out", "measured", "paper"]
    assert drawn.data[0].y.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert drawn.layout.xaxis.title.text == group.group.axis
    assert world_fit.facts(group).rows == (
        ("mean", "1.000 (0.900 to 1.100)", "-", "1.050", "2.000", "yes"),
    )


def test_the_page_has_a_table_for_each_figure_and_no_tool_bar() -> None:
    page = world_fit.page(found())
    assert page.count("<table>") == page.count("Plotly.newPlot(") == len(GROUPS)
    assert page.count('"displayModeBar": false') == len(GROUPS)
    every = len(GROUPS)
    assert f"{every} of {every} figures of the measured world are inside their interval" in page
    assert 'src="http' not in page
