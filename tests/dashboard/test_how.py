"""Every figure says how it is computed."""

import pytest

from apps.dashboard.core.how import how_computed
from apps.dashboard.views.figures import SOURCES


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_figure_says_how_it_is_computed(name: str) -> None:
    assert how_computed(name).endswith((".", ")."))


def test_an_unknown_figure_says_nothing() -> None:
    assert how_computed("no-such") == ""
