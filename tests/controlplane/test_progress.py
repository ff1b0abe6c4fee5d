import io

import pytest

from controlplane.embedded.progress import Progress, bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("0/10 servers", "[............................]   0%"),
        ("5/10 servers", "[##############..............]  50%"),
        ("1,500 / 1,000", "[############################] 100%"),
        ("0/0", "[############################] 100%"),
        ("Applying 0001", "Applying 0001"),
    ],
)
def test_a_fraction_becomes_a_bar(text: str, beginning: str) -> None:
    assert bar(text).startswith(beginning)


def test_away_from_a_terminal_there_are_only_whole_lines() -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    progress.begin("Making servers")
    progress.update("5/10")
    progress.end()
    assert stream.getvalue() == "Making servers (0.0 s)\n"


def test_on_a_terminal_the_bar_is_redrawn_in_place() -> None:
    stream = Terminal()
    progress = Progress(stream=stream)
    progress.begin("Making servers")
    progress.shown_s = 0.0
    progress.update("5/10")
    assert stream.getvalue().count("\n") == 0
    assert "50%" in stream.getvalue()
