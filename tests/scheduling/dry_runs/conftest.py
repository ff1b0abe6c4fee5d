"""The clock and the scene of all tests of dry runs."""

from typing import Any

import pytest

from tests.scheduling.dry_runs.scene import Scene, begin, new_scene


@pytest.fixture(autouse=True)
def clock(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    begin(monkeypatch, settings)


@pytest.fixture
def scene() -> Scene:
    return new_scene()
