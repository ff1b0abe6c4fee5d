"""The extender webhook over HTTP, with an exchange that kube-scheduler has made."""

import json
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.classification.core.profile import Profile
from apps.common.core.interference import N_SOURCES
from apps.execution.backends.kubernetes.cluster import Cluster
from apps.execution.backends.kubernetes.extender import (
    NOT_READ,
    Access,
    Extender,
    ExtenderServer,
    ExtenderSetupError,
)  # fmt: skip
from apps.execution.backends.kubernetes.extender_views import Views
from apps.execution.core.kubernetes.answers import read_pod
from apps.execution.core.kubernetes.extender import View, judge
from apps.execution.core.kubernetes.values import Pod, Resources
from apps.scheduling.core.commands import unmeasured_profile
from tests.execution.kubernetes.fake_api_server import FakeApiServer
from tests.execution.kubernetes.objects import a_node, a_pod

RECORDED = json.loads((Path(__file__).parent / "documented/extender_1_25.json").read_text())
TOKEN = "secret-of-the-scheduler"  # noqa: S105 - of this test
GIB = 2**30


def a_view(*names: str, **columns: Any) -> View:
    """Servers of four units and 8 GiB; ``columns`` replaces arrays."""
    size = len(names)
    values: dict[str, Any] = {
        "index": {name: i for i, name in enumerate(names)},
        "is_open": np.ones(size, dtype=np.bool_),
        "free": np.full(size, 4),
        "units": np.full(size, 4),
        "memory": np.full(size, 8.0 * GIB),
        "tolerance": np.full((size, N_SOURCES), 100.0),
        **columns,
    }
    return View(**values)


class FixedViews(Views):
    """Views that a test sets."""

    def __init__(self, view: View | None, profile: Profile | None = None) -> None:
        super().__init__()
        self.fixed, self.known = view, profile

    def current(self, now_s: float) -> View | None:
        return self.fixed

    def profile(self, application: str | None) -> Profile | None:
        return None if application is None else self.known


Ask = Callable[..., tuple[int, Any]]


def asker(server: ExtenderServer, **headers: str) -> Ask:
    def ask(verb: str, body: Any, **more: str) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30.0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"/extender/{verb}", data, {**headers, **more})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    return ask


@pytest.fixture
def views() -> FixedViews:
    closed = np.array([False, True, True, True])
    return FixedViews(a_view("n1", "n2", "n3", "n4", is_open=closed, free=np.array([4, 1, 4, 2])))


@pytest.fixture
def server(api: Cluster, views: FixedViews) -> Iterator[ExtenderServer]:
    found = ExtenderServer(("127.0.0.1", 0), Extender(api, views), Access(TOKEN))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def ask(server: ExtenderServer) -> Ask:
    return asker(server, Authorization=f"Bearer {TOKEN}")


def test_filter_answers_the_recorded_request_in_its_form(ask: Ask) -> None:
    code, answer = ask("filter", RECORDED["filter"]["request"])
    recorded = RECORDED["filter"]["answer"]
    assert code == 200
    assert answer == {**recorded, "FailedNodes": {"n1": "Berth gives the node no new work"}}


def test_prioritize_answers_the_recorded_request_in_its_form(ask: Ask) -> None:
    code, answer = ask("prioritize", RECORDED["prioritize"]["request"])
    assert code == 200
    assert [each.keys() for each in answer] == [
        each.keys() for each in RECORDED["prioritize"]["answer"]
    ]
    assert answer == [
        {"Host": "n2", "Score": 0}, {"Host": "n3", "Score": 10}, {"Host": "n4", "Score": 3},
    ]  # fmt: skip


def test_bind_binds_at_the_api_server_and_says_what_went_wrong(
    ask: Ask, fake: FakeApiServer
) -> None:
    request = RECORDED["bind"]["request"]
    assert "not found" in ask("bind", request)[1]["Error"]
    fake.put("pods", a_pod("e0", namespace="default", uid="a5f0"))
    assert ask("bind", request) == (200, RECORDED["bind"]["answer"])
    assert fake.objects["pods"]["default/e0"]["spec"]["nodeName"] == "n3"
    assert 'already assigned to node "n3"' in ask("bind", request)[1]["Error"]
    assert "needs PodName" in ask("bind", {"PodName": "e0"})[1]["Error"]


def test_whole_nodes_are_answered_with_whole_nodes(ask: Ask) -> None:
    nodes = [a_node(name) for name in ("n3", "n1")]
    args = {"Pod": a_pod("p"), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    _, answer = ask("filter", args)
    assert (answer["NodeNames"], answer["Nodes"]["items"]) == (None, nodes[:1])
    assert list(answer["FailedNodes"]) == ["n1"]
    assert ask("prioritize", args)[1] == [{"Host": "n3", "Score": 10}, {"Host": "n1", "Score": 0}]


def test_nodes_that_berth_does_not_know_pass(ask: Ask) -> None:
    args = {"Pod": a_pod("p"), "Nodes": None, "NodeNames": ["other"]}
    assert ask("filter", args)[1]["NodeNames"] == ["other"]
    assert ask("prioritize", args)[1] == [{"Host": "other", "Score": 0}]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], "the request is no JSON object"),
        ({}, "the request has no Pod"),
        ({"Pod": {"metadata": {"name": "p"}}}, "the pod p: KeyError"),
        ({"Pod": a_pod("p")}, "neither NodeNames nor Nodes"),
        ({"Pod": a_pod("p"), "Nodes": {"items": [{}]}}, "a node of the request has no name"),
    ],
    ids=["list", "empty", "pod", "nodes", "name"],
)
def test_a_malformed_request_is_an_error_in_the_answer(ask: Ask, body: object, error: str) -> None:
    code, answer = ask("filter", body)
    assert (code, error in answer["Error"], answer["NodeNames"]) == (200, True, None)
    assert ask("prioritize", body)[0] == 400


def test_without_a_copy_of_the_cluster_it_says_so(ask: Ask, views: FixedViews) -> None:
    views.fixed = None
    assert ask("filter", RECORDED["filter"]["request"])[1]["Error"] == NOT_READ
    scores = {each["Score"] for each in ask("prioritize", RECORDED["filter"]["request"])[1]}
    assert scores == {0}


def test_other_bodies_verbs_and_sizes_are_refused(server: ExtenderServer, ask: Ask) -> None:
    assert ask("filter", b"{")[0] == 400
    assert ask("preempt", {})[0] == 404
    assert ask("filter", b"", **{"Content-Length": str(2**40)})[0] == 413


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic !"}, 401),
        ({"Authorization": f"Digest {TOKEN}"}, 401),
        ({"Authorization": "Basic " + b64encode(b"berth:wrong").decode()}, 401),
        ({"Authorization": "Basic " + b64encode(f"berth:{TOKEN}".encode()).decode()}, 200),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
    ],
    ids=["none", "wrong", "malformed", "kind", "password", "basic", "bearer"],
)
def test_a_token_is_needed(server: ExtenderServer, header: dict[str, str], code: int) -> None:
    assert asker(server, **header)("filter", RECORDED["filter"]["request"])[0] == code


def test_a_probe_needs_no_token(server: ExtenderServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30.0)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b'"ok"'
    connection.close()


def certificates(where: Path) -> None:
    """Make a CA, and certificates of a server and a client."""

    def openssl(*arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=where, check=True, capture_output=True)  # noqa: S603  # noqa: S607

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    (where / "ext").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl(
            "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", f"{name}.pem", "-extfile", "ext",
        )  # fmt: skip


def test_a_client_certificate_is_checked(api: Cluster, views: FixedViews, tmp_path: Path) -> None:
    certificates(tmp_path)
    access = Access(
        certificate=tmp_path / "server.pem",
        key=tmp_path / "server.key",
        client_ca=tmp_path / "ca.pem",
    )
    server = ExtenderServer(("127.0.0.1", 0), Extender(api, views), access)
    server.start()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _status(server, trusting)
    trusting.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    assert _status(server, trusting) == 200
    server.stop()


def _status(server: ExtenderServer, context: ssl.SSLContext) -> int:
    """Return the status of a request over TLS."""
    connection = HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30.0)
    try:
        connection.request("POST", "/filter", json.dumps(RECORDED["filter"]["request"]))
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (Access(), "needs a token file or a client CA"),
        (Access(client_ca=Path("ca")), "need a certificate of the server"),
        (Access("t", Path("/nowhere"), Path("/nowhere")), "TLS of the extender"),
    ],
    ids=["open", "plain", "missing"],
)
def test_an_extender_that_nothing_protects_does_not_start(access: Access, message: str) -> None:
    with pytest.raises(ExtenderSetupError, match=message):
        access.context()


POD = Pod("u", "n", "p", requests=Resources(2000, GIB, 1))


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (a_view("a", is_open=np.array([False])), "Berth gives the node no new work"),
        (a_view("a", free=np.array([1])), "Berth counts 1 free units, and the pod needs 2"),
        (a_view("a", memory=np.array([1.0])), "Berth counts 1 free bytes of memory"),
    ],
    ids=["closed", "units", "memory"],
)
def test_a_node_fails_for_a_reason(view: View, message: str) -> None:
    assert judge(POD, ["a"], view, None).failed == {"a": message}


def test_a_measured_application_is_kept_from_jobs_that_do_not_tolerate_it() -> None:
    tolerance = np.full((2, N_SOURCES), 100.0)
    tolerance[1, 2] = 10.0  # of the last-level cache
    view = a_view("calm", "tender", tolerance=tolerance)
    measured = unmeasured_profile("a", "batch", ("p",))
    caused = measured.caused.value.copy()
    caused[2] = 60.0
    object.__setattr__(measured.caused, "value", caused)
    verdict = judge(POD, ["calm", "tender"], view, measured)
    assert list(verdict.failed) == ["tender"]
    assert "do not tolerate its use of llc_capacity" in verdict.failed["tender"]
    assert judge(POD, ["calm", "tender"], view, None).scores == {"calm": 10, "tender": 1}


def test_scores_fall_with_load_and_with_tolerance() -> None:
    free = np.array([4, 3, 2])
    by_load = judge(POD, ["a", "b", "c"], a_view("a", "b", "c", free=free), None).scores
    assert by_load == {"a": 10, "b": 5, "c": 0}
    tolerance = np.full((3, N_SOURCES), 100.0)
    tolerance[1], tolerance[2] = 50.0, -20.0
    by_tolerance = judge(POD, ["a", "b", "c"], a_view("a", "b", "c", tolerance=tolerance), None)
    assert by_tolerance.scores == {"a": 10, "b": 5, "c": 0}


def test_a_thousand_nodes_are_judged_in_time(api: Cluster) -> None:
    """CPU time, because other work on the machine says nothing about the extender.

    Of httpTimeout, 1 s in the example, 20 times as much would be left at 1,000 nodes.
    """
    names = [f"node-{i}" for i in range(1000)]
    extender = Extender(api, FixedViews(a_view(*names)))
    body = json.dumps({"Pod": a_pod("p"), "Nodes": None, "NodeNames": names})
    took = []
    for _ in range(200):
        begun = time.thread_time()
        json.dumps(extender.filter(json.loads(body)))
        json.dumps(extender.prioritize(json.loads(body)))
        took.append(time.thread_time() - begun)
    assert np.percentile(took, 99) < 0.05


def test_recorded_pods_are_read() -> None:
    assert read_pod(RECORDED["filter"]["request"]["Pod"]).requests.cpu_millis == 10
