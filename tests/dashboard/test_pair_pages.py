"""The pages and figures of measured pairs."""

from dataclasses import replace

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.classification.core.estimates import Estimate
from apps.dashboard.core.pair_text import SideFacts, finding
from apps.dashboard.figures import pair_deviation, pair_slowdowns
from apps.dashboard.figures.pair_deviation import Deviation, Deviations
from apps.dashboard.selectors import pairs as selectors
from apps.operations.models import Operation
from apps.testbed.models import MeasuredPair
from tests import factories

PREDICTED = Estimate(1.2, 1.1, 1.3)
SLOWER, SAME = Estimate(1.25, 1.2, 1.3), Estimate(1.0, 0.98, 1.02)
SIDE = SideFacts("xz", ("xz", "in"), 1, PREDICTED, SLOWER, holds=True, overlaps=True)
OTHER = replace(SIDE, application="bzip2", measured=SAME, holds=False, overlaps=False)


@pytest.mark.parametrize(
    ("sides", "text"),
    [
        (
            (SIDE, OTHER),
            "Next to each other, xz takes 25.0 % longer and bzip2 takes as long as alone, within "
            "noise: the prediction of xz holds",
        ),
        (
            (SIDE, SIDE),
            "Next to each other, xz takes 25.0 % longer and xz takes 25.0 % longer: both "
            "predictions hold",
        ),
        (
            (replace(SIDE, holds=None, predicted=None), replace(OTHER, holds=None)),
            "Next to each other, xz takes 25.0 % longer and bzip2 takes as long as alone, within "
            "noise: nothing was predicted",
        ),
        (
            (OTHER, replace(OTHER, measured=Estimate(0.9, 0.88, 0.92))),
            "Next to each other, bzip2 takes as long as alone, within noise and bzip2 takes "
            "10.0 % less time: no prediction holds",
        ),
        (
            (replace(SIDE, measured=None), OTHER),
            "What xz and bzip2 cost each other, predicted and measured",
        ),
    ],
    ids=["one", "both", "none", "off", "open"],
)
def test_the_finding_is_one_sentence(sides: tuple[SideFacts, SideFacts], text: str) -> None:
    assert finding(sides, is_emulated=False) == text


def test_a_wide_interval_is_no_prediction_that_holds() -> None:
    wide = replace(SIDE, predicted=Estimate(2.0, 1.03, 6.6))
    text = finding((wide, SIDE), is_emulated=False)
    assert text.endswith(f"the predicted interval of {SIDE.application} is too wide to tell")


def test_a_prediction_that_does_not_hold_is_named_before_one_too_wide_to_tell() -> None:
    wide = replace(SIDE, predicted=Estimate(2.0, 1.03, 6.6))
    assert finding((OTHER, wide), is_emulated=False).endswith(
        "within noise and xz takes 25.0 % longer: the prediction of bzip2 does not hold; the "
        "predicted interval of xz is too wide to tell"
    )


def test_an_emulated_finding_says_so() -> None:
    assert finding((SIDE, SIDE), is_emulated=True).startswith("In the emulator, next to each")


@pytest.mark.parametrize(
    ("side", "verdict", "outcome"),
    [
        (SIDE, "prediction holds", "holds"),
        (OTHER, "prediction does not hold", "off"),
        (replace(OTHER, overlaps=True), "intervals overlap", "near"),
        (replace(SIDE, predicted=Estimate(2.0, 1.03, 6.6)), "too wide to tell", "near"),
        (replace(SIDE, holds=None, measured=None), "not measured yet", "none"),
        (replace(SIDE, holds=None, missing=("xz",)), "no prediction", "none"),
    ],
    ids=["holds", "off", "near", "wide", "open", "missing"],
)
def test_a_verdict_is_a_few_words(side: SideFacts, verdict: str, outcome: str) -> None:
    assert (side.verdict, side.outcome) == (verdict, outcome)


# ---- figures ----


def deviation(predicted: float, measured: float, *, is_emulated: bool = False) -> Deviation:
    first, second = (Estimate(v, v - 0.05, v + 0.05) for v in (predicted, measured))
    return Deviation("xz", "bzip2", first, second, is_emulated)


def test_the_deviation_counts_the_predictions_that_held() -> None:
    data = Deviations((deviation(1.2, 1.2), deviation(1.0, 1.1), deviation(1.0, 1.1)))
    assert pair_deviation.title(data) == (
        "1 of 3 predictions held; half were off by at most 10.0 %"
    )
    assert "+10.0 % of the prediction" in pair_deviation.sub(data)
    assert [row[-1] for row in pair_deviation.table(data).rows] == ["0.0 %", "+10.0 %", "+10.0 %"]


def test_real_and_emulated_points_are_told_apart() -> None:
    data = Deviations((deviation(1.2, 1.2), deviation(1.0, 1.1, is_emulated=True)))
    drawn = pair_deviation.figure(data)
    assert [trace.name for trace in drawn.data] == ["real servers", "emulated"]
    low, high = drawn.layout.xaxis.range
    assert (low, high) == tuple(drawn.layout.yaxis.range)
    assert low < 1.0
    assert high > 1.2


def test_without_pairs_the_figures_have_axes_and_a_sentence() -> None:
    assert pair_deviation.title(Deviations(())) == "No prediction has been measured yet"
    assert not pair_deviation.figure(Deviations(())).data
    unmeasured = replace(SIDE, predicted=None, measured=None, holds=None, overlaps=None)
    data = pair_slowdowns.PairSlowdowns((unmeasured, unmeasured), ((), ()), is_open=True)
    assert pair_slowdowns.title(data) == "Not measured yet"
    assert not pair_slowdowns.figure(data).data


def test_a_pair_is_drawn_with_its_rounds() -> None:
    data = pair_slowdowns.PairSlowdowns((SIDE, OTHER), ((1.2, 1.3), (1.0, 1.0)), is_open=False)
    drawn = pair_slowdowns.figure(data)
    assert [list(trace.x) for trace in drawn.data] == [
        [1.2, 1.3], [1.0, 1.0], [1.2], [1.25], [1.2], [1.0],
    ]  # fmt: skip
    assert pair_slowdowns.title(data) == "xz: prediction holds; bzip2: prediction does not hold"
    assert pair_slowdowns.table(data).rows[0][1:3] == ("1.200", "[1.100, 1.300]")


def test_a_very_wide_interval_is_drawn_on_a_logarithmic_axis() -> None:
    wide = replace(SIDE, predicted=Estimate(1.9, 1.2, 32.0))
    data = pair_slowdowns.PairSlowdowns((wide, OTHER), ((), ()), is_open=False)
    assert pair_slowdowns.figure(data).layout.xaxis.type == "log"
    narrow = pair_slowdowns.PairSlowdowns((SIDE, OTHER), ((), ()), is_open=False)
    assert pair_slowdowns.figure(narrow).layout.xaxis.type is None


# ---- pages ----


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    factories.cluster()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def test_without_pairs_the_page_says_what_to_do(operator: Client) -> None:
    text = operator.get("/pairs/").content.decode()
    assert "No pair has been measured yet" in text
    assert '<option value="emulated" selected>' in text


def test_commands_are_offered_first_where_a_server_runs_them(operator: Client) -> None:
    factories.server("box", of=factories.platform("box", cores=4), backend="agent")
    factories.application("berth-pair", runs_commands=True)
    factories.application("xz", runs_commands=True)
    text = operator.get("/pairs/").content.decode()
    assert '<option value="commands" selected>' in text
    assert "<option>box</option>" in text
    assert '<option value="xz">' in text
    assert '<option value="berth-pair">' not in text


def test_the_list_shows_the_four_numbers_of_each_pair(operator: Client) -> None:
    pair = factories.measured_pair(is_emulated=True)
    text = operator.get("/pairs/").content.decode()
    assert f'href="/pairs/{pair.pk}/"' in text
    assert ">emulated</span>" in text
    assert text.count("1.200<span") == 3
    assert "prediction does not hold" in text


def test_a_pair_shows_finding_numbers_and_commands(operator: Client) -> None:
    pair = factories.measured_pair()
    text = operator.get(f"/pairs/{pair.pk}/").content.decode()
    assert "xz takes 20.0 % longer" in text
    assert "the prediction of xz holds" in text
    assert ">xz in</code>" in text
    assert "3, 1 repeated because of other programs" in text
    assert "data-pair-cancel" not in text


def test_an_open_pair_shows_its_progress_and_can_be_cancelled(operator: Client) -> None:
    pair = factories.measured_pair(result=None)
    change = {"status": "running", "progress": 1, "message": "measuring", "finished_at": None}
    Operation.objects.update(**change)
    text = operator.get(f"/pairs/{pair.pk}/").content.decode()
    assert "<b>1 of 3 rounds</b><p>Measuring.</p>" in text
    assert f'data-pair-cancel="{pair.operation_id}"' in text


@pytest.mark.parametrize(
    ("status", "text"), [("failed", "exit code 3"), ("cancelled", "Nothing was stored")]
)
def test_an_ended_pair_says_why(operator: Client, status: str, text: str) -> None:
    pair = factories.measured_pair(result=None)
    Operation.objects.update(status=status, problem={"detail": "exit code 3"})
    assert text in operator.get(f"/pairs/{pair.pk}/").content.decode()


def test_an_application_without_scores_is_named(operator: Client) -> None:
    pair = factories.measured_pair(predictions=[{"missing": ["xz"]}] * 2, result=None)
    text = operator.get(f"/pairs/{pair.pk}/").content.decode()
    assert "No scores of xz" in text


def test_pages_are_for_operators(client: Client, db: None) -> None:
    factories.cluster()
    pair = factories.measured_pair()
    client.force_login(factories.user("vera", role=Role.VIEWER))
    assert client.get("/pairs/").status_code == 403
    assert client.get(f"/pairs/{pair.pk}/").status_code == 403


def test_a_missing_pair_is_not_found(operator: Client) -> None:
    missing = "0190a1b2-0000-7000-8000-000000000000"
    assert operator.get(f"/pairs/{missing}/").status_code == 404
    assert operator.get(f"/figures/pair/?pair={missing}").status_code == 404
    assert operator.get("/figures/pair/?pair=x").status_code == 404


def test_the_figures_read_the_stored_pairs(db: None) -> None:
    pair = factories.measured_pair()
    factories.measured_pair(predictions=[{"missing": ["xz"]}] * 2)
    MeasuredPair.objects.filter(pk=factories.measured_pair().pk).update(result=None)
    assert len(selectors.deviations().points) == 2
    assert len(selectors.slowdowns(str(pair.pk)).rounds[0]) == 3
