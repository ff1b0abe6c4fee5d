from pathlib import Path

import pytest

from controlplane.embedded.options import Options, parse


def test_without_arguments_the_replay_runs_on_what_was_used_before() -> None:
    assert parse([]) == Options(
        trace=None,
        servers=None,
        speed=None,
        policy=None,
        port=8000,
        is_fresh=False,
        is_empty=False,
        has_replay=True,
    )


def test_every_option_is_understood() -> None:
    line = "--trace t.tsv --servers 12 --speed 5 --policy random --port 81 --fresh --no-replay"
    assert parse(line.split()) == Options(
        trace=Path("t.tsv"),
        servers=12,
        speed=5.0,
        policy="random",
        port=81,
        is_fresh=True,
        is_empty=False,
        has_replay=False,
    )


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
