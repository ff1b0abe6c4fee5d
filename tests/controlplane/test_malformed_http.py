"""Answers of the web server itself to requests that it cannot parse."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controlplane.embedded.fleet import stream, web

STARTED_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a web server that is started as the instance starts it."""
    path = str(tmp_path_factory.mktemp("web") / "s")
    arguments = [f"unix:{path}" if a.startswith("127.") else a for a in web(1).arguments]
    yield from _serving(arguments, path)


@pytest.fixture(scope="module")
def stream_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a stream server that is started as the instance starts it."""
    path = str(tmp_path_factory.mktemp("stream") / "s")
    words = iter(stream(1).arguments)
    arguments = [word for word in words if word not in {"--host", "--port"} or not next(words)]
    yield from _serving([*arguments, "--uds", path], path)


def _serving(arguments: Sequence[str], path: str) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", *arguments])  # noqa: S603 - our own
    try:
        until_s = time.monotonic() + STARTED_WITHIN_S
        while not Path(path).exists():
            assert process.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.1)
        yield path
    finally:
        process.kill()
        process.wait()


def answer(address: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the answer to these bytes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(STARTED_WITHIN_S)
        client.connect(address)
        client.sendall(request)
        data = b""
        while part := client.recv(65_536):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


LINE = b"GET /api/v1/jobs/ HTTP/1.1\r\n"
BROKEN = {
    "request line too long": (b"GET /api/v1/jobs/?search=" + b"x" * 5000 + b" HTTP/1.1\r\n", 414),
    "header too long": (LINE + b"X-Long: " + b"x" * 9000 + b"\r\n", 431),
    "too many headers": (LINE + b"".join(b"X-%d: 1\r\n" % i for i in range(200)), 431),
    "header without a colon": (LINE + b"nonsense\r\n", 400),
    "header name with a space": (LINE + b"X Name: 1\r\n", 400),
    "unknown version": (b"GET /api/v1/jobs/ HTTP/9.9\r\n", 400),
    "method in lower case": (b"get /api/v1/jobs/ HTTP/1.1\r\n", 400),
    "unknown transfer coding": (LINE + b"Transfer-Encoding: brotli\r\n", 501),
    "body length twice": (LINE + b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
}


@pytest.mark.service
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_request_that_cannot_be_parsed_is_answered_with_a_problem(
    address: str, name: str
) -> None:
    request, expected = BROKEN[name]
    status, headers, body = answer(address, request + b"Host: localhost\r\n\r\n")
    problem = json.loads(body)
    assert status == problem["status"] == expected
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-ID"] == problem["request_id"] != ""
    assert headers["Connection"] == "close"
    assert int(headers["Content-Length"]) == len(body)
    assert problem["code"]
    assert problem["detail"]


@pytest.mark.service
def test_a_well_formed_request_reaches_the_application(address: str) -> None:
    request = LINE + b"Host: localhost\r\nConnection: close\r\n\r\n"
    status, headers, body = answer(address, request)
    assert status == 401
    assert headers["Content-Type"] == "application/problem+json"
    assert json.loads(body)["instance"] == "/api/v1/jobs/"


@pytest.mark.service
def test_the_stream_process_answers_with_a_problem_too(stream_address: str) -> None:
    status, headers, body = answer(stream_address, b"nonsense\r\n\r\n")
    assert status == json.loads(body)["status"] == 400
    assert headers["Content-Type"] == "application/problem+json"
    assert json.loads(body)["detail"]
