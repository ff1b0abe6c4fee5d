"""A fake API server of Kubernetes: list, watch, bind, delete and events over HTTP.

It is no Kubernetes. It answers in the form of the API's documentation (v1), as far as this backend
uses it, so that the official client is really used. It schedules nothing and runs nothing: tests
play the kubelet.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
_REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
}


def status(code: int, message: str) -> Json:
    """Return the Status of a refusal, as the API server sends it."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": _REASONS.get(code, "InternalError"), "code": code,
    }  # fmt: skip


class FakeApiServer:
    """Nodes and pods with one resource version, and a log of their changes."""

    def __init__(self) -> None:
        self.lock = Condition()
        self.version = 100
        self.objects: dict[str, dict[str, Json]] = {"nodes": {}, "pods": {}}
        self.log: list[tuple[int, str, str, Json]] = []  # version, list, type, object
        self.compacted = 0  # watches from before this version are told 410
        self.events: list[Json] = []
        self.requests: list[tuple[str, str, str]] = []  # method, path, user agent
        self.failures: list[tuple[str, int]] = []  # (part of a path, status) of the next requests
        self.epoch = 0  # watches of an older epoch end
        self.page = 10_000
        self.is_up = True
        self._http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self})
        )
        self._http.daemon_threads = True
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self.end_watches()
        self._http.shutdown()
        self._http.server_close()

    def put(self, kind: str, data: Json) -> Json:
        """Create or replace an object."""
        with self.lock:
            key = key_of(data)
            is_new = key not in self.objects[kind]
            return self._store(kind, "ADDED" if is_new else "MODIFIED", deepcopy(data))

    def change(self, kind: str, key: str, *parts: Mapping[str, Any]) -> Json:
        """Merge parts into an object, as a kubelet or user would patch it."""
        with self.lock:
            data = deepcopy(self.objects[kind][key])
            for part in parts:
                _merge(data, part)
            return self._store(kind, "MODIFIED", data)

    def remove(self, kind: str, key: str) -> None:
        with self.lock:
            self._store(kind, "DELETED", deepcopy(self.objects[kind][key]))
            del self.objects[kind][key]

    def bookmark(self) -> None:
        """Send a bookmark to all watches."""
        with self.lock:
            self.version += 1
            data = {"metadata": {"resourceVersion": str(self.version)}}
            for kind in self.objects:
                self.log.append((self.version, kind, "BOOKMARK", data))
            self.lock.notify_all()

    def compact(self) -> None:
        """Forget all changes so far, and end the watches: the next ones are too old."""
        with self.lock:
            self.version += 1
            self.compacted = self.version
        self.end_watches()

    def end_watches(self) -> None:
        with self.lock:
            self.epoch += 1
            self.lock.notify_all()

    def _store(self, kind: str, change: str, data: Json) -> Json:
        self.version += 1
        data["metadata"]["resourceVersion"] = str(self.version)
        if change != "DELETED":
            self.objects[kind][key_of(data)] = data
        self.log.append((self.version, kind, change, data))
        self.lock.notify_all()
        return data

    def bind(self, namespace: str, name: str, body: Json) -> tuple[int, Json]:
        with self.lock:
            pod = self.objects["pods"].get(f"{namespace}/{name}")
            if pod is None:
                return 404, status(404, f'pods "{name}" not found')
            refused = 'Operation cannot be fulfilled on pods/binding "' + name + '": '
            wanted, uid = body["metadata"].get("uid"), pod["metadata"]["uid"]
            if wanted and wanted != uid:
                text = f"Precondition failed: UID in precondition: {wanted}, in object: {uid}"
                return 409, status(409, refused + text)
            if pod["metadata"].get("deletionTimestamp"):
                return 409, status(
                    409, refused + f"pod {name} is being deleted, cannot be assigned to a host"
                )
            if pod["spec"].get("nodeName"):
                node = pod["spec"]["nodeName"]
                return 409, status(
                    409, refused + f'pod {name} is already assigned to node "{node}"'
                )
            data = deepcopy(pod)
            data["spec"]["nodeName"] = body["target"]["name"]
            self._store("pods", "MODIFIED", data)
            return 201, {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "code": 201,
            }

    def delete(self, namespace: str, name: str, body: Json) -> tuple[int, Json]:
        """Delete an unbound pod at once; a bound one waits for its kubelet (`remove`)."""
        with self.lock:
            pod = self.objects["pods"].get(f"{namespace}/{name}")
            if pod is None:
                return 404, status(404, f'pods "{name}" not found')
            wanted = (body.get("preconditions") or {}).get("uid")
            if wanted and wanted != pod["metadata"]["uid"]:
                return 409, status(409, "Precondition failed: UID in precondition")
            data = deepcopy(pod)
            data["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
            self._store("pods", "MODIFIED", data)
            if not pod["spec"].get("nodeName"):
                self.remove("pods", f"{namespace}/{name}")
            return 200, data


def key_of(data: Json) -> str:
    """Namespace and name of a pod, name of a node."""
    metadata = data["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _merge(data: Json, part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if isinstance(value, Mapping) and isinstance(data.get(name), dict):
            _merge(data[name], value)
        else:
            data[name] = value


class _Handler(BaseHTTPRequestHandler):
    """Answers requests from the objects of a fake."""

    fake: ClassVar[FakeApiServer]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, query = self._begin()
        if self._failed(path):
            return
        if path.rstrip("/") == "/version":
            self._answer(200, {"major": "1", "minor": "0", "gitVersion": "v1.0.0-fake"})
            return
        kind = path.rsplit("/", 1)[-1]
        if query.get("watch") in ("true", "True"):
            self._watch(kind, int(query["resourceVersion"]), int(query["timeoutSeconds"]))
        else:
            self._list(kind, int(query.get("limit", self.fake.page)), query.get("continue"))

    def do_POST(self) -> None:
        path, _ = self._begin()
        body = self._body()
        if self._failed(path):
            return
        parts = path.strip("/").split("/")
        if parts[-1] == "binding":
            self._answer(*self.fake.bind(parts[3], parts[5], body))
        elif parts[-1] == "events":
            self.fake.events.append(body)
            self._answer(201, body)
        else:
            self._answer(404, status(404, f"no such path: {path}"))

    def do_DELETE(self) -> None:
        path, _ = self._begin()
        body = self._body()
        if not self._failed(path):
            parts = path.strip("/").split("/")
            self._answer(*self.fake.delete(parts[3], parts[5], body))

    def _begin(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        self.fake.requests.append((self.command, self.path, self.headers.get("User-Agent", "")))
        return url.path, {name: values[-1] for name, values in parse_qs(url.query).items()}

    def _body(self) -> Json:
        size = int(self.headers.get("Content-Length") or 0)
        data: Json = json.loads(self.rfile.read(size) or b"{}")
        return data

    def _failed(self, path: str) -> bool:
        if not self.fake.is_up:
            self._answer(503, status(503, "the server is currently unable to handle the request"))
            return True
        for failure in self.fake.failures:
            part, code = failure
            if part in path:
                self.fake.failures.remove(failure)
                self._answer(code, status(code, f"the fake was told to answer {code}"))
                return True
        return False

    def _answer(self, code: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _list(self, kind: str, limit: int, token: str | None) -> None:
        with self.fake.lock:
            keys = sorted(self.fake.objects[kind])
            begin = int(token or 0)
            size = min(limit, self.fake.page)
            items = [self.fake.objects[kind][key] for key in keys[begin : begin + size]]
            metadata = {"resourceVersion": str(self.fake.version)}
            if begin + size < len(keys):
                metadata["continue"] = str(begin + size)
        self._answer(
            200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}
        )

    def _watch(self, kind: str, version: int, seconds: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        epoch, until = self.fake.epoch, time.monotonic() + seconds
        if version < self.fake.compacted:
            text = f"too old resource version: {version} ({self.fake.compacted})"
            self._event("ERROR", status(410, text))
        else:
            with suppress(BrokenPipeError, ConnectionResetError):
                self._follow(kind, version, epoch, until)
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _follow(self, kind: str, version: int, epoch: int, until: float) -> None:
        begin = 0
        while True:
            with self.fake.lock:
                if len(self.fake.log) == begin and self.fake.epoch == epoch:
                    self.fake.lock.wait(0.5)
                if self.fake.epoch != epoch or time.monotonic() > until:
                    return
                new, begin = self.fake.log[begin:], len(self.fake.log)
            for at, of, change, data in new:
                if of == kind and at > version:
                    self._event(change, data)

    def _event(self, kind: str, data: Json) -> None:
        line = json.dumps({"type": kind, "object": data}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
