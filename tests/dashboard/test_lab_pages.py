"""Pages and figures of the Lab."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.dashboard.core import lab_facts, lab_matrix
from apps.dashboard.figures import lab_curves, lab_differences, lab_front, lab_halving, lab_used
from apps.dashboard.selectors import lab as selectors
from apps.operations.services import cancel_operation
from apps.placement.models import Activation, PreferenceSet
from apps.scheduling.core.registry import DEFAULT
from apps.scheduling.services.default_policy import apply_policy
from apps.testbed.models import LabComparison, LabRun
from tests import factories
from tests.placement.front_world import preference_set
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


def offered(page: str) -> list[str]:
    """Names of the offered weights, those that are chosen with a star."""
    boxes = re.findall(r'name="weights" value="([^"]+)"[^>]*?( checked)?>', page)
    return [name + ("*" if chosen else "") for name, chosen in boxes]


def test_the_form_offers_preference_sets_as_settings(operator: Client) -> None:
    assert "Weights of Calibrate" not in operator.get("/lab/").content.decode()
    olga = User.objects.get(username="olga")
    for name in ("first", "second"):
        preference_set(olga, name)
    page = operator.get("/lab/").content.decode()
    assert offered(page) == ["second", "first"]
    assert 'data-weights="{&quot;P&quot;: 1.0, &quot;D&quot;: 1.0, &quot;C&quot;: 1.0}"' in page
    assert "P 1 D 1 C 1" in page


def test_the_weights_in_force_come_first_and_are_named(operator: Client) -> None:
    olga = User.objects.get(username="olga")
    preference_set(olga, "newer")
    used = PreferenceSet.objects.get(name=preference_set(olga, "used").name)
    PreferenceSet.objects.filter(pk=used.pk).update(created_at=used.created_at - timedelta(days=9))
    Activation.objects.create(
        preference_set=used, weights=used.weights, message="m", created_by=olga, cluster_s=0.0
    )
    page = operator.get("/lab/?weights=newer").content.decode()
    assert offered(page) == ["used", "newer*"]
    assert "P 1 D 1 C 1, in force" in page
    assert 'name="policy" value="random">' in page  # compared with the policy in use alone


def test_an_address_may_hold_weights_that_are_not_saved(operator: Client) -> None:
    page = operator.get("/lab/", {"weights": "P=0.22,D=1,C=0.36"}).content.decode()
    assert offered(page) == ["P 0.22 D 1 C 0.36*"]


@pytest.mark.parametrize(
    "text", ["none", "P=x", "P=-1", "money=1", "P=inf", "P=nan", "P=0", "", "=1", "P=1,P"]
)
def test_unusable_weights_of_an_address_are_left_out(operator: Client, text: str) -> None:
    answer = operator.get("/lab/", {"weights": text})
    assert answer.status_code == 200
    assert offered(answer.content.decode()) == []


def test_the_table_counts_the_migrations_of_a_setting_with_weights() -> None:
    found = lab_world.finished()
    grid = [
        {**each, "options": {**each["options"], "weights": {"P": 0.22, "D": 1.0}}}
        for each in found.grid
    ]
    assert found.result is not None
    table = lab_matrix.matrix({**found.result, "migrations": {"tarcil": 1234.4}}, grid)
    notes = {row.setting: row.note for row in table.rows}
    assert notes["tarcil"] == "policy tarcil, weights P 0.22 D 1; 1,234 migrations a run"
    assert notes["random"] == "policy random, weights P 0.22 D 1"


def shown_to(role: Role, found: LabComparison) -> str:
    client = Client()
    client.force_login(factories.user(f"a {role}", role=role))
    return client.get(f"/lab/{found.pk}/").content.decode()


def test_an_administrator_may_apply_a_winner_that_beats_the_policy_in_use() -> None:
    factories.cluster()
    found = lab_world.finished()
    apply_policy("random", reason="x", by=None)
    page = shown_to(Role.ADMIN, found)
    assert 'data-dialog="lab-apply"' in page
    assert 'data-policy="tarcil" data-generation="2"' in page
    assert "The cluster uses random." in page
    page = shown_to(Role.OPERATOR, found)
    assert "lab-apply" not in page
    assert "An administrator can apply tarcil." in page


def test_a_winner_is_not_offered_if_the_policy_in_use_was_not_compared() -> None:
    factories.cluster()
    page = shown_to(Role.ADMIN, lab_world.finished())
    assert "lab-apply" not in page
    assert "The cluster uses expected, which was not compared" in page


def test_a_winner_in_use_is_not_offered() -> None:
    factories.cluster()
    found = lab_world.finished()
    apply_policy("tarcil", reason="x", by=None)
    page = shown_to(Role.ADMIN, found)
    assert "lab-apply" not in page
    assert "lab-winner" not in page


def test_only_a_policy_that_is_clearly_best_wins() -> None:
    found = lab_world.finished()
    assert found.result is not None
    assert lab_facts.winning_policy(found.result, found.grid) == "tarcil"
    primary = found.result["measures"][0]["key"]
    for leaders in ([], ["tarcil", "random"], ["truth"]):
        shared = {**found.result, "leaders": {primary: leaders}}
        assert lab_facts.winning_policy(shared, found.grid) == ""


@pytest.mark.parametrize(
    "more", [{"profiles": "none"}, {"servers_share": 0.8}, {"weights": {"P": 1.0}}]
)
def test_a_setting_with_other_options_cannot_be_applied(more: dict[str, object]) -> None:
    found = lab_world.finished()
    assert found.result is not None
    grid = [{**each, "options": {**each["options"], **more}} for each in found.grid]
    assert lab_facts.winning_policy(found.result, grid) == ""


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
    assert lab_differences.title(data) == "1 of 8 differences to random are clear of zero"
    assert len(lab_differences.table(data).rows) == len(data.rows)
    assert len(lab_differences.figure(data).data) == 1


def test_very_long_intervals_are_cut_so_that_the_others_can_be_read() -> None:
    energy = lab_differences.DifferenceRow(
        "a", "energy", "%", False, (1000.0, -100.0, 25_000.0), "unclear"
    )
    speed = lab_differences.DifferenceRow("a", "speed", "points", True, (5.0, 1.0, 9.0), "better")
    data = lab_differences.LabDifferences("base", (energy, speed), 2, False, clear=1, total=3)
    assert lab_differences.sub(data) == (
        "paired by seed, n = 2; 90 % intervals that hold together; 1 without a per cent not shown;"
        " the longest are cut at the edge; right is better"
    )
    assert lab_differences.figure(data).layout.xaxis.range == (-1200.0, 1200.0)
    short = lab_differences.LabDifferences("base", (speed,), 2, False, clear=1, total=1)
    assert lab_differences.figure(short).layout.xaxis.range is None


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


def test_table_figure_and_verdict_follow_the_baseline_of_the_address(operator: Client) -> None:
    found = lab_world.finished()
    page = operator.get(f"/lab/{found.pk}/?baseline=tarcil").content.decode()
    assert "tarcil beats every other setting on mean performance" in page
    assert "<dt>Baseline</dt><dd>tarcil</dd>" in page
    assert '<a href="?baseline=tarcil" class="seg-a" aria-current="true">tarcil</a>' in page
    assert '<a href="?" class="seg-a">random</a>' in page
    assert f"/figures/lab-differences/?comparison={found.pk}&amp;baseline=tarcil" in page
    assert "random − tarcil, points" in page
    data = selectors.differences(str(found.pk), "tarcil")
    assert (data.baseline, {row.setting for row in data.rows}) == ("tarcil", {"random"})
    assert data.rows[0].gain[2] < 0.0
    table = selectors.matrix(found, "tarcil")
    assert table is not None
    assert [row.role for row in table.rows] == ["baseline", "", "bound"]


def test_the_jobs_that_change_most_are_listed_beside_the_applications(operator: Client) -> None:
    found = lab_world.finished()
    job = factories.job("nightly")
    scenario = found.scenario
    scenario.job_ids = job.pk.bytes * 20
    scenario.save(update_fields=["job_ids"])
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    jobs = page[page.index('id="lab-jobs"') :]
    assert "20 of 20 jobs gain in every seed, 0 lose in every seed" in jobs
    assert f'<a href="/jobs/{job.pk}/">nightly</a>' in jobs
    assert "up to 2.5 jobs would gain in all 3 seeds by chance" in jobs
    scenario.job_ids = None
    scenario.save(update_fields=["job_ids"])
    cache.clear()
    assert "job 1 of the trace" in operator.get(f"/lab/{found.pk}/").content.decode()
    LabRun.objects.filter(comparison=found).update(performance=None)
    cache.clear()
    assert "do not store the performance" in operator.get(f"/lab/{found.pk}/").content.decode()


def test_a_cancelled_comparison_offers_to_resume(operator: Client) -> None:
    begun = lab_world.comparison()
    cancel_operation(begun.operation_id)
    page = operator.get(f"/lab/{begun.pk}/").content.decode()
    assert 'data-lab="resume"' in page
    assert "0 of 9 runs are stored." in page


def test_a_comparison_says_which_runs_another_version_made(operator: Client) -> None:
    begun = lab_world.comparison()
    cancel_operation(begun.operation_id)
    LabRun.objects.create(
        comparison=begun, setting="random", seed=1, record={}, wall_seconds=1.0, version="0.0.9"
    )
    page = operator.get(f"/lab/{begun.pk}/").content.decode()
    assert "and makes 1 of another version of Berth again." in page


def test_a_comparison_says_how_many_runs_were_made_again(operator: Client) -> None:
    found = lab_world.finished()
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    assert "of another version" not in page
    LabComparison.objects.update(runs_discarded=2)
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    assert "2 runs of another version" in page


def test_a_new_comparison_may_use_a_stored_scenario(operator: Client) -> None:
    scenario = lab_world.comparison().scenario
    page = operator.get(f"/lab/?scenario={scenario.pk}").content.decode()
    assert f'name="scenario" value="{scenario.pk}" data-jobs="20" data-servers="6"' in page
    assert '<fieldset class="lab-source" hidden disabled>' in page
    for unknown in ("x", "00000000-0000-0000-0000-000000000000"):
        assert 'name="scenario"' not in operator.get(f"/lab/?scenario={unknown}").content.decode()


def test_the_form_is_filled_in_from_the_address(operator: Client) -> None:
    page = operator.get("/lab/?hours=48&policy=quietest&policy=x").content.decode()
    for name, is_checked in (("quietest", True), (DEFAULT, True), ("random", False)):
        box = f'name="policy" value="{name}"'
        assert (f"{box} checked>" in page) is is_checked
        assert box in page
    assert 'name="hours" type="number" min="0.1" max="744" step="any" value="48"' in page
    assert 'name="name" required maxlength="127" value="Last 48 h"' in page
    for text, shown in (("x", "24"), ("nan", "24"), ("9999", "744")):
        assert f'value="Last {shown} h"' in operator.get(f"/lab/?hours={text}").content.decode()


@pytest.mark.parametrize("path", ["/system/", "/submit/"])
def test_operators_may_try_policies_where_one_is_chosen(operator: Client, path: str) -> None:
    link = 'href="/lab/?hours=24&amp;policy='
    assert link in operator.get(path).content.decode()
    operator.force_login(factories.user("vic", role=Role.VIEWER))
    assert link not in operator.get(path).content.decode()


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
    assert lab_front.title(data) == (
        "tarcil has the best mean in both; its lead is clear in performance only"
    )
    rows = {row[0]: row[3] for row in lab_front.table(data).rows}
    assert rows == {"tarcil": "yes", "random": "no", "truth": "bound"}
    figure = lab_front.figure(data)
    assert [trace.name for trace in figure.data] == [None, "tarcil", "random", "truth"]


@pytest.mark.parametrize(
    ("leaders", "title"),
    [
        (("a", "a"), "a leads in performance and in jobs near full speed"),
        (("", ""), "a has the best mean in both; its lead is clear in neither"),
        (("", "a"), "a has the best mean in both; its lead is clear in jobs near full speed only"),
    ],
)
def test_a_setting_leads_where_its_lead_is_clear(leaders: tuple[str, str], title: str) -> None:
    point = lab_front.FrontPoint("a", (1.0, 0.0, 2.0), (1.0, 0.0, 2.0), is_bound=False)
    assert lab_front.title(lab_front.LabFront((point,), 2, None, (), leaders)) == title


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


def test_a_comparison_at_several_loads_shows_a_front_for_each(operator: Client) -> None:
    found = lab_world.finished_at_loads()
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    fronts = [f"/figures/lab-front/?comparison={found.pk}&amp;load={x}" for x in ("0.5", "1", "2")]
    assert [page.count(front) for front in fronts] == [1, 1, 1]
    assert 'aria-current="true">×1</a>' in page
    assert "tarcil beats random on mean performance by 20" in page
    half = operator.get(f"/lab/{found.pk}/?load=0.5").content.decode()
    assert "tarcil, load ×0.5 beats random, load ×0.5 on mean performance by 30" in half
    table = half[half.index("lab-matrix") : half.index("lab-key")]
    assert table.count('<th scope="row">') == 3
    assert f"/figures/lab-curves/?comparison={found.pk}&amp;load=0.5" in half


def test_the_figures_of_a_load_have_its_settings_on_common_axes() -> None:
    key = str(lab_world.finished_at_loads().pk)
    half, double = selectors.front(key, "0.5"), selectors.front(key, "2")
    assert lab_front.title(half).startswith("Load ×0.5: tarcil, load ×0.5")
    assert [point.setting for point in double.points] == [
        "tarcil, load ×2", "random, load ×2", "truth, load ×2",
    ]  # fmt: skip
    ranges = [lab_front.figure(data).layout.yaxis.range for data in (half, double)]
    assert ranges[0] == ranges[1]
    assert len(lab_front.table(half).rows) == 3
    assert selectors.curves(key, "2").names[0] == "tarcil, load ×2"
    assert selectors.used(key, "2").bound == "truth, load ×2"
    rows = selectors.differences(key, "", "0.5").rows
    assert {row.setting for row in rows} == {"tarcil, load ×0.5"}
    assert selectors.differences(key, "tarcil, load ×2", "2").baseline == "tarcil, load ×2"


def test_a_sweep_shows_when_and_why_a_setting_was_dropped(operator: Client) -> None:
    found = lab_world.finished_sweep()
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    sweep = page[page.index('id="lab-sweep"') :]
    assert "1 of 3 settings dropped as clearly worse" in sweep
    row = sweep[sweep.index('<th scope="row">weak</th>') :]
    assert row.index("tarcil") < row.index("</tr>")
    data = selectors.halving(str(found.pk))
    assert [line.setting for line in data.lines if line.is_dropped] == ["weak"]
    assert lab_halving.title(data) == "1 of 3 settings were dropped early"
    figure = lab_halving.figure(data)
    weak = next(trace for trace in figure.data if trace.name == "weak")
    assert weak.marker.symbol[-1] == "x"
    assert lab_halving.table(data).head[-1] == "Dropped"
    assert lab_halving.table(data).rows[2][-1] == f"after {weak.x[-1]}"


def test_a_comparison_that_is_no_sweep_has_no_rounds(operator: Client) -> None:
    found = lab_world.finished()
    assert 'id="lab-sweep"' not in operator.get(f"/lab/{found.pk}/").content.decode()
    data = selectors.halving(str(found.pk))
    assert (data.lines, data.rounds) == ((), ())
    assert "first round" in lab_halving.figure(data).layout.annotations[-1].text


def test_the_page_says_how_often_servers_fail(operator: Client) -> None:
    found = lab_world.finished()
    scenario = found.scenario
    assert "Server failures" not in operator.get(f"/lab/{found.pk}/").content.decode()
    scenario.source["failures"] = {"per_day": 2.5, "repair_s": 3600.0}
    scenario.save(update_fields=["source"])
    page = operator.get(f"/lab/{found.pk}/").content.decode()
    assert "<dt>Server failures</dt><dd>2.5 a day, 1 h each</dd>" in page
