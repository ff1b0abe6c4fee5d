"""Files and text that must not be committed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = PROJECT / "requirements"
# An index or mirror, as tools read or write it; spelled apart so as not to find itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(extra-)?index" + r"[-_]url\s*[=: ]\s*\S",
            r"find" + r"[-_]links\s*[=: ]\s*\S",
            r"\w+://\S+/" + r"simple\b",
            r"registry" + r"\s*=\s*[\"']?\w+://",
            r"file:" + r"///(opt|root|home|srv|work|mnt)\b",
        ]
    )
)


def committed_files() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (PROJECT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(  # noqa: S603  (git itself)
        [git, "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True
    )
    paths = [PROJECT / name for name in names.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def lines_matching(path: Path, pattern: re.Pattern[str]) -> list[str]:
    text = path.read_text(errors="replace")
    return [f"{path.relative_to(PROJECT)}: {match.group()}" for match in pattern.finditer(text)]


def pins(name: str) -> set[str]:
    text = (REQUIREMENTS / name).read_text()
    return set(re.findall(r"^\S+==\S+", text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "line",
    [
        "--index" + "-url https://host/x",
        "extra-index" + "-url = https://host/y",
        "--find" + "-links /wheels",
        "https://mirror.example/pypi/" + "simple",
        "registry" + "=https://npm.example",
    ],
)
def test_the_guard_knows_an_index_when_it_sees_one(line: str) -> None:
    assert FORBIDDEN.search(line)


def test_no_package_index_or_mirror_is_committed() -> None:
    offending = [line for path in committed_files() for line in lines_matching(path, FORBIDDEN)]
    assert offending == []


def test_no_lock_file_with_addresses_is_committed() -> None:
    files = committed_files()
    assert {path.name for path in files}.isdisjoint({"uv.lock", "poetry.lock"})
    locks = [path.read_text() for path in files if path.name == "package-lock.json"]
    assert [text for text in locks if '"resolved"' in text] == []


def test_every_requirement_is_pinned_and_hashed() -> None:
    text = (REQUIREMENTS / "dev.txt").read_text()
    packages = re.findall(r"^[a-zA-Z].*(?:\n {4}.*)+", text, flags=re.MULTILINE)
    unpinned = [entry for entry in packages if "==" not in entry or "--hash=sha256:" not in entry]
    assert len(packages) > 50
    assert unpinned == []


def test_the_development_requirements_hold_all_that_running_needs() -> None:
    assert pins("base.txt") <= pins("dev.txt")


def test_the_requirements_of_mutation_testing_hold_all_that_tests_need() -> None:
    assert pins("dev.txt") <= pins("mutate.txt")
