"""Files of jobs: stored once, shown as a digest, and read by those who see the job."""

from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import Project, User
from apps.workloads.api.submission import MAX_ARCHIVES
from apps.workloads.core.archives import digest_of
from apps.workloads.models import Archive, Job
from apps.workloads.services.retention import delete_archives, delete_ended_jobs
from tests import factories
from tests.api.conftest import Speak
from tests.workloads import archives

DATA = archives.tar_of({"main.sh": b"echo hello"})
DIGEST = digest_of(DATA)
TEXT = b64encode(DATA).decode()
HOUR = timedelta(hours=1, seconds=1)


@pytest.fixture(autouse=True)
def machine(project: Project) -> None:
    factories.cluster()
    factories.server("box-1", of=factories.platform("box", cores=2), backend="agent")


def submit(api: APIClient, files: str = TEXT, **more: Any) -> Any:
    body = {"command": ["sh", "main.sh"], "files": files, **more}
    return api.post("/api/v1/jobs/", body)


def test_a_job_shows_the_digest_of_its_files_and_they_can_be_read(api: APIClient) -> None:
    created = submit(api)
    assert created.status_code == 201, created.content
    job = created.json()["metadata"]["id"]
    assert created.json()["spec"]["files"] == DIGEST
    (row,) = api.get("/api/v1/jobs/").json()["results"]
    assert row["spec"]["files"] == DIGEST
    assert api.get(f"/api/v1/jobs/{job}/files/").content == DATA


def test_a_job_without_files_has_none_to_read(api: APIClient) -> None:
    job = submit(api, files=None).json()  # type: ignore[arg-type]
    assert job["spec"]["files"] is None
    assert api.get(f"/api/v1/jobs/{job['metadata']['id']}/files/").status_code == 404


@pytest.mark.parametrize("route", ["files", "output"])
@pytest.mark.parametrize("name", ["fields", "omit"])
def test_bytes_have_no_fields_to_select(api: APIClient, route: str, name: str) -> None:
    job = submit(api).json()["metadata"]["id"]
    response = api.get(f"/api/v1/jobs/{job}/{route}/?{name}=id")
    assert (response.status_code, response.json()["code"]) == (400, "unknown_parameter")


def test_equal_archives_are_stored_once(api: APIClient) -> None:
    assert [submit(api).status_code for _ in range(2)] == [201, 201]
    body = {"defaults": {"command": ["true"], "files": TEXT}, "items": [{}] * 30}
    assert api.post("/api/v1/batches/", body).json()["accepted"] == 30
    assert bytes(Archive.objects.get().data) == DATA
    assert Job.objects.filter(files=DIGEST).count() == 32


def test_the_account_and_the_progress_command_of_a_job_are_submitted_again(api: APIClient) -> None:
    progress: dict[str, Any] = {"progress_command": ["cat", "log"], "progress_every_seconds": 5.0}
    first = submit(api, user="berth-jobs", **progress).json()
    again = api.post(f"/api/v1/jobs/{first['metadata']['id']}/rerun/").json()
    assert again["spec"] == first["spec"]
    assert first["spec"].items() >= {"user": "berth-jobs", **progress}.items()


def test_a_repeated_key_creates_one_job(api: APIClient) -> None:
    first, second = (
        api.post(
            "/api/v1/jobs/",
            {"command": ["true"], "files": TEXT},
            HTTP_IDEMPOTENCY_KEY="k",
        )
        for _ in range(2)
    )
    assert first.json() == second.json()
    assert Job.objects.count() == 1


def test_a_job_may_name_the_files_of_another_job_of_its_project(api: APIClient) -> None:
    refused = submit(api, DIGEST)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/spec/files"
    first = submit(api).json()
    assert submit(api, DIGEST).json()["spec"]["files"] == DIGEST
    again = api.post(f"/api/v1/jobs/{first['metadata']['id']}/rerun/")
    assert again.json()["spec"]["files"] == DIGEST


def test_nobody_gets_the_files_of_another_project(
    api: APIClient, as_user: Speak, stranger: User
) -> None:
    job = submit(api).json()["metadata"]["id"]
    other = as_user(stranger)
    assert other.get(f"/api/v1/jobs/{job}/files/").status_code == 404
    refused = submit(other, DIGEST)
    assert refused.status_code == 422
    assert "no job of the project elsewhere has the archive" in refused.content.decode()


def test_an_archive_that_could_leave_the_directory_is_refused(api: APIClient) -> None:
    text = b64encode(archives.tar_of({"../x": b""})).decode()
    response = submit(api, text)
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"], error["code"]) == (
        422,
        "/files",
        "bad_archive",
    )
    assert error["detail"] == "must hold relative paths without ..; '../x' is not"
    assert not Archive.objects.exists()


def test_an_archive_that_is_not_ascii_is_refused_alone(api: APIClient) -> None:
    response = submit(api, "\u00fc")
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/files")
    items = [{"command": ["true"]}, {"command": ["true"], "files": "\u00fc"}]
    batch = api.post("/api/v1/batches/", {"items": items})
    assert (batch.status_code, batch.json()["accepted"], batch.json()["rejected"]) == (202, 1, 1)


def test_a_batch_has_few_archives_in_its_items(api: APIClient) -> None:
    item = {"command": ["true"], "files": TEXT}
    response = api.post("/api/v1/batches/", {"items": [item] * (MAX_ARCHIVES + 1)})
    assert response.status_code == 422
    assert "at most 20 items with an archive, not 21" in response.content.decode()
    assert api.post("/api/v1/batches/", {"items": [item] * 3}).json()["accepted"] == 3


def test_an_archive_is_deleted_with_the_last_job_that_has_it(api: APIClient) -> None:
    first, last = (submit(api).json()["metadata"]["id"] for _ in range(2))
    Archive.objects.update(used_at=timezone.now() - HOUR)
    end(first)
    assert (delete_ended_jobs(timezone.now()), delete_archives()) == (1, 0)
    end(last)
    assert (delete_ended_jobs(timezone.now()), delete_archives()) == (1, 1)
    assert not Archive.objects.exists()


def test_an_archive_that_was_just_named_is_not_deleted(api: APIClient) -> None:
    submit(api)
    Archive.objects.update(used_at=timezone.now() - HOUR)
    submit(api, DIGEST)
    Job.objects.update(files=None)
    assert delete_archives() == 0


def end(job: str) -> None:
    at = timezone.now() - timedelta(seconds=1)
    Job.objects.filter(pk=job).update(state="succeeded", finished_s=1.0, finished_at=at)
