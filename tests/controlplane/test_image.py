"""The web and stream processes as the image starts them, asked by the compose file's probes."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controlplane.embedded.instance import PROJECT
from tests.controlplane.test_deployment import SERVICES, image_command
from tests.controlplane.test_run import two_free_ports
from tests.controlplane.test_settings import DEPLOYMENT

pytestmark = [pytest.mark.service, pytest.mark.database, pytest.mark.broker]

START_TIMEOUT_S = 60.0
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start both processes with settings of a deployment for another host name."""
    first = two_free_ports()
    addresses = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")}
    environment = {
        **DEPLOYMENT,
        **addresses,
        "DJANGO_SETTINGS_MODULE": "tests.controlplane.collected",
        "COLLECTED_STATIC_FILES": str(tmp_path_factory.mktemp("static")),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT),
    }
    collect = [sys.executable, "manage.py", "collectstatic", "--no-input"]
    subprocess.run(collect, env=environment, cwd=PROJECT, check=True, capture_output=True)  # noqa: S603
    commands = [image_command(), SERVICES["stream"]["command"]]
    processes = [
        subprocess.Popen(on_port(command, first), env=environment, cwd=PROJECT)  # noqa: S603
        for command in commands
    ]
    try:
        wait_for(f"http://127.0.0.1:{first}/healthz")
        wait_for(f"http://127.0.0.1:{first + 1}/healthz")
        yield first
    finally:
        for process in processes:
            process.terminate()
            process.wait(timeout=20)


def on_port(command: Sequence[str], port: int) -> list[str]:
    """Return a command with the ports 8000 and 8001 replaced by free ones."""
    return [part.replace("8000", str(port)).replace("8001", str(port + 1)) for part in command]


def wait_for(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            status(url)
        except urllib.error.URLError:
            assert time.monotonic() < deadline, f"no answer from {url}"
            time.sleep(0.1)
        else:
            return


def status(url: str, **headers: str) -> tuple[int, str]:
    """Return the status of a request and where it is redirected to."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (our own process)
    opener = urllib.request.build_opener(NoRedirects)
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Location", "")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns a redirect as it is."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""


@pytest.mark.parametrize("name", ["web", "stream"])
def test_the_health_check_of_the_compose_file_passes(name: str, port: int) -> None:
    kind, *command = on_port(SERVICES[name]["healthcheck"]["test"], port)
    assert kind == "CMD"
    done = subprocess.run(  # noqa: S603  (our own)
        [sys.executable, *command[1:]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_probes_answer_by_address_and_plain_http(port: int) -> None:
    web = f"http://127.0.0.1:{port}"
    assert status(f"{web}/healthz") == (200, "")
    assert status(f"{web}/readyz")[0] in {200, 503}  # 503: the database is not migrated
    assert status(f"{web}/metrics") == (401, "")


def test_other_routes_answer_by_name_and_https_only(port: int) -> None:
    version = f"http://127.0.0.1:{port}/api/v1/version/"
    secure = {"X-Forwarded-Proto": "https"}
    assert status(version, Host="other.example", **secure) == (400, "")
    assert status(version, Host="berth.example", **secure) == (200, "")
    assert status(version, Host="berth.example") == (301, "https://berth.example/api/v1/version/")
