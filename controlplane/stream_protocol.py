"""The HTTP protocol of the stream process: uvicorn's, which answers in problem documents."""

from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.malformed_http import problem_response


class Protocol(H11Protocol):
    """HTTP/1.1; a request that cannot be parsed is answered with a problem document."""

    def send_400_response(self, msg: str) -> None:
        """Answer instead of uvicorn's plain text."""
        self.transport.write(problem_response(b"HTTP/1.1 400 Bad Request", msg))
        self.transport.close()
