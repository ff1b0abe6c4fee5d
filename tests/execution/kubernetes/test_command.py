"""`run_kubernetes`, with a kubeconfig file that names the fake API server."""

import os
import signal
import time
from pathlib import Path
from threading import Thread

import pytest
import yaml
from django.core.management import CommandError, call_command

from apps.accounts.services import ensure_project
from apps.inventory.models import Cluster as ClusterRow
from apps.inventory.services import start_clock
from tests.execution.kubernetes.fake_api_server import FakeApiServer
from tests.execution.kubernetes.objects import a_node


@pytest.fixture
def kubeconfig(fake: FakeApiServer, tmp_path: Path) -> str:
    path = tmp_path / "config"
    content = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "clusters": [{"name": "fake", "cluster": {"server": fake.url}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def stop_when_watched(fake: FakeApiServer) -> None:
    """Send SIGTERM when both lists are watched, as a kubelet ends a pod."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        if sum("watch=True" in path for _, path, _ in fake.requests) >= 2:
            break
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.django_db(transaction=True)
def test_it_runs_until_it_is_stopped(
    fake: FakeApiServer, kubeconfig: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_project("default")
    start_clock(speed=1.0)
    fake.put("nodes", a_node("n1"))
    token = tmp_path / "token"
    token.write_text("a-token-of-the-scheduler\n")
    stopper = Thread(target=stop_when_watched, args=(fake,))
    stopper.start()
    call_command(
        "run_kubernetes", kubeconfig=kubeconfig, extender=("127.0.0.1", 0),
        extender_token_file=token,
    )  # fmt: skip
    stopper.join()
    assert "Kubernetes v1.0.0-fake" in capsys.readouterr().out


@pytest.mark.django_db(transaction=True)
def test_it_says_what_is_missing(fake: FakeApiServer, kubeconfig: str, tmp_path: Path) -> None:
    start_clock(speed=60.0)
    with pytest.raises(CommandError, match="start_clock --speed 1"):
        call_command("run_kubernetes", kubeconfig=kubeconfig)
    ClusterRow.objects.all().delete()
    start_clock(speed=1.0)
    with pytest.raises(CommandError, match="no way to the API server"):
        call_command("run_kubernetes", kubeconfig=str(tmp_path / "none"))
    with pytest.raises(CommandError, match="a token file or a client CA"):
        call_command("run_kubernetes", kubeconfig=kubeconfig, extender=("127.0.0.1", 0))
    fake.is_up = False
    with pytest.raises(CommandError, match="503"):
        call_command("run_kubernetes", kubeconfig=kubeconfig)
