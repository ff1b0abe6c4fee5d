"""The berth command against a real server."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import override_settings

from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.scheduling.core.admission.types import QueueState
from apps.scheduling.models import AdmissionState, Decision, Reservation
from apps.workloads.core.archives import members
from apps.workloads.models import Job
from apps.workloads.selectors import files_of
from controlplane.cli.errors import Exit
from tests import factories
from tests.api.cluster import build_cluster, place
from tests.cli.conftest import Berth, working
from tests.execution.miss_world import missed
from tests.workloads import archives


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="sue", password=None, role=Role.SUBMITTER)


def submit(berth: Berth, *more: str) -> str:
    code, out, _ = berth("submit", "--app", "memcached", "--best-effort", *more)
    assert code == Exit.OK
    return out.strip()


def test_a_submitted_job_is_shown_listed_and_explained(berth: Berth) -> None:
    job = submit(berth, "--name", "m1")
    assert f"id           {job}" in berth("get", "m1")[1]
    assert job in berth("list", "--state", "submitted")[1]
    assert "No scheduling agent has evaluated the job yet." in berth("why", job)[1]
    assert berth("list", "--state", "running")[1] == "Nothing found.\n"


def test_the_queue_lists_waiting_jobs_with_reasons_and_starts(berth: Berth) -> None:
    factories.cluster()
    submit(berth, "--name", "m1")
    code, out, _ = berth("queue")
    assert code == Exit.OK
    assert re.search(r"m1 +default +- +WaitingForAgent +7 ", out)
    assert berth("queue", "--reason", "Held")[1] == "Nothing found.\n"
    assert json.loads(berth("queue", "--scores", "--json")[1]) == []
    assert "BERTH_ADMISSION is none" in berth("queue", "--admission")[1]


def test_the_queue_is_filtered_before_its_limit(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.cluster()
    for name in ("m1", "m2", "m3", "h1"):
        submit(berth, "--name", name)
    Job.objects.filter(name="h1").update(held=True)
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 2)
    _, out, message = berth("queue")
    assert len(out.splitlines()) == 3
    assert message == "2 of at least 2 waiting jobs are shown: those that start soonest.\n"
    _, out, message = berth("queue", "--project", "default", "--reason", "Held")
    assert re.search(r"h1 +default +- +Held", out)
    assert message == ""
    code, _, message = berth("queue", "--reason", "Absent")
    assert code != Exit.OK
    assert "  reason: must be one of Invalid, Held" in message
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 10)
    message = berth("queue", "--limit", "1")[2]
    assert message == "1 of 4 waiting jobs are shown: those that start soonest.\n"


def test_the_queue_shows_reservations(berth: Berth) -> None:
    factories.cluster()
    assert berth("queue", "--reservations")[1] == "Nothing found.\n"
    job = factories.job("gang", priority=7)
    unit = factories.server().units.values_list("id", flat=True)[0]
    times = {"made_s": 6900.0, "promised_s": 7260.0, "start_s": 1e6}
    Reservation.objects.create(job_id=job.id, unit_ids=[unit], **times)
    out = berth("queue", "--reservations")[1]
    assert re.search(r"gang +\S+ +7 +1 +1 +1 +5.0 min +\S+ h +\S+ h", out), out
    (row,) = json.loads(berth("queue", "--reservations", "--json")[1])
    assert (row["name"], row["free_units"], row["promised_seconds"]) == ("gang", 1, 7260.0)


@override_settings(ADMISSION="arq")
def test_the_queue_shows_the_classes_of_the_admission_control(berth: Berth) -> None:
    factories.cluster()
    rows = [
        QueueState("class 9", 3, 2, 0.5, 60.0, 9.0, None, 1, load_factor=0.75),
        QueueState("class 8", 0, 0, 0.0, None, None, None, 0),
        QueueState("class 7", 1, 4, None, None, None, None, 0, None),
    ]
    queues = [row.as_json() for row in rows]
    AdmissionState.objects.create(control="arq", agent="a", cluster_s=1.0, queues=queues)
    out = berth("queue", "--admission")[1]
    assert re.search(r"class 9 +3 +2 +30.00 +1.0 min +- +1 +0.75", out), out
    assert re.search(r"class 7 +1 +4 +- +- +- +0 +-", out), out
    assert re.search(r"JOBS OF +SERVERS +FREE +FREED /MIN +MEAN BUSY +BOUND", out), out
    assert "class 8" not in out


@override_settings(ADMISSION="count")
def test_the_queue_shows_when_units_of_the_buckets_are_freed(berth: Berth) -> None:
    factories.cluster()
    queues = [QueueState("all units", 3, 2, 0.5, 60.0, 9.0, 78.0, 1).as_json()]
    AdmissionState.objects.create(control="count", agent="a", cluster_s=1.0, queues=queues)
    out = berth("queue", "--admission")[1]
    assert re.search(r"UNITS OF +SERVERS +FREE +FREED /MIN +UNTIL FREE +BOUND", out), out


def test_a_job_names_its_policy_and_guarantee(berth: Berth) -> None:
    job = submit(berth, "--policy", "quietest", "--guarantee", "0.8,0.01")
    spec = json.loads(berth("get", job, "-o", "json")[1])["spec"]
    assert spec["guarantee"] == {"rank_threshold": 0.8, "probability": 0.01}
    assert (spec["policy"], spec["sample_size"]) == ("quietest", None)
    sampled = submit(berth, "--sample-size", "16")
    assert json.loads(berth("get", sampled, "-o", "json")[1])["spec"]["sample_size"] == 16
    with pytest.raises(SystemExit, match="2"):
        berth("submit", "--app", "a", "--best-effort", "--guarantee", "0.8")


def test_a_job_names_the_highest_cost(berth: Berth, tmp_path: Path) -> None:
    job = submit(berth, "--max-cost", "7200", "--input", "1Gi")
    spec = json.loads(berth("get", job, "-o", "json")[1])["spec"]
    assert spec["constraints"]["max_cost"] == 7200.0
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"application": "a", "constraints": {"spread": "rack"}}))
    both = submit(berth, "--max-cost", "5", "--input", "1Gi", "-f", str(path))
    constraints = json.loads(berth("get", both, "-o", "json")[1])["spec"]["constraints"]
    assert (constraints["spread"], constraints["max_cost"]) == ("rack", 5.0)
    assert "input_bytes" in berth("submit", "--app", "a", "--best-effort", "--max-cost", "5")[2]


def test_a_job_names_servers_to_exclude(berth: Berth) -> None:
    job = submit(berth, "--exclude", "quay-1,quay-2", "--max-cost", "5", "--input", "1Gi")
    constraints = json.loads(berth("get", job, "-o", "json")[1])["spec"]["constraints"]
    assert (constraints["excluded"], constraints["max_cost"]) == (["quay-1", "quay-2"], 5.0)


def test_a_job_says_where_its_units_may_be(berth: Berth) -> None:
    where = ["--platforms", "A,B", "--server-label", "disk=ssd", "--locality", "rack"]
    job = submit(berth, *where, "--spread", "server", "--no-gang", "--unit-memory", "2Gi")
    spec = json.loads(berth("get", job, "-o", "json")[1])["spec"]
    assert spec["constraints"] == {
        "platforms": ["A", "B"],
        "labels": {"disk": "ssd"},
        "locality": "rack",
        "spread": "server",
    }
    assert (spec["gang"], spec["unit_memory_bytes"]) == (False, 2 << 30)


def test_output_can_be_json_or_yaml(berth: Berth) -> None:
    job = submit(berth)
    listed = json.loads(berth("list", "-o", "json")[1])
    shown = yaml.safe_load(berth("get", job, "-o", "yaml")[1])
    assert [row["metadata"]["id"] for row in listed] == [job]
    assert shown == listed[0]


def test_a_check_evaluates_a_job_and_writes_nothing(berth: Berth) -> None:
    build_cluster()
    code, out, _ = berth("check", "--app", "a", "--best-effort")
    assert code == Exit.OK
    assert "outcome " in out
    assert Job.objects.count() == 0


def test_a_check_of_an_infeasible_rate_shows_the_best_one(berth: Berth) -> None:
    build_cluster()
    factories.profile(factories.application("a", kind="single_node"), platforms=("A",))
    code, out, _ = berth("check", "--app", "a", "--ips", "1e15")
    assert code == Exit.INFEASIBLE
    assert re.search(r"predicted +3.6e\+08 ips\n", out), out
    code, out, _ = berth("check", "--app", "a", "--ips", "1e15", "--json")
    assert (code, json.loads(out)["predicted"]["low"]) == (Exit.INFEASIBLE, None)


def test_a_check_names_the_quota_that_would_hold_the_job_back(berth: Berth) -> None:
    build_cluster()
    factories.profile(factories.application("a"), platforms=("A",))
    Project.objects.update(max_units=1)
    code, out, _ = berth("check", "--app", "a", "--best-effort", "--units", "2", "--gang")
    assert code == Exit.INFEASIBLE
    assert out.startswith(
        "The job cannot start: the job needs 2 units at once, and project default"
    )
    assert ["reason", "QuotaExceeded"] in [line.split() for line in out.splitlines()]
    assert "next: Request fewer units, or ask an administrator" in out


def test_a_repeated_key_creates_no_second_job(berth: Berth) -> None:
    first = submit(berth, "--key", "k1")
    code, out, err = berth("submit", "--app", "memcached", "--best-effort", "--key", "k1")
    assert (code, out.strip()) == (Exit.OK, first)
    assert "no new job was created" in err
    assert Job.objects.count() == 1


def test_a_job_comes_from_standard_input(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"application": "a", "target": {"kind": "best_effort"}})
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert berth("submit", "-f", "-")[0] == Exit.OK


def test_invalid_fields_are_named(berth: Berth) -> None:
    code, _, err = berth("submit", "--app", "a", "--best-effort", "--tasks", "0")
    assert code == Exit.FAILED
    assert "/tasks: must be at least 1, not 0" in err
    assert "request id: " in err


@pytest.mark.parametrize("verb", ["get", "why", "watch", "cancel"])
def test_an_unknown_job_is_not_found(berth: Berth, verb: str) -> None:
    code, _, err = berth(verb, "nobody")
    assert (code, "job nobody not found" in err) == (Exit.NOT_FOUND, True)


def test_a_wrong_token_is_an_authentication_failure(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_TOKEN", "berth_wrong")
    code, _, err = berth("whoami")
    assert (code, "try: berth login" in err) == (Exit.AUTH, True)


def test_cancelling_prints_the_state_of_each_job(berth: Berth) -> None:
    first, second = submit(berth), submit(berth)
    code, out, _ = berth("cancel", first, second)
    assert (code, out) == (Exit.OK, f"{first}  cancelled\n{second}  cancelled\n")


def test_a_running_job_is_suspended_and_resumed(berth: Berth) -> None:
    factories.cluster()
    job = factories.job("j1", state="running")
    server = factories.server(backend="slurm")
    factories.allocation(job, server, by=factories.decision(job))
    factories.launch(job, backend="slurm")
    code, out, _ = berth("job", "suspend", "j1")
    assert (code, out) == (Exit.OK, f"{job.pk}  suspending\n")
    assert "state        running (suspending)" in berth("get", "j1")[1]
    assert "running (suspending)" in berth("list")[1]
    code, out, _ = berth("job", "resume", str(job.pk))
    assert (code, out) == (Exit.OK, f"{job.pk}  resuming\n")


def test_a_waiting_job_is_held_and_released(berth: Berth) -> None:
    job = submit(berth, "--name", "m1")
    assert berth("job", "hold", "m1")[:2] == (Exit.OK, f"{job}  on hold\n")
    assert Job.objects.get(pk=job).held
    assert berth("job", "release", job)[:2] == (Exit.OK, f"{job}  released\n")
    assert not Job.objects.get(pk=job).held


def test_a_job_is_submitted_again(berth: Berth) -> None:
    job = submit(berth)
    code, out, _ = berth("job", "rerun", job)
    again = Job.objects.exclude(pk=job).get()
    assert (code, out) == (Exit.OK, f"{again.pk}  submitted\n")


def test_the_target_and_the_priority_of_a_job_are_changed(berth: Berth) -> None:
    job = submit(berth)
    code, out, _ = berth("job", "retarget", job, "--ips", "2e9", "--priority", "7")
    assert (code, out) == (Exit.OK, f"{job}  changed\n")
    changed = Job.objects.get(pk=job)
    assert (changed.target, changed.priority) == ({"kind": "ips", "ips": 2e9}, 7)
    code, _, err = berth("job", "retarget", job)
    assert (code, "name a target or a priority" in err) == (Exit.USAGE, True)


def test_a_job_that_does_not_run_is_not_suspended(berth: Berth) -> None:
    code, _, err = berth("job", "suspend", submit(berth))
    assert (code, "only running jobs can" in err) == (Exit.CONFLICT, True)


def test_an_ended_job_cannot_be_cancelled(berth: Berth) -> None:
    job = submit(berth)
    Job.objects.filter(pk=job).update(state="succeeded", finished_s=1.0)
    assert berth("cancel", job)[0] == Exit.CONFLICT


def test_watching_ends_with_the_job(berth: Berth) -> None:
    job = submit(berth)
    Job.objects.filter(pk=job).update(state="succeeded", finished_s=1.0, progress=1.0)
    code, out, _ = berth("watch", job)
    assert code == Exit.OK
    assert out.startswith("succeeded")


def test_watching_with_json_output_prints_only_the_job(berth: Berth) -> None:
    job = submit(berth)
    Job.objects.filter(pk=job).update(state="succeeded", finished_s=1.0, progress=1.0)
    watched = json.loads(berth("watch", job, "-o", "json")[1])
    assert watched["metadata"]["id"] == job


def test_waiting_ends_at_the_timeout(berth: Berth) -> None:
    code, _, err = berth(
        "submit", "--app", "a", "--best-effort", "--wait", "placed", "--timeout", "10ms"
    )
    assert code == Exit.TIMEOUT
    assert "the job is still submitted" in err
    assert "try: berth why" in err


def test_watching_a_cancelled_job_is_a_failure(berth: Berth) -> None:
    job = submit(berth)
    berth("cancel", job)
    code, _, err = berth("watch", job)
    assert (code, "the job was cancelled" in err) == (Exit.FAILED, True)


def fail_job(job: str) -> None:
    Job.objects.filter(pk=job).update(
        state="failed",
        finished_s=1.0,
        reason_code="ProfilingFailed",
        reason_message="The run ended with code 3.",
    )


def test_watching_a_failed_job_exits_4_with_the_reason(berth: Berth) -> None:
    job = submit(berth)
    fail_job(job)
    code, _, err = berth("watch", job)
    assert code == 4
    assert err.splitlines() == [
        "berth: the job failed",
        "  ProfilingFailed: The application's profiling runs failed, so its performance cannot be"
        " predicted. The run ended with code 3.",
        f"  try: berth why {job}",
    ]


def test_waiting_for_a_job_that_fails_exits_4_and_still_prints_the_job(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    working(monkeypatch, "/api/v1/jobs/", lambda: fail_job(str(Job.objects.get().pk)))
    command = ("submit", "--app", "a", "--best-effort", "--wait", "done", "-o", "json")
    code, out, err = berth(*command)
    assert (code, json.loads(out)["status"]["state"]) == (4, "failed")
    assert "The run ended with code 3." in err


def test_servers_are_listed_and_shown(berth: Berth) -> None:
    build_cluster()
    assert berth("servers")[1].splitlines()[1].split() == [
        "srv-1", "A", "r1", "agg-1", "active", "0/4", "50%", "25%", "125",
    ]  # fmt: skip
    assert "platform   A" in berth("servers", "srv-1")[1]
    code, _, err = berth("servers", "srv-9")
    assert (code, "try: berth servers" in err) == (Exit.NOT_FOUND, True)


def test_a_placement_is_explained_with_its_candidates(berth: Berth) -> None:
    build_cluster()
    job = submit(berth)
    place(job)
    out = berth("why", job, "--candidates")[1]
    assert "Placed by tarcil: 2 units on srv-1." in out
    assert "P(one of the best 2 of 8 is outside the top 20%) = 0.168" in out
    assert "SERVER" in out
    Decision.objects.update(probability=0.0)
    out = berth("why", job)[1]
    assert "  8 of 10 eligible units were examined: no other can be better\n" in out


def test_why_shows_the_cost_of_a_placement_beside_its_ceiling(berth: Berth) -> None:
    build_cluster()
    job = submit(berth, "--max-cost", "500", "--input", "1Gi")
    place(job)
    Decision.objects.update(predicted={"cost": 91.2})
    assert "  predicted cost: 91 of at most 500 unit-seconds\n" in berth("why", job)[1]


def test_a_job_below_its_target_is_explained_with_its_suspects(berth: Berth) -> None:
    world = missed(project=factories.project())
    out = berth("why", str(world.job.id))[1]
    assert "most likely cause: shuffle-88 on srv-0212" in out
    assert re.search(r"llc_bandwidth +0 +72 +50 \[50, 50\]", out)
    assert "What would help:\n" in out
    assert "  Relax the target to" in out
    assert f"    berth plan migrate {world.job.id} srv-0212 srv-0317\n" in out


def test_a_login_is_stored(
    berth: Berth, user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BERTH_TOKEN")
    assert berth("whoami")[0] == Exit.AUTH
    secret = create_token(user=user, name="login").secret
    code, _, err = berth("login", "--token", secret)
    assert (code, "as sue (submitter)" in err) == (Exit.OK, True)
    assert "user      sue" in berth("whoami")[1]


def test_an_invalid_token_is_not_stored(berth: Berth, tmp_path: Path) -> None:
    assert berth("login", "--token", "berth_wrong")[0] == Exit.AUTH
    assert not (tmp_path / "berth" / "config.json").exists()


def test_any_path_can_be_called(berth: Berth) -> None:
    body = json.dumps({"application": "a", "target": {"kind": "best_effort"}})
    created: dict[str, Any] = json.loads(berth("api", "jobs/", "-d", body)[1])
    job = json.loads(berth("api", f"/api/v1/jobs/{created['metadata']['id']}/")[1])
    assert created == {**job, "warnings": []}


def test_versions_of_both_sides_are_shown(berth: Berth) -> None:
    code, out, _ = berth("version", "-o", "json")
    assert code == Exit.OK
    assert json.loads(out)["server"]["api"] == "1.0"


def test_a_command_follows_two_dashes_and_keeps_its_own_options(berth: Berth) -> None:
    kind = factories.platform("box", cores=2)
    factories.server("box-1", of=kind, backend="agent")
    code, out, _ = berth(
        "submit",
        "--units",
        "2",
        "--env",
        "LANG=C",
        "--chdir",
        "/srv",
        "--copyable",
        "--",
        "ls",
        "-f",
        "--all",
    )
    assert code == Exit.OK
    spec = json.loads(berth("get", out.strip(), "-o", "json")[1])["spec"]
    assert (spec["command"], spec["application"]) == (["ls", "-f", "--all"], "default:ls")
    assert (spec["environment"], spec["working_directory"]) == ({"LANG": "C"}, "/srv")
    assert (spec["units"], spec["target"]) == (2, {"kind": "best_effort"})
    assert spec["copyable"]


def test_a_command_without_a_server_that_runs_it_is_refused(berth: Berth) -> None:
    code, _, err = berth("submit", "--", "ls")
    assert code != Exit.OK
    assert "no server of this cluster runs commands" in err


def test_a_directory_or_an_archive_is_sent_with_a_command(berth: Berth, tmp_path: Path) -> None:
    factories.server("box-1", of=factories.platform("box", cores=2), backend="agent")
    folder, archive = tmp_path / "folder", tmp_path / "files.tar"
    (folder / "data").mkdir(parents=True)
    (folder / "data/in").write_text("hello")
    (folder / "main.sh").write_text("cat data/in")
    (folder / "main.sh").chmod(0o755)
    archive.write_bytes(archives.tar_of({"main.sh": b"true"}))
    stored = []
    for path in (folder, archive, folder):
        code, out, _ = berth("submit", "--files", str(path), "--", "./main.sh")
        assert code == Exit.OK
        stored.append(files_of(Job.objects.get(pk=out.strip())) or b"")
    assert stored[0] == stored[2]
    found = members(stored[0])
    assert [(member.path, member.data) for member in found] == [
        ("data", b""), ("data/in", b"hello"), ("main.sh", b"cat data/in"),
    ]  # fmt: skip
    assert found[-1].mode == 0o755
    assert stored[1] == archive.read_bytes()


@pytest.mark.parametrize("kind", ["missing", "text", "empty"])
def test_files_that_cannot_be_sent_are_a_usage_error(
    berth: Berth, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "empty").mkdir()
    code, _, err = berth("submit", "--files", str(tmp_path / kind), "--", "true")
    assert code == Exit.USAGE
    assert str(tmp_path / kind) in err
