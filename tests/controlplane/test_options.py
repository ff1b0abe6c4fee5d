from pathlib import Path

import pytest

from apps.emulation.core.worlds import WORLDS as REGISTRY
from controlplane.embedded.options import WORLDS, Options, parse
from controlplane.embedded.processes import LauncherError
from controlplane.embedded.session import chosen_backend, chosen_world


def test_without_arguments_the_replay_runs_on_what_was_used_before() -> None:
    assert parse([]) == Options(
        trace=None,
        servers=None,
        speed=None,
        policy=None,
        world=None,
        backend=None,
        port=8000,
        is_fresh=False,
        is_empty=False,
        has_replay=True,
        agents=1,
    )


def test_every_option_is_understood() -> None:
    line = (
        "--trace t.tsv --servers 12 --speed 5 --policy random --world paper --backend agent"
        " --port 81 --fresh --no-replay"
    )
    assert parse(line.split()) == Options(
        trace=Path("t.tsv"),
        servers=12,
        speed=5.0,
        policy="random",
        world="paper",
        backend="agent",
        port=81,
        is_fresh=True,
        is_empty=False,
        has_replay=False,
        agents=1,
    )


def test_an_option_overrides_its_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_POLICY", "random")
    monkeypatch.setenv("BERTH_WORLD", "paper")
    monkeypatch.setenv("BERTH_AGENTS", "3")
    given = parse([])
    assert (given.policy, given.world, given.agents) == ("random", "paper", 3)
    given = parse(["--policy", "load", "--world", "measured"])
    assert (given.policy, given.world, given.agents) == ("load", "measured", 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("BERTH_AGENTS", "BERTH_AGENTS must be an integer, not 'abc'"),
        ("BERTH_WORLD", "BERTH_WORLD must be one of measured, paper, not 'abc'"),
    ],
)
def test_a_malformed_variable_is_refused_before_anything_starts(
    name: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, "abc")
    with pytest.raises(SystemExit):
        parse([])
    assert message in capsys.readouterr().err


def test_the_worlds_are_those_of_the_emulator() -> None:
    assert set(WORLDS) == set(REGISTRY)


@pytest.mark.parametrize(
    ("wanted", "state", "chosen"),
    [
        (None, {}, "measured"),
        ("paper", {}, "paper"),
        (None, {"world": "measured"}, "measured"),
        (None, {"servers": 40}, "paper"),
        ("paper", {"servers": 40}, "paper"),
        ("measured", {"servers": 40, "world": "measured"}, "measured"),
    ],
)
def test_an_instance_keeps_its_world(
    wanted: str | None, state: dict[str, object], chosen: str
) -> None:
    assert chosen_world(wanted, state) == chosen


def test_another_world_needs_a_fresh_start() -> None:
    with pytest.raises(LauncherError, match=r"emulates the paper world\. --fresh"):
        chosen_world("measured", {"servers": 40})


def test_an_empty_instance_has_no_replay() -> None:
    assert not parse(["--empty"]).has_replay


@pytest.mark.parametrize(
    "line", ["--servers 0", "--servers many", "--speed 0", "--speed nan", "--port 65535"]
)
def test_a_value_out_of_range_is_refused_with_its_name(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(line.split())
    assert line.partition(" ")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("--port abc", "must be a number from 1 to 65534, not 'abc'"),
        ("--servers abc", "must be a whole number of at least 1, not 'abc'"),
        ("--speed abc", "must be a number above 0 and at most 100000, not 'abc'"),
    ],
)
def test_an_error_of_an_option_says_what_is_accepted(
    line: str, accepted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(line.split())
    assert accepted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "state", "chosen"),
    [
        (None, {}, "emulated"),
        ("agent", {}, "agent"),
        (None, {"backend": "agent"}, "agent"),
        (None, {"servers": 40}, "emulated"),
    ],
)
def test_an_instance_keeps_its_backend(
    wanted: str | None, state: dict[str, object], chosen: str
) -> None:
    assert chosen_backend(wanted, state) == chosen


def test_another_backend_needs_fresh_data() -> None:
    with pytest.raises(LauncherError, match="--fresh"):
        chosen_backend("agent", {"servers": 40})
