"""The manifests: their rights are those that the backend uses, no more and no fewer."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.execution.backends.kubernetes.cluster import Cluster, Note
from apps.execution.core.kubernetes.answers import read_pod
from apps.execution.core.kubernetes.jobs import fields_of
from apps.execution.core.kubernetes.mirror import ExpiredError, Mirror
from apps.execution.management.commands.run_kubernetes import Command
from tests.execution.kubernetes.fake_api_server import FakeApiServer
from tests.execution.kubernetes.objects import a_node, a_pod

DEPLOY = Path(__file__).parents[3] / "deploy/kubernetes"
VERBS = {"POST": "create", "DELETE": "delete"}


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text()) if each]


def granted() -> set[tuple[str, str]]:
    roles = [each for each in documents("rbac.yaml") if each["kind"] == "ClusterRole"]
    rules = [rule for role in roles for rule in role["rules"]]
    assert {group for rule in rules for group in rule["apiGroups"]} == {""}
    return {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(method: str, path: str) -> tuple[str, str]:
    """Return the resource and verb of a request, as RBAC names them."""
    address, _, query = path.partition("?")
    parts = re.sub(r"^/api/v1/(namespaces/[^/]+/)?", "", address).split("/")
    resource = parts[0] if len(parts) < 3 else f"{parts[0]}/{parts[2]}"
    reads = "watch" if "watch=True" in query else "list" if len(parts) == 1 else "get"
    return resource, VERBS.get(method, reads)


def test_the_rights_are_those_that_the_client_uses(fake: FakeApiServer, api: Cluster) -> None:
    fake.put("nodes", a_node("n1"))
    pods = [read_pod(fake.put("pods", a_pod(name))) for name in ("p1", "p2")]
    for source in (api.nodes(), api.pods()):
        _, version = source.list()
        fake.compact()  # the watch ends at once
        with pytest.raises(ExpiredError, match="too old"):
            _follow(source.watch(version))
    api.bind(pods[0], "n1")
    api.delete(pods[1])
    api.write(Note(pods[0], "Scheduled", "done"))
    assert {used(method, path) for method, path, _ in fake.requests} == granted()


def _follow(events: Any) -> None:
    mirror = Mirror(lambda data: data, str)
    for event in events:
        mirror.apply(event)


def test_bindings_name_roles_and_the_account_of_the_deployment() -> None:
    found = documents("rbac.yaml")
    roles = {each["metadata"]["name"] for each in found if each["kind"] == "ClusterRole"}
    bindings = [each for each in found if each["kind"] == "ClusterRoleBinding"]
    assert {each["roleRef"]["name"] for each in bindings} == roles
    (account,) = (each["metadata"] for each in found if each["kind"] == "ServiceAccount")
    for each in bindings:
        (subject,) = each["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    (deployment,) = documents("deployment.yaml")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    assert deployment["metadata"]["namespace"] == account["namespace"]


def test_the_deployment_runs_the_command_with_options_that_exist() -> None:
    (deployment,) = documents("deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    command = pod["containers"][0]["command"]
    assert command[:3] == ["python", "manage.py", "run_kubernetes"]
    Command().create_parser("manage.py", "run_kubernetes").parse_args(command[3:])
    assert pod["schedulerName"] != "berth"


def test_the_example_pod_is_accepted() -> None:
    (data,) = documents("example-pod.yaml")
    data["metadata"] |= {"namespace": "default", "uid": "1"}
    fields = fields_of(read_pod(data))
    assert (fields["application"], fields["units"]) == ("render", 2)
    assert fields["target"] == {"kind": "completion_time", "seconds": 600}


def test_the_scheduler_asks_the_verbs_of_the_extender_and_goes_on_without_it() -> None:
    (profile,) = documents("scheduler-extender.yaml")
    (extender,) = profile["extenders"]
    assert profile["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert (extender["filterVerb"], extender["prioritizeVerb"]) == ("filter", "prioritize")
    assert (extender["ignorable"], extender["nodeCacheCapable"]) == (True, True)
    (service,) = documents("extender-service.yaml")
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    port = service["spec"]["ports"][0]["port"]
    assert extender["urlPrefix"] == f"https://{host}:{port}/extender"


def test_the_options_that_the_service_names_exist() -> None:
    text = (DEPLOY / "extender-service.yaml").read_text()
    options = re.findall(r"--extender\S* \S+", text)
    parser = Command().create_parser("manage.py", "run_kubernetes")
    found = parser.parse_args(" ".join(options).split())
    assert (found.extender, str(found.extender_client_ca)) == (("0.0.0.0", 8443), "/tls/ca.crt")  # noqa: S104
