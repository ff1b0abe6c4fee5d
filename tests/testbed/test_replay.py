"""Replay of a plan: every job is submitted exactly once despite crashes and errors."""

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.jobs import ReplayJob
from apps.testbed.core.replay_state import ReplayState, continues, due_jobs
from apps.testbed.management.replay.api_client import ApiClient, ApiError
from apps.testbed.management.replay.progress_line import (
    ReplayProgressLine,
    clock_text,
    progress_text,
)
from apps.testbed.management.replay.state_file import load_state, save_state
from apps.testbed.management.replay.submission import RemoteClock, Replay, cluster_units
from tests.testbed.fake_server import World, serving
from tests.testbed.samples import SWIM_ROWS, written

STATE = ReplayState("id", "digest", "day", units=100, services=0.0, seed=1, anchor_s=0.0)


def plan_of(*times: float) -> list[ReplayJob]:
    return [
        ReplayJob(f"t{number}", at, {"application": f"a{number}"})
        for number, at in enumerate(times)
    ]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with serving(world) as address:
        yield address


@pytest.fixture
def api(url: str) -> Iterator[ApiClient]:
    with ApiClient(url, "secret") as client:
        yield client


def run(
    api: ApiClient, plan: list[ReplayJob], path: Path, state: ReplayState = STATE
) -> ReplayState:
    return Replay(api, RemoteClock(api), plan, state, path).run()


def applications(world: World) -> list[str]:
    return [job["application"] for job in world.jobs]


def test_submits_every_job_once_in_order(world: World, api: ApiClient, tmp_path: Path) -> None:
    end = run(api, plan_of(0, 50, 100, 400), tmp_path / "s.json")
    assert applications(world) == ["a0", "a1", "a2", "a3"]
    assert (end.next, end.accepted, end.rejected, end.sending) == (4, 4, 0, 0)


def test_waits_in_cluster_time(world: World, api: ApiClient, tmp_path: Path) -> None:
    run(api, plan_of(0, 700), tmp_path / "s.json")
    # Up to a quarter of a wall second early (jobs travel together), and that much cluster time.
    assert world.arrived_s[1] >= 700 - 0.25 * world.speed


def test_jobs_due_together_travel_in_one_request(
    world: World, api: ApiClient, tmp_path: Path
) -> None:
    run(api, plan_of(*[0.0] * 50), tmp_path / "s.json")
    assert len(world.jobs) == 50
    assert world.requests == 1


@pytest.mark.parametrize("failures", [[503, 500], [0, 0], [-1], [429], [-1, 502, -1, 0]])
def test_neither_loses_nor_doubles_when_the_server_fails(
    failures: list[int], world: World, api: ApiClient, tmp_path: Path
) -> None:
    world.failures = failures
    end = run(api, plan_of(0, 0, 300), tmp_path / "s.json")
    assert applications(world) == ["a0", "a1", "a2"]
    assert end.accepted == 3


def test_goes_on_where_a_killed_replay_stopped(
    world: World, api: ApiClient, tmp_path: Path
) -> None:
    plan = plan_of(0, 0, 0, 0)
    run(api, plan[:2], tmp_path / "s.json")
    half = load_state(tmp_path / "s.json")
    assert half is not None
    run(api, plan, tmp_path / "s.json", half)
    assert applications(world) == ["a0", "a1", "a2", "a3"]


def test_repeats_a_request_that_was_cut_off_exactly(
    world: World, api: ApiClient, tmp_path: Path
) -> None:
    plan = plan_of(0, 0, 0, 0)
    path = tmp_path / "s.json"
    run(api, plan[:2], path)
    # Killed after the server took the two jobs, before the state said so: now four are due.
    cut_off = replace(STATE, sending=2)
    end = run(api, plan, path, cut_off)
    assert applications(world) == ["a0", "a1", "a2", "a3"]
    assert end.accepted == 4


def test_saves_what_it_is_about_to_send(world: World, api: ApiClient, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    world.failures = [0]
    numbers: list[int] = []
    api.on_away = lambda _: numbers.append(json.loads(path.read_text())["sending"])
    Replay(api, RemoteClock(api), plan_of(0, 0), STATE, path).run()
    assert numbers == [2]


@pytest.mark.parametrize("times", [[0.0], [0.0, 0.0]])
def test_counts_refused_jobs_and_says_why(
    times: list[float], world: World, api: ApiClient, tmp_path: Path
) -> None:
    world.refuse = "a0"
    lines: list[str] = []
    replay = Replay(
        api, RemoteClock(api), plan_of(*times), STATE, tmp_path / "s", on_rejected=lines.append
    )
    assert replay.run().rejected == 1
    assert len(lines) == 1


def test_gives_up_after_its_patience_in_one_sentence() -> None:
    with pytest.raises(ApiError, match=r"does not answer .*gave up after 0 s"):
        ApiClient("http://127.0.0.1:9", "secret", patience_s=0.0).get("/")


def test_a_refused_token_is_said_at_once(url: str) -> None:
    with (
        ApiClient(url, "wrong") as stranger,
        pytest.raises(ApiError, match="token was refused: Invalid token"),
    ):
        stranger.get("/api/v1/cluster/clock/")


def test_counts_the_units_of_all_platforms(api: ApiClient) -> None:
    assert cluster_units(api) == 100


def test_a_stopped_clock_stops_the_replay(world: World, api: ApiClient, tmp_path: Path) -> None:
    world.speed = 0.0
    replay = Replay(api, RemoteClock(api), plan_of(10), STATE, tmp_path / "s.json")
    assert replay._await_due() == 0
    assert world.jobs == []


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0, 100), st.integers(1, 5))
def test_due_jobs_are_exactly_those_due(times: list[float], until: float, limit: int) -> None:
    plan = plan_of(*sorted(times))
    assert due_jobs(plan, 0, until, limit=limit) == min(limit, sum(at <= until for at in times))


@pytest.mark.parametrize(
    ("digest", "now_s", "expected"),
    [
        ("digest", 5000.0, True),
        ("digest", 3500.0, True),  # the clock went back a little in a crash
        ("digest", 10.0, False),  # another database
        ("other", 5000.0, False),
    ],
)
def test_a_state_is_continued_only_by_its_own_replay(
    digest: str, now_s: float, expected: bool
) -> None:
    state = replace(STATE, anchor_s=1000.0, sent_s=4000.0)
    assert continues(state, digest=digest, now_s=now_s, speed=60.0) is expected


def test_the_state_survives_its_file(tmp_path: Path) -> None:
    state = replace(STATE, services=None, next=7, sending=2)
    save_state(tmp_path / "deep" / "s.json", state)
    assert load_state(tmp_path / "deep" / "s.json") == state


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert load_state(tmp_path / "s.json") is None


@pytest.mark.parametrize("text", ["{}", "nonsense"])
def test_a_damaged_state_file_is_said(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks|Expecting"):
        load_state(written(tmp_path / "s.json", text))


def test_progress_says_done_of_total() -> None:
    state = replace(STATE, next=2, sent_s=3725.0, rejected=1)
    text = progress_text(state, plan_of(0, 1, 2, 3), 120.0, with_bar=False)
    assert text == "2/4 jobs submitted, trace time 1:02:05, 0:02:00 behind, 1 refused"
    assert progress_text(state, plan_of(0, 1, 2, 3), 0.0, with_bar=True).startswith("[####")


def test_progress_elsewhere_is_whole_lines() -> None:
    stream = StringIO()
    line = ReplayProgressLine(stream)
    line.hint("one")
    line.hint("too soon")
    line.say("done")
    assert stream.getvalue() == "one\ndone\n"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00:00"), (86_399, "23:59:59")])
def test_clock_text(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.fixture
def instance(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.setenv("BERTH_URL", url)
    monkeypatch.setenv("BERTH_TOKEN", "secret")
    return tmp_path


def test_the_command_replays_a_file_and_waits(world: World, instance: Path) -> None:
    output = StringIO()
    trace = written(instance / "day.tsv", SWIM_ROWS)
    call_command("run_replay", trace=trace, services=0.0, wait=True, stdout=output)
    assert [job["annotations"]["trace_index"] for job in world.jobs] == [0, 1, 2, 3]
    assert "4 of 4 jobs submitted, 0 refused." in output.getvalue()
    assert "Every job of day has ended: 4 succeeded." in output.getvalue()


def test_the_command_submits_nothing_twice_when_run_again(world: World, instance: Path) -> None:
    trace = written(instance / "day.tsv", SWIM_ROWS)
    call_command("run_replay", trace=trace, services=0.0, stdout=StringIO())
    output = StringIO()
    call_command("run_replay", trace=trace, services=0.0, stdout=output)
    assert len(world.jobs) == 4
    assert "All 4 jobs have been submitted" in output.getvalue()


def test_the_command_replays_once_more_when_asked(world: World, instance: Path) -> None:
    trace = written(instance / "day.tsv", SWIM_ROWS)
    call_command("run_replay", trace=trace, services=0.0, stdout=StringIO())
    call_command("run_replay", trace=trace, services=0.0, again=True, stdout=StringIO())
    assert len(world.jobs) == 8


def test_the_command_generates_a_day_with_services(world: World, instance: Path) -> None:
    world.speed = 1e6
    call_command("run_replay", jobs=40, stdout=StringIO())
    roles = {job["labels"].get("role", "trace") for job in world.jobs}
    assert roles == {"trace", "service"}
    state = load_state(instance / "replay.json")
    assert state is not None
    assert state.accepted == len(world.jobs)


def test_the_command_names_file_and_line_of_a_bad_trace(instance: Path) -> None:
    trace = written(instance / "day.tsv", SWIM_ROWS + "job9\tsoon\t1\t1\t1\t1\n")
    with pytest.raises(CommandError, match=r"day\.tsv, line 5: submit_time_s is 'soon'"):
        call_command("run_replay", trace=trace, stdout=StringIO())


def test_the_command_needs_a_token(instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_TOKEN")
    trace = written(instance / "day.tsv", SWIM_ROWS)
    with pytest.raises(CommandError, match="BERTH_TOKEN is not set"):
        call_command("run_replay", trace=trace, stdout=StringIO())


def test_refused_jobs_fail_the_command(world: World, instance: Path) -> None:
    world.refuse = "day-c00"
    trace = written(instance / "day.tsv", SWIM_ROWS)
    with pytest.raises(CommandError, match="1 jobs were refused"):
        call_command("run_replay", trace=trace, services=0.0, stdout=StringIO())
