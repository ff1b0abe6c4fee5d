"""The figure of predicted performance by size, and its HTTP response."""

import json
from dataclasses import replace

import numpy as np
import pytest
from django.http import Http404, QueryDict
from django.test import Client
from django.utils.http import urlencode

from apps.dashboard.figures import feasibility as figure
from apps.dashboard.views.figure_sources import FIGURES, FigureRequest
from apps.scheduling.core.sizing.feasibility import Feasibility
from apps.scheduling.selectors import ClusterFollower
from tests import factories
from tests.api.cluster import build_cluster

SIZES = np.arange(1, 65)
SECONDS = np.stack([6400.0 / SIZES, 12800.0 / SIZES], axis=1)
FOUND = Feasibility(
    kind="completion_time",
    target=600.0,
    is_rate=False,
    sizes=SIZES,
    platforms=("fast", "slow"),
    value=SECONDS,
    low=SECONDS * 0.9,
    high=SECONDS * 1.1,
    units=12,
    basis="fast",
)
OVERLOADED = replace(
    FOUND,
    kind="throughput_latency",
    target=0.01,
    value=np.full((64, 2), np.inf),
    low=np.full((64, 2), np.inf),
    high=np.full((64, 2), np.inf),
    units=64,
)


def test_the_title_says_which_size_is_enough() -> None:
    assert figure.title(FOUND) == "12 units are enough: 8 min 53 s, target 10 min"


def test_the_title_gives_the_best_performance_if_no_size_is_enough() -> None:
    answer = replace(FOUND, target=60.0, units=64)
    assert figure.title(answer) == "No number of units is enough: 1 min 40 s at best, target 1 min"


def test_the_predictions_of_a_job_that_waits_name_its_start() -> None:
    assert figure.sub(FOUND).endswith("with a margin for neighbours")
    late = replace(FOUND, elapsed_s=5400.0)
    assert figure.sub(late).endswith("with a margin for neighbours, if it starts in 1 h 30 min")


def test_the_title_of_an_overload_names_it() -> None:
    assert figure.title(OVERLOADED) == "No number of units serves that many queries"


def test_the_title_of_a_size_beyond_the_curve_says_that_there_is_no_prediction() -> None:
    answer = replace(FOUND, units=600)
    assert figure.title(answer) == "There is no prediction for more than 64 units"


def test_no_platform_at_all_has_a_title_and_an_empty_picture() -> None:
    nothing = np.zeros((64, 0))
    answer = replace(
        FOUND, platforms=(), value=nothing, low=nothing, high=nothing, units=None, basis=None
    )
    assert figure.title(answer) == "The job fits on no platform"
    assert len(figure.figure(answer).data) == 0
    assert figure.table(answer).rows[0][-1] == "–"


def test_there_is_a_line_per_platform_a_band_and_the_size() -> None:
    traces = figure.figure(FOUND).data
    assert [trace.mode for trace in traces] == ["lines"] * 4 + ["markers"]
    assert list(traces[-1].x) == [12]


def test_an_overload_shows_a_sentence() -> None:
    drawn = figure.figure(OVERLOADED)
    assert len(drawn.data) == 0
    assert drawn.layout.annotations[0].text == "No number of units is enough"


def test_best_effort_has_no_target_line() -> None:
    answer = replace(FOUND, kind="best_effort", target=None, is_rate=True)
    assert not figure.figure(answer).layout.shapes


def test_the_table_contains_the_chosen_size_and_the_best_platform() -> None:
    table = figure.table(FOUND)
    assert [row[0] for row in table.rows] == ["1", "2", "4", "8", "12", "16", "32", "64"]
    assert table.rows[4] == ("12", "8 min 53 s", "8 min", "9 min 47 s", "fast", "8 min 53 s")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "spec",
    [
        "",
        "{",
        "[]",
        json.dumps({"application": "new", "target": {"kind": "best_effort"}}),
        json.dumps({"application": "new", "target": {"kind": "best_effort"}, "policy": "gone"}),
    ],
    ids=["empty", "broken", "list", "new", "policy"],
)
def test_an_address_without_a_known_job_is_not_found(as_viewer: Client, spec: str) -> None:
    assert as_viewer.get("/figures/feasibility/", {"spec": spec}).status_code == 404


def test_a_start_that_is_no_number_is_not_found() -> None:
    spec = json.dumps({"application": "a", "target": {"kind": "best_effort"}})
    asked = FigureRequest(QueryDict(urlencode({"spec": spec, "start": "soon"})))
    with pytest.raises(Http404, match="must be a number"):
        FIGURES["feasibility"].read(asked)  # type: ignore[call-arg]  # it is shared


def test_deeply_nested_text_is_no_job() -> None:
    asked = FigureRequest(QueryDict(urlencode({"spec": "[" * 100_000})))
    with pytest.raises(Http404, match="Not a valid job"):
        FIGURES["feasibility"].read(asked)  # type: ignore[call-arg]  # it is shared


@pytest.mark.django_db
def test_a_job_of_a_policy_that_was_removed_still_has_its_sizes(
    as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    build_cluster()
    factories.profile(factories.application("sort"), platforms=("A",))
    target = {"kind": "completion_time", "seconds": 1.0}
    job = {"application": "sort", "target": target, "input_bytes": 9 * 10**9, "policy": "gone"}
    answer = as_viewer.get("/figures/feasibility/", {"spec": json.dumps(job)})
    assert answer.status_code == 200
    assert answer.json()["title"].startswith("No number of units is enough: 12.5 s at best")
