"""Compressed responses and their tags."""

import gzip
import json

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from tests import factories

pytestmark = pytest.mark.django_db
JSON = "application/json"
GZIP = {"Accept-Encoding": "gzip"}
TAGGED = "/api/v1/servers/srv-tagged/"


@pytest.fixture
def operator_client() -> Client:
    factories.cluster()
    for _ in range(20):
        factories.server()
    factories.server("srv-tagged")
    client = Client()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


@pytest.mark.parametrize("path", ["/", "/jobs/", "/figures/power/", "/api/v1/servers/"])
def test_text_is_compressed_for_those_who_accept_it(operator_client: Client, path: str) -> None:
    plain = operator_client.get(path)
    packed = operator_client.get(path, headers=GZIP)
    assert "Content-Encoding" not in plain
    assert packed["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed["Vary"]
    assert len(packed.content) == int(packed["Content-Length"]) < len(plain.content)


def test_equal_bodies_have_different_compressed_sizes(operator_client: Client) -> None:
    sizes = {len(operator_client.get("/api/v1/servers/", headers=GZIP).content) for _ in range(12)}
    assert len(sizes) > 1  # random padding: the size tells little about the content


def test_an_error_of_the_api_is_compressed_as_a_problem_document(operator_client: Client) -> None:
    response = operator_client.get("/api/v1/servers/nothing/", headers=GZIP)
    assert response.status_code == 404
    # the padding may make a short body longer: such a body is sent as it is
    packed = response.get("Content-Encoding") == "gzip"
    body = gzip.decompress(response.content) if packed else response.content
    assert json.loads(body)["code"] == "not_found"


def test_the_tag_of_a_compressed_object_is_strong_and_names_the_encoding(
    operator_client: Client,
) -> None:
    plain = operator_client.get(TAGGED)["ETag"]
    assert operator_client.get(TAGGED, headers=GZIP)["ETag"] == f'{plain[:-1]}-gzip"'


def test_a_compressed_object_is_not_sent_again(operator_client: Client) -> None:
    tag = operator_client.get(TAGGED, headers=GZIP)["ETag"]
    again = operator_client.get(TAGGED, headers={**GZIP, "If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(("generation", "status"), [("g1", 200), ("g9", 412)])
def test_the_tag_of_a_compressed_object_is_valid_in_if_match(
    operator_client: Client, generation: str, status: int
) -> None:
    headers = {"If-Match": f'"{generation}-0123456789abcdef-gzip"'}
    response = operator_client.post(f"{TAGGED}drain/", content_type=JSON, headers=headers)
    assert response.status_code == status
