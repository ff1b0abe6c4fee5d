"""Every Django process sends its tasks through Berth's broker."""

import subprocess
import sys

import pytest

from controlplane.embedded.instance import PROJECT

BROKER = "unix:///tmp/broker.sock?db=3"
CURRENT = """
from celery import current_app
print(current_app.main, current_app.conf.broker_url)
"""


@pytest.mark.parametrize(
    "start", ["import controlplane.wsgi", "import controlplane.asgi", "import controlplane.celery"]
)
def test_the_current_application_is_berths(start: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", start + CURRENT],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        env={"REDIS_URL": BROKER, "PYTHONPATH": str(PROJECT)},
    )
    assert done.stdout == "berth redis+socket:///tmp/broker.sock?virtual_host=3\n"
