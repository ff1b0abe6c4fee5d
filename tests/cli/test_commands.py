"""The verbs that follow a job with a command, against a server that is a stub."""

from typing import Any, cast

import pytest

from controlplane.cli.commands import Follower, _exit_code
from controlplane.cli.jobs import JOBS, find_job


class Reports:
    """A server of one job: its state, exit code and output, a byte at a time."""

    def __init__(self, *, state: str = "", code: int | None = None, output: bytes = b"") -> None:
        self.status = {"state": state, "exit_code": code, "reason": None}
        self.output = output

    def get(self, path: str, **params: str) -> Any:
        if path == JOBS:
            return {"results": [{"metadata": {"name": params["name"]}}]}
        return {"status": self.status}

    def get_bytes(self, path: str, params: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        start = int(params["start"])
        part = self.output[start : start + 1]
        place = {"start": str(start), "end": str(start + len(part)), "attempt": "1"}
        headers = {f"berth-output-{name}": text for name, text in place.items()}
        return part, {**headers, "berth-job-over": "true"}


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("succeeded", 0, 0),
        ("cancelled", 0, 1),
        ("failed", 0, 1),
        ("failed", None, 1),
        ("failed", 3, 3),
        ("cancelled", -15, 143),
    ],
)
def test_only_success_exits_with_zero(state: str, code: int | None, expected: int) -> None:
    assert _exit_code(cast("Any", Reports(state=state, code=code)), "j") == expected


def test_output_is_copied_byte_by_byte(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = "é€".encode() + b"\xff\0"
    follower = Follower(cast("Any", Reports(output=output)), "j", ("stdout",))
    for _ in range(2):
        follower.copy()
    assert capfdbinary.readouterr().out == output


def test_a_name_with_the_length_of_an_id_is_a_name() -> None:
    name = "train-the-model-number-seven-of-many"
    assert (len(name), name.count("-")) == (36, 6)
    name = name.replace("-of-many", "_of_many")
    assert name.count("-") == 4
    assert find_job(cast("Any", Reports()), name)["metadata"]["name"] == name
