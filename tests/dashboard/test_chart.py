"""The parts of a figure while it is drawn."""

import plotly.graph_objects as go
import pytest

from apps.dashboard.figures.chart import Chart


def test_parts_keep_their_order() -> None:
    chart = Chart({"height": 100})
    chart.add_annotation({"text": "a"}, x=1)
    chart.add_shape(type="line", x0=0)
    chart.add_bar(x=[1], y=[2])
    chart.add_annotation(text="b")
    chart.add_shape({"type": "rect"})
    chart.add_scatter(x=[1], y=[3])
    figure = chart.figure()
    assert [note.text for note in figure.layout.annotations] == ["a", "b"]
    assert [shape.type for shape in figure.layout.shapes] == ["line", "rect"]
    assert [trace.type for trace in figure.data] == ["bar", "scatter"]
    assert (figure.layout.height, figure.layout.annotations[0].x) == (100, 1)


def test_a_part_with_an_unknown_property_is_refused() -> None:
    chart = Chart({})
    chart.add_scatter(colour="red")
    with pytest.raises(ValueError, match="colour"):
        chart.figure()


def test_each_shape_is_validated_once_for_all_that_are_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[object] = []
    build = go.layout.Shape.__init__

    def count(shape: object, *given: object, **named: object) -> None:
        built.append(shape)
        build(shape, *given, **named)

    monkeypatch.setattr(go.layout.Shape, "__init__", count)
    chart = Chart({})
    for _ in range(20):
        chart.add_shape(type="line")
    assert len(chart.figure().layout.shapes) == 20
    assert len(built) <= 3 * 20
