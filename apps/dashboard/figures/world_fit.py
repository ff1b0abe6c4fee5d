"""The page of `world_report`: distributions drawn over each other, each with its table."""

from html import escape
from typing import Final

import numpy as np
import plotly.graph_objects as go

from apps.dashboard.figures.theme import Table
from apps.testbed.core.world_fit.report import HEAD, GroupReport, WorldReport, as_text, table

HEIGHT: Final = 320
# A file that stands alone has no theme: colours that differ in light, dark and grey.
COLOURS: Final = {
    "held in": "#3b6fd4",
    "held out": "#7fa8ec",
    "measured": "#d9822b",
    "paper": "#8a8a8a",
}
STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1e24; --bg: #ffffff; --rule: #d5d9e0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8ec; --bg: #16181d; --rule: #3a3f49; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--bg);
  margin: 0 auto; max-width: 62rem; padding: 1rem; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
.wide { overflow-x: auto; }
th, td { border-bottom: 1px solid var(--rule); padding: 4px 10px 4px 0; text-align: left;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
h2 { margin-top: 2.5rem; font-size: 18px; }
"""


def title(data: GroupReport) -> str:
    """Return the heading."""
    return data.group.title


def sub(data: GroupReport) -> str:
    """Return the sets, and what was resampled."""
    return f"{', '.join(data.group.sets)}; intervals of 90 % from resampled {data.group.resampled}"


def facts(data: GroupReport) -> Table:
    """Return one row per figure."""
    return Table(HEAD, tuple(table(data.figures)))


def figure(data: GroupReport) -> go.Figure:
    """Draw the cumulative distributions of the measurements and of the worlds."""
    chart = go.Figure()
    for name, values in data.samples.items():
        share = np.arange(1, len(values) + 1) / len(values)
        chart.add_scatter(
            x=values,
            y=share,
            name=name,
            mode="lines",
            line={
                "color": COLOURS[name],
                "shape": "hv",
                "dash": "dot" if name == "held out" else "solid",
            },
        )
    chart.update_layout(
        height=HEIGHT,
        margin={"l": 50, "r": 12, "t": 20, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#8a8f99"},
        legend={"orientation": "h", "y": 1.12},
    )
    lines = {"gridcolor": "rgba(128,128,128,0.2)", "zerolinecolor": "rgba(128,128,128,0.4)"}
    chart.update_xaxes(title=data.group.axis, **lines)
    chart.update_yaxes(title="share of values", range=[0, 1], **lines)
    return chart


def page(found: WorldReport) -> str:
    """Return the page; the first figure brings Plotly along, so that the file stands alone."""
    parts = []
    for i, group in enumerate(found.groups):
        drawn = figure(group).to_html(
            full_html=False, include_plotlyjs=i == 0, config={"displayModeBar": False}
        )
        parts.append(
            f"<h2>{escape(title(group))}</h2><p>{escape(sub(group))}</p>{drawn}{_html(facts(group))}"
        )
    verdict = "".join(f"<p>{escape(line)}</p>" for line in as_text(found).splitlines()[-2:])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>World report</title>'
        f"<style>{STYLE}</style></head><body><h1>How the worlds resemble the measurements</h1>"
        f"{verdict}{''.join(parts)}</body></html>\n"
    )


def _html(rows: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows.head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows.rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
