"""What waits for the charts that are in the window when a page opens."""

from tests.browser.unit.conftest import Script

WATCH = """const { firstCharts, startCharts } = await load(`charts.js?${argument}`);
    let isSettled = false;
    firstCharts.then(() => { isSettled = true; });
"""
WITH_CHART = """
    document.body.innerHTML = `<meta name="berth-chart-theme" content="/unit">
        <meta name="berth-plotly" content="/none.js">
        <figure class="chart" data-figure="/figure"><h2 class="chart-title"></h2>
        <p class="chart-sub"></p><div class="plot" aria-busy="true"></div></figure>`;
    const original = window.fetch;
    let answer = null;
    const asked = new Promise((resolve) => {
        window.fetch = (url) => new Promise((reply) => {
            if (String(url).endsWith("/figure")) { answer = reply; resolve(); }
            else reply(new Response("{}"));
        });
    });
"""


def test_a_page_without_charts_does_not_wait(js: Script) -> None:
    assert js(WATCH + "startCharts(); await firstCharts; return isSettled;", "none") is True


def test_live_updates_wait_until_a_chart_is_drawn_or_has_failed(js: Script) -> None:
    script = (
        WATCH
        + WITH_CHART
        + """
        startCharts();
        await asked;
        const before = isSettled;
        answer(new Response("", { status: 500 }));
        await firstCharts;
        window.fetch = original;
        return [before, isSettled, document.querySelector(".chart").classList.contains("failed")];
        """
    )
    assert js(script, "chart") == [False, True, True]
