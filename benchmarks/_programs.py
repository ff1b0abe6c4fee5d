"""Real programs of Debian that benchmarks profile and run, with their inputs.

Every program is deterministic, has one thread and ends after 0.05 to 0.3 s, so that it can be run
again and again. Inputs are drawn with a fixed seed.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

SEED: Final = 16
WORDS: Final = 5_000
COUNT: Final = 600_000
LINES: Final = 400_000
BLOB_BYTES: Final = 64 << 20
JOIN: Final = """
CREATE TABLE a AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 60000)
    SELECT (x * 7919) % 60000 k, x v FROM n;
CREATE INDEX by_key ON a(k);
SELECT sum(p.v * q.v) FROM a p JOIN a q ON p.v = q.k;
"""
COUNT_WORDS: Final = (
    "{for (i = 1; i <= NF; i++) seen[$i]++} END {for (word in seen) n += seen[word]; print n}"
)


@dataclass(frozen=True, slots=True)
class RealProgram:
    """A program, the Debian package that holds it, and what it does."""

    name: str
    package: str
    arguments: tuple[str, ...]
    about: str

    def command(self) -> list[str]:
        """Return its command line; files are relative to the folder of `write_inputs`."""
        return [shutil.which(self.arguments[0]) or self.arguments[0], *self.arguments[1:]]


PROGRAMS: Final = {
    program.name: program
    for program in (
        RealProgram("xz", "xz-utils", ("xz", "-6", "-k", "-c", "short.txt"),
                    "compresses 0.4 MB of text"),
        RealProgram("bzip2", "bzip2", ("bzip2", "-k", "-c", "long.txt"),
                    "compresses 4 MB of text"),
        RealProgram("openssl", "openssl", ("openssl", "dgst", "-sha256", "blob", "blob", "blob"),
                    "hashes 192 MB"),
        RealProgram("gawk", "gawk", ("gawk", COUNT_WORDS, "long.txt"), "counts 600,000 words"),
        RealProgram("sort", "coreutils", ("sort", "--parallel=1", "lines.txt"),
                    "sorts 400,000 lines"),
        RealProgram("sqlite3", "sqlite3", ("sqlite3", ":memory:", ".read join.sql"),
                    "joins 60,000 rows in memory"),
        RealProgram("rsync", "rsync",
                    ("rsync", "--bwlimit=20m", "--whole-file", "--ignore-times", "long.txt",
                     "copy.txt"),
                    "copies 4 MB at 20 MB/s"),
        RealProgram("pv", "pv", ("pv", "--quiet", "--rate-limit", "20m", "long.txt"),
                    "reads 4 MB at 20 MB/s"),
    )
}  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Write the inputs of all programs."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(2, 10, WORDS)
    words = ["".join(chr(97 + c) for c in rng.integers(0, 26, length)) for length in lengths]
    shares = 1.0 / np.arange(1, WORDS + 1)
    chosen = rng.choice(WORDS, COUNT, p=shares / shares.sum()).reshape(-1, 12)
    text = "\n".join(" ".join(words[i] for i in line) for line in chosen) + "\n"
    (folder / "long.txt").write_text(text)
    (folder / "short.txt").write_text(text[:400_000])
    lines = rng.integers(0, 2**63, LINES)
    (folder / "lines.txt").write_text("".join(f"{number:016x}\n" for number in lines))
    (folder / "blob").write_bytes(rng.bytes(BLOB_BYTES))
    (folder / "join.sql").write_text(JOIN)


def missing(names: Sequence[str]) -> list[str]:
    """Return the packages of programs that this machine lacks."""
    wanted = [PROGRAMS[name] for name in names]
    return sorted({each.package for each in wanted if shutil.which(each.arguments[0]) is None})


def require(names: Sequence[str]) -> None:
    """End with the command that installs what is missing, if anything is."""
    if packages := missing(names):
        raise SystemExit(f"first: apt-get install {' '.join(packages)}")


def version(package: str) -> str:
    """Return the installed version of a Debian package."""
    done = subprocess.run(  # noqa: S603 - dpkg-query of this machine
        [shutil.which("dpkg-query") or "dpkg-query", "-W", "-f=${Version}", package],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"
