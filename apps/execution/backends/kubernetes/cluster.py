"""The API server through the official client: list, watch, bind, delete, and write events.

Bodies are read as JSON: the models of the client take 20 times as long to make as the values of
`core.kubernetes`. Nothing is retried here; callers do that, with back-off.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import urllib3
from kubernetes import client, config
from kubernetes.watch.watch import iter_resp_lines

from apps.common.core.errors import ControlPlaneError, TransientError
from apps.execution.core.kubernetes.mirror import GONE, ExpiredError
from apps.execution.core.kubernetes.values import Pod

CONNECT_S: Final = 5.0
REQUEST_S: Final = 30.0
WATCH_S: Final = 240  # after which the API server ends a watch, and the next one continues
SILENT_S: Final = 90.0  # without an event or bookmark: the connection may be dead
PAGE: Final = 500
COMPONENT: Final = "berth"
CONFLICT: Final = 409
NOT_FOUND: Final = 404
_BUSY: Final = frozenset({0, 408, 429})  # and 5xx
_PODS: Final = "pods"
_NODES: Final = "nodes"


class KubernetesAwayError(TransientError):
    """The API server does not answer, or is too busy."""


class BoundError(ControlPlaneError):
    """A pod is bound already, or another pod has its name by now."""


class PodGoneError(ControlPlaneError):
    """A pod no longer exists."""


class ForbiddenError(ControlPlaneError):
    """The API server refuses a request: a right is missing, or it is invalid."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event on a pod, as `kubectl describe pod` shows it."""

    pod: Pod
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server.

    Attributes
    ----------
    core : client of its core API
    instance : name of this process, in events
    """

    core: Any  # the client has no types
    instance: str = COMPONENT

    def version(self) -> str:
        """Return the version of the API server, such as v1.33.1.

        Raises
        ------
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        with _answering("version"):
            api = client.VersionApi(self.core.api_client)
            # as JSON: the model of the client refuses answers without every field
            answer = api.get_code(_preload_content=False, _request_timeout=(CONNECT_S, REQUEST_S))
            return str(json.loads(_drain(answer)).get("gitVersion", "of unknown version"))

    def pods(self) -> "Source":
        """Return the list of all pods."""
        return Source(_PODS, self.core.list_pod_for_all_namespaces)

    def nodes(self) -> "Source":
        """Return the list of all nodes."""
        return Source(_NODES, self.core.list_node)

    def bind(self, pod: Pod, node: str) -> None:
        """Bind this very pod, not one of its name, to a node.

        Raises
        ------
        BoundError : it is bound already, or is being deleted.
        PodGoneError : it no longer exists.
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        binding = client.V1Binding(
            metadata=client.V1ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid),
            target=client.V1ObjectReference(api_version="v1", kind="Node", name=node),
        )
        with _answering(f"binding of {pod.path}"):
            # the answer is a Status, which the client would fail to read as a Binding
            _drain(
                self.core.create_namespaced_pod_binding(
                    pod.name,
                    pod.namespace,
                    binding,
                    _preload_content=False,
                    _request_timeout=(CONNECT_S, REQUEST_S),
                )
            )

    def delete(self, pod: Pod) -> None:
        """Delete this very pod, with the grace period that it names.

        Raises
        ------
        PodGoneError : it no longer exists, or another pod has its name.
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.uid))
        try:
            with _answering(f"deletion of {pod.path}"):
                _drain(
                    self.core.delete_namespaced_pod(
                        pod.name,
                        pod.namespace,
                        body=options,
                        _preload_content=False,
                        _request_timeout=(CONNECT_S, REQUEST_S),
                    )
                )
        except BoundError as error:
            raise PodGoneError(str(error)) from error

    def write(self, note: Note) -> None:
        """Write an event on a pod.

        Raises
        ------
        PodGoneError : its namespace no longer exists.
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        at = datetime.now(UTC)
        pod = note.pod
        event = client.CoreV1Event(
            metadata=client.V1ObjectMeta(
                generate_name=f"{pod.name[:200]}.", namespace=pod.namespace
            ),
            involved_object=client.V1ObjectReference(
                api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid
            ),
            type="Warning" if note.is_warning else "Normal",
            reason=note.reason,
            message=note.message[:1024],
            action="Scheduling",
            event_time=at,
            first_timestamp=at,
            last_timestamp=at,
            count=1,
            reporting_component=COMPONENT,
            reporting_instance=self.instance[:128],
            source=client.V1EventSource(component=COMPONENT),
        )
        with _answering(f"event on {pod.path}"):
            _drain(
                self.core.create_namespaced_event(
                    pod.namespace,
                    event,
                    _preload_content=False,
                    _request_timeout=(CONNECT_S, REQUEST_S),
                )
            )


@dataclass(frozen=True, slots=True)
class Source:
    """One list of objects; ``call`` is the client's method."""

    name: str
    call: Callable[..., Any]

    def list(self) -> tuple[list[Mapping[str, Any]], str]:
        """Return all objects and the resource version of the list.

        Raises
        ------
        ExpiredError : it took too long to read all pages.
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        objects: list[Mapping[str, Any]] = []
        token = None
        while True:
            with _answering(f"list of {self.name}"):
                answer = self.call(
                    limit=PAGE,
                    _continue=token,
                    _preload_content=False,
                    _request_timeout=(CONNECT_S, REQUEST_S),
                )
                page = json.loads(_drain(answer))
            objects += page.get("items") or ()
            token = page["metadata"].get("continue")
            if not token:
                return objects, page["metadata"]["resourceVersion"]

    def watch(
        self, version: str, opened: Callable[[Any], None] = lambda _answer: None
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the events after a resource version, with bookmarks, until the watch ends.

        Parameters
        ----------
        opened : is told the open answer, which another thread may close

        Raises
        ------
        ExpiredError : the version is too old.
        KubernetesAwayError, ForbiddenError : see `_answering`.
        """
        with _answering(f"watch of {self.name}"):
            answer = self.call(
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_S,
                _preload_content=False,
                _request_timeout=(CONNECT_S, SILENT_S),
            )
            opened(answer)
            try:
                for line in iter_resp_lines(answer):
                    if line:
                        yield json.loads(line)
            finally:
                answer.close()
                answer.release_conn()


def connect(kubeconfig: str | None, context: str | None, *, instance: str) -> Cluster:
    """Connect with a kubeconfig file; without one, as the service account of this pod.

    Raises
    ------
    ForbiddenError : there is neither, or the file is malformed.
    """
    settings = client.Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(settings)
        else:
            config.load_kube_config(kubeconfig, context, settings, persist_config=False)
    except config.ConfigException as error:
        raise ForbiddenError(f"no way to the API server: {error}") from error
    return connected(settings, instance=instance)


def connected(settings: Any, *, instance: str = COMPONENT) -> Cluster:
    """Return the API server of a configuration of the client."""
    settings.retries = False  # a repeated POST must be a decision, not an accident
    return Cluster(client.CoreV1Api(client.ApiClient(settings)), instance)


def _drain(answer: Any) -> bytes:
    """Read an answer to its end, which frees its connection."""
    try:
        return bytes(answer.data)
    finally:
        answer.release_conn()


@contextmanager
def _answering(what: str) -> Iterator[None]:
    """Turn the errors of the client into ours.

    Raises
    ------
    KubernetesAwayError : no answer, or an answer that says to try again.
    ExpiredError : 410, the resource version or the page is too old.
    BoundError : 409.
    PodGoneError : 404.
    ForbiddenError : any other refusal; says which, and the message of the API server.
    """
    try:
        yield
    except client.ApiException as error:
        raise _refusal(what, error) from error
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise KubernetesAwayError(f"{what}: {error!s:.300}") from error


def _refusal(what: str, error: Any) -> Exception:
    status = error.status or 0
    text = f"{what}: {status} {_message_of(error)}"
    if status in _BUSY or status >= 500:
        return KubernetesAwayError(text)
    by_status = {GONE: ExpiredError, CONFLICT: BoundError, NOT_FOUND: PodGoneError}
    return by_status.get(status, ForbiddenError)(text)


def _message_of(error: Any) -> str:
    """Return the message of the Status that an answer holds, else its reason."""
    try:
        return str(json.loads(error.body or "")["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return str(error.reason)[:300]
