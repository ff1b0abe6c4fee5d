"""The berth command, run in this process against a real server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.scheduling.selectors import ClusterFollower
from controlplane.cli.client import BerthClient
from controlplane.cli.main import main

Berth = Callable[..., tuple[int, str, str]]


@pytest.fixture
def berth(
    user: User,
    live_server: LiveServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Berth:
    """Return a runner of the command as the module's ``user``: (exit code, output, errors)."""
    settings.BERTH_RATES = {}
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("BERTH_URL", live_server.url)
    monkeypatch.setenv("BERTH_TOKEN", create_token(user=user, name="cli").secret)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def rows(table: str) -> list[list[str]]:
    """Words of each line of a table."""
    return [line.split() for line in table.splitlines()]


def working(monkeypatch: pytest.MonkeyPatch, address: str, work: Callable[[], object]) -> None:
    """Call ``work`` once, at the command's first read of a path that starts with ``address``."""
    read, left = BerthClient.get, [work]

    def get(self: BerthClient, path: str, **params: str) -> Any:
        answer = read(self, path, **params)
        if path.startswith(address) and path != address and left:
            left.pop()()
        return answer

    monkeypatch.setattr(BerthClient, "get", get)
