"""Pages and figures of the Lab."""

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.dashboard.core import lab_facts
from apps.dashboard.figures import lab_curves, lab_differences, lab_front, lab_used
from apps.dashboard.selectors import lab as selectors
from apps.operations.services import cancel_operation
from tests import factories
from tests.testbed import lab_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client: Client) -> Client:
    """A browser of an operator."""
    factories.cluster()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def test_the_list_names_state_runs_and_verdict(operator: Client) -> None:
    found = lab_world.finished(name="three policies")
    page = operator.get("/lab/").content.decode()
    assert f'href="/lab/{found.pk}/"' in page
    assert '9<span class="t3"> of 9</span>' in page
    assert "Succeeded" in page


def test_the_list_without_comparisons_says_what_one_is(operator: Client) -> None:
    page = operator.get("/lab/").content.decode()
    assert "No comparisons yet" in page
    assert 'name="policy" value="tarcil"' in page


def test_a_viewer_reads_that_the_lab_is_for_operators(client: Client) -> None:
    factories.cluster()
    client.force_login(factories.user("vic", role=Role.VIEWER))
    assert client.get("/lab/").status_code == 403
    shown = client.get("/").content.decode()
    assert 'href="/lab/"' not in shown


def test_a_waiting_comparison_shows_progress_and_can_be_cancelled(operator: Client) -> None:
    begun = lab_world.comparison()
    page = operator.get(f"/lab/{begun.pk}/").content.decode()
    assert "<b>0 of 9 runs</b>" in page
    assert f'data-lab="cancel" data-operation="{begun.operation_id}"' in page
    assert "The table appears with the last run." in page


def test_a_finished_comparison_shows_verdict_and_every_setting(operator: Client) -> None:
    found = lab_world.finished()
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    assert "tarcil beats random on mean performance by" in page
    assert 'data-lab="cancel"' not in page
    table = page[page.index("lab-matrix") :]
    assert [table.count(f'<th scope="row">{name}<') for name in ("tarcil", "random", "truth")] == [
        1,
        1,
        1,
    ]
    assert 'data-outcome="better"' in table
    assert found.digest[:12] in page


def test_the_matrix_highlights_only_what_is_clearly_best() -> None:
    found = selectors.matrix(lab_world.finished())
    assert found is not None
    leading = {
        (row.setting, head[0])
        for row in found.rows
        for head, cell in zip(found.heads, row.cells, strict=True)
        if cell.leads
    }
    assert leading == {("tarcil", "mean performance")}
    assert [row.role for row in found.rows] == ["", "baseline", "bound"]
    assert found.note.startswith("1 of 8 differences are clear of zero.")


def test_one_seed_claims_nothing() -> None:
    found = lab_world.finished(seeds=(1,))
    table = selectors.matrix(found)
    assert table is not None
    assert table.note == "One seed has no intervals, so nothing is compared or highlighted."
    assert not any(cell.leads or cell.interval for row in table.rows for cell in row.cells)
    data = selectors.differences(str(found.pk))
    assert lab_differences.title(data) == "No differences with intervals"
    assert lab_differences.sub(data) == "one seed has no intervals; two or more have"
    assert "two or more seeds" in lab_differences.figure(data).layout.annotations[-1].text


def test_an_unknown_comparison_is_not_found(operator: Client) -> None:
    missing = "00000000-0000-0000-0000-000000000000"
    assert operator.get(f"/lab/{missing}/").status_code == 404
    assert operator.get(f"/figures/lab-curves/?comparison={missing}").status_code == 404
    assert operator.get("/figures/lab-differences/?comparison=x").status_code == 404


def test_the_curves_have_a_line_and_a_column_for_each_setting() -> None:
    data = selectors.curves(str(lab_world.finished().pk))
    figure = lab_curves.figure(data)
    assert [trace.name for trace in figure.data] == ["tarcil", "random", "truth"]
    assert figure.layout.xaxis.title.text.startswith("performance of a job")
    table = lab_curves.table(data)
    assert table.head == ("Performance at most", "tarcil", "random", "truth")
    assert table.rows[1] == ("0.5", "41.7 %", "50.0 %", "40.0 %")
    assert lab_curves.title(data) == (
        "Jobs at half speed or less: 40.0 % under truth, 50.0 % under random"
    )


def test_the_differences_point_right_where_a_setting_is_better() -> None:
    data = selectors.differences(str(lab_world.finished().pk))
    row = data.rows[0]
    assert (row.setting, row.measure, row.unit, row.outcome) == (
        "tarcil",
        "mean performance",
        "points",
        "better",
    )
    assert row.gain[1] > 0.0
    assert lab_differences.title(data).endswith("differences to random are clear")
    assert len(lab_differences.table(data).rows) == len(data.rows)
    assert len(lab_differences.figure(data).data) == 1


def test_a_lower_wait_is_a_gain() -> None:
    row = lab_differences.DifferenceRow("a", "p99 wait", "%", False, (-4.0, -6.0, -2.0), "better")
    assert row.gain == (4.0, 2.0, 6.0)


def test_figures_without_a_result_have_axes_and_a_sentence() -> None:
    key = str(lab_world.comparison().pk)
    for module, data in (
        (lab_curves, selectors.curves(key)),
        (lab_differences, selectors.differences(key)),
        (lab_front, selectors.front(key)),
        (lab_used, selectors.used(key)),
    ):
        figure = module.figure(data)
        assert not figure.data
        assert "with the last run" in figure.layout.annotations[-1].text
        assert module.table(data).rows == ()


def test_the_page_shows_key_figures_changes_and_settings(operator: Client) -> None:
    found = lab_world.finished()
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    assert "tarcil beats random on 1 of 8 measures, loses on none" in page
    assert "<dt>Best policy</dt><dd>tarcil</dd>" in page
    assert 'data-lab="delete"' in page
    assert 'data-lab="resume"' not in page
    assert f"?scenario={found.scenario_id}" in page
    assert 'data-figure="/figures/lab-front/?comparison=' in page
    assert 'data-figure="/figures/lab-used/?comparison=' in page
    changes = page[page.index('id="lab-changes"') :]
    assert f"{len(found.result['applications'])} of" in changes  # type: ignore[index]
    assert 'aria-current="true">tarcil</a>' in changes


def test_a_cancelled_comparison_offers_to_resume(operator: Client) -> None:
    begun = lab_world.comparison()
    cancel_operation(begun.operation_id)
    page = operator.get(f"/lab/{begun.pk}/").content.decode()
    assert 'data-lab="resume"' in page
    assert "0 of 9 runs are stored." in page


def test_a_new_comparison_may_use_a_stored_scenario(operator: Client) -> None:
    scenario = lab_world.comparison().scenario
    page = operator.get(f"/lab/?scenario={scenario.pk}").content.decode()
    assert f'name="scenario" value="{scenario.pk}" data-jobs="20" data-servers="6"' in page
    assert '<fieldset class="lab-source" hidden disabled>' in page
    for unknown in ("x", "00000000-0000-0000-0000-000000000000"):
        assert 'name="scenario"' not in operator.get(f"/lab/?scenario={unknown}").content.decode()


def test_the_bars_point_right_where_a_setting_is_better() -> None:
    found = selectors.matrix(lab_world.finished())
    assert found is not None
    best, base = (next(r for r in found.rows if r.setting == n) for n in ("tarcil", "random"))
    assert (best.cells[0].left, best.cells[0].width) == (15.0, 15.0)
    assert {cell.width for cell in base.cells} == {0.0}


def test_the_key_figures_are_those_of_the_best_setting() -> None:
    result = lab_world.finished().result
    assert result is not None
    best, lost, regret, energy, wait = lab_facts.facts(result)
    assert (best.name, best.value) == ("Best policy", "tarcil")
    assert (lost.value, lost.note) == (
        "0", "under tarcil, n = 60; rate below 500 in 10,000"
    )  # fmt: skip
    assert (regret.value, regret.unit) == ("5.01", "points")
    assert regret.note.endswith("; random is 25.0 away")
    assert energy.note == "0.0 kWh [0.0, 0.0] to random, within noise"
    assert (wait.name, wait.unit) == ("Wait, p99", "s")


def test_one_seed_names_no_best_policy() -> None:
    result = lab_world.finished(seeds=(1,)).result
    assert result is not None
    assert lab_facts.facts(result)[0].note.endswith("one seed proves nothing")


def test_the_front_leaves_out_the_bound_and_what_another_setting_exceeds() -> None:
    data = selectors.front(str(lab_world.finished().pk))
    assert [point.setting for point in data.points] == ["tarcil", "random", "truth"]
    assert [point.setting for point in data.front] == ["tarcil"]
    assert lab_front.title(data) == "tarcil leads in performance and in jobs near full speed"
    rows = {row[0]: row[3] for row in lab_front.table(data).rows}
    assert rows == {"tarcil": "yes", "random": "no", "truth": "bound"}
    figure = lab_front.figure(data)
    assert [trace.name for trace in figure.data] == [None, "tarcil", "random", "truth"]


def test_the_units_in_use_have_a_line_and_a_column_for_each_setting() -> None:
    data = selectors.used(str(lab_world.finished().pk))
    figure = lab_used.figure(data)
    assert [trace.name for trace in figure.data] == ["tarcil", "random", "truth"]
    table = lab_used.table(data)
    assert table.head == ("Time since the first job", "tarcil", "random", "truth")
    assert table.rows[0][1:] == ("30.0 %", "50.0 %", "25.0 %")
    assert table.rows[-1][1:] == ("0.0 %", "0.0 %", "25.0 %")
    assert (
        lab_used.title(data)
        == "Units in use peak at 25.0 % under truth and at 50.0 % under random"
    )
