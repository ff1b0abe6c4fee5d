"""Explanations of figures."""

import pytest

from apps.dashboard.core.figure_methods import method_text
from apps.dashboard.views.figure_sources import FIGURES


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_has_an_explanation(name: str) -> None:
    assert method_text(name).endswith((".", ")."))


def test_an_unknown_figure_has_no_explanation() -> None:
    assert method_text("no-such") == ""
