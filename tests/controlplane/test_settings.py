"""The production settings, loaded as a deployment would."""

import os
import subprocess
import sys

import pytest

from controlplane.embedded.instance import PROJECT

DEPLOYMENT = {
    "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
    "BERTH_SECRET_KEY": "d9s8f7hw3ouhfs98dfy2i3uhfksjdhf9823yrhiuwehf_sdf9w3r",
    "BERTH_ALLOWED_HOSTS": "berth.example",
    "DATABASE_URL": "postgresql:///unused",
    "REDIS_URL": "redis://127.0.0.1/0",
}


def manage(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, str(PROJECT / "manage.py"), *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_deployment_passes_every_check() -> None:
    done = manage(DEPLOYMENT, "check", "--deploy", "--fail-level", "WARNING")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_without_a_database_says_how_to_get_one_in_one_line() -> None:
    nowhere = {**DEPLOYMENT, "DATABASE_URL": "postgresql:///berth?host=/nowhere"}
    done = manage(nowhere, "retention")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("The database cannot be reached (")
    assert "/nowhere/.s.PGSQL.5432" in line
    assert line.endswith("): start Berth (`./dev run`), or set DATABASE_URL.")


@pytest.mark.parametrize("name", ["BERTH_SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_a_deployment_that_forgot_a_setting_does_not_start(name: str) -> None:
    incomplete = {key: value for key, value in DEPLOYMENT.items() if key != name}
    done = manage(incomplete, "check")
    assert done.returncode != 0
    assert f"KeyError: '{name}'" in done.stderr
