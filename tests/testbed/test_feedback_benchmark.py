"""The report of `./dev bench feedback`."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import feedback

APPLICATIONS: Any = [SimpleNamespace(truth=None, cells=[], observations=[])]


@pytest.fixture
def unchanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the inference by one whose innovations are all zero."""
    monkeypatch.setattr(feedback, "profile_of", lambda *_: None)
    monkeypatch.setattr(feedback, "prior_belief", lambda _: None)
    update = SimpleNamespace(innovations=np.zeros(3))
    monkeypatch.setattr(feedback, "update_belief", lambda *_: update)


@pytest.mark.parametrize(
    ("flag", "end"),
    [
        (None, "0 flagged, 1 missed\n"),
        (4, "1 flagged, 0 missed; jobs until the flag: median 4, 90th percentile 4\n"),
    ],
)
@pytest.mark.usefixtures("unchanging")
def test_drift_is_reported_whether_or_not_any_is_flagged(
    flag: int | None,
    end: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(feedback, "flagged_after", lambda *_, **__: flag)
    known: Any = None
    feedback.show_drift(APPLICATIONS, known)
    assert capsys.readouterr().out.endswith(end)
