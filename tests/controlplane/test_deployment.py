"""The files of a deployment: compose file, image, ignore files and the table of settings."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.embedded.instance import PROJECT

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
OTHERS = sorted(set(SERVICES) - set(OURS))
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
PINNED = re.compile(r"[\w./-]+:\d+(\.\d+)+[\w.-]*@sha256:[0-9a-f]{64}")
MADE_BY_COMPOSE = {"BERTH_SECRET_KEY", "DATABASE_URL", "REDIS_URL"}
READ = re.compile(
    r"""(?:os\.environ(?:\.get\(|\[)|\b(?:whole|number|choice|_limit)\()["']([A-Z_]+)["']"""
)

TABLES = ("Settings", "How long history is kept")  # sections of docs/operations.md


def image_command() -> list[str]:
    """Return the command of the image."""
    found = re.search(r"^CMD (\[.*?\])", DOCKERFILE.replace("\\\n", ""), flags=re.MULTILINE)
    assert found is not None
    command: list[str] = json.loads(found.group(1))
    return command


def settings_read() -> set[str]:
    files = (PROJECT / "controlplane" / "settings").glob("*.py")
    return {name for path in files for name in READ.findall(path.read_text())}


def settings_documented() -> set[str]:
    """Return the names in both tables of settings; `_READ` after `BERTH_RATE_SUBMIT` is short."""
    text = (PROJECT / "docs" / "operations.md").read_text()
    parts = (text.partition(f"\n## {title}\n")[2] for title in TABLES)
    table = "".join(part.partition("\n## ")[0] for part in parts)
    names: set[str] = set()
    for row in re.findall(r"^\| (`[^|]+) \|", table, flags=re.MULTILINE):
        first, *more = re.findall(r"`(\w+)`", row)
        stem = first.rpartition("_")[0]
        names |= {first, *(stem + name if name.startswith("_") else name for name in more)}
    return names


def ignored(rules: str, directory: Path, paths: list[str]) -> list[str]:
    """Return the paths that an ignore file excludes; git and Docker read these rules alike."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", str(directory)], check=True)  # noqa: S603  (git itself)
    shutil.copy(PROJECT / rules, directory / ".gitignore")
    done = subprocess.run(  # noqa: S603  (git itself)
        [git, "-C", str(directory), "check-ignore", "--no-index", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


SECRETS = [".env", ".env.production", "berth.dump", "berth-copy/secret_key", ".berth/token"]


def test_no_secret_is_committed(tmp_path: Path) -> None:
    assert ignored(".gitignore", tmp_path, SECRETS) == SECRETS


def test_no_secret_enters_the_image(tmp_path: Path) -> None:
    others = ["my.yaml", "tests/conftest.py", ".git/config", "docker-compose.override.yml"]
    assert ignored(".dockerignore", tmp_path, SECRETS + others) == SECRETS + others


def test_the_program_enters_the_image(tmp_path: Path) -> None:
    program = [
        "apps/common/apps.py",
        "controlplane/settings/prod.py",
        "manage.py",
        "requirements/base.txt",
        "static/berth/css/app.css",
        "templates/dashboard/overview.html",
    ]
    assert ignored(".dockerignore", tmp_path, program) == []
    assert [path for path in program if not (PROJECT / path).is_file()] == []


@pytest.mark.parametrize("name", OURS)
def test_every_setting_in_the_env_file_reaches_the_containers(name: str) -> None:
    assert SERVICES[name]["env_file"] == [".env"]
    assert set(SERVICES[name]["environment"]) == MADE_BY_COMPOSE


def test_every_setting_that_is_read_is_documented() -> None:
    assert len(settings_read()) > 40
    assert settings_read() - settings_documented() == set()


@pytest.mark.parametrize("name", OTHERS)
def test_an_image_of_others_is_pinned_by_version_and_digest(name: str) -> None:
    assert PINNED.fullmatch(SERVICES[name]["image"])


def test_the_image_is_built_on_one_pinned_image() -> None:
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE))
    assert len(bases) == 1
    assert PINNED.fullmatch(bases.pop())


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]  # noqa: S108  (of the container)
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert 0 < service["cpus"] <= 2  # Docker refuses more than the host has


@pytest.mark.parametrize("name", OTHERS)
def test_a_server_of_others_does_not_start_as_root(name: str) -> None:
    assert SERVICES[name]["user"] == {"postgres": "postgres", "redis": "valkey"}[name]


def test_the_image_does_not_run_as_root() -> None:
    assert re.search(r"^RUN useradd .*--uid 10001 .* berth\b", DOCKERFILE, flags=re.MULTILINE)
    assert re.findall(r"^USER (\S+)", DOCKERFILE, flags=re.MULTILINE) == ["berth"]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_a_service_is_restarted_and_watched(name: str) -> None:
    assert SERVICES[name]["restart"] == "unless-stopped"
    assert SERVICES[name]["healthcheck"]["test"]


def test_a_second_process_stands_by_to_send_periodic_tasks() -> None:
    assert SERVICES["beat"]["deploy"] == {"replicas": 2}
    assert {name for name in SERVICES if "deploy" in SERVICES[name]} == {"beat"}


def test_only_loopback_ports_are_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000", "127.0.0.1:8001:8001"]


def test_kernels_are_compiled_into_a_volume_that_berth_may_write() -> None:
    assert "NUMBA_CACHE_DIR=/srv/berth/kernels" in DOCKERFILE
    assert "--owner=berth --group=berth /srv/berth/kernels" in DOCKERFILE
    assert all("kernels:/srv/berth/kernels" in SERVICES[name]["volumes"] for name in OURS)
