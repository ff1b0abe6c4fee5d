"""Recorded answers of Slurm, old and new, and answers that are none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.execution.core.slurm.answers import AnswerError, read_jobs, read_nodes, version_of
from apps.execution.core.slurm.edits import (
    Change,
    Edit,
    has_started,
    read_refusals,
    releases,
    why_not_stopped,
    written,
)
from apps.execution.core.slurm.hostlist import expand
from apps.execution.core.slurm.shapes import (
    application_of,
    command_of,
    eligible,
    labels_of,
    labels_wanted,
    name_of,
    platform_of,
    project_of,
    why_not,
)
from apps.execution.core.slurm.usage import Usage, duration_s, read_ended, read_usage
from apps.execution.core.slurm.values import Phase, SlurmJob, SlurmNode

RECORDED = Path(__file__).parent / "recorded"
NODE = SlurmNode(
    name="n3", cpus=4, sockets=4, memory_bytes=8000 * 2**20, features=("xeon", "avx2"),
    partitions=("main", "urgent"), states=frozenset({"IDLE"}),
)  # fmt: skip


def recorded_jobs() -> dict[int, SlurmJob]:
    """Return the jobs that squeue of Slurm 22.05.8 listed."""
    return {job.id: job for job in read_jobs((RECORDED / "jobs_22_05.json").read_text())}


def test_reads_the_jobs_of_22_05() -> None:
    jobs = recorded_jobs()
    assert {i: job.state for i, job in jobs.items()} == {
        1: "CANCELLED", 2: "FAILED", 3: "FAILED", 4: "RUNNING", 5: "PENDING", 6: "RUNNING",
        7: "SUSPENDED",
    }  # fmt: skip
    assert {i: job.exit_code for i, job in jobs.items() if job.phase is Phase.ENDED} == {
        1: -15, 2: 3, 3: -9,
    }  # fmt: skip
    assert (jobs[1].is_marked, jobs[1].cpus, jobs[1].features) == (True, 2, "avx")
    assert jobs[1].required_nodes == ("n1",)
    assert (jobs[5].is_held, jobs[5].is_array, jobs[5].is_marked) == (True, True, True)
    assert (jobs[6].nodes, jobs[6].memory_bytes) == (("n1", "n2"), 100 * 2**20)
    # a suspended job has priority 0, and is not held
    assert (jobs[7].phase, jobs[7].is_held) == (Phase.RUNNING, False)
    assert jobs[7].memory_bytes == 50 * 2**20
    assert jobs[4].started_s == 1795414815.0
    assert jobs[5].started_s is None


def test_reads_the_nodes_of_22_05() -> None:
    nodes = {node.name: node for node in read_nodes((RECORDED / "nodes_22_05.json").read_text())}
    assert sorted(nodes) == ["n1", "n2"]
    assert nodes["n1"].features == ("xeon_l5609", "avx")
    assert (nodes["n1"].cpus, nodes["n1"].sockets) == (8, 8)
    assert nodes["n1"].memory_bytes == 4000 * 2**20
    assert nodes["n1"].cpu_load == 5.93
    assert nodes["n1"].partitions == ("main", "urgent")
    assert nodes["n1"].states == {"MIXED"}
    assert not nodes["n1"].is_closed
    assert nodes["n2"].states == {"IDLE", "DRAIN"}
    assert nodes["n2"].is_closed


@pytest.mark.parametrize(
    ("states", "closed"),
    [({"IDLE"}, False), ({"IDLE", "PLANNED"}, False), ({"MIXED", "DRAIN"}, True)],
    ids=["idle", "planned", "drains"],
)
def test_a_node_that_a_waiting_job_is_planned_on_is_open(states: set[str], closed: bool) -> None:
    assert replace(NODE, states=frozenset(states)).is_closed is closed


@pytest.mark.parametrize(
    ("states", "unknown", "down"),
    [
        ({"UNKNOWN"}, True, False),
        ({"UNKNOWN", "NOT_RESPONDING"}, True, True),
        ({"IDLE"}, False, False),
        ({"DOWN"}, False, True),
    ],
    ids=["started", "silent", "idle", "down"],
)
def test_a_node_that_the_controller_has_not_heard_from_is_not_down(
    states: set[str], unknown: bool, down: bool
) -> None:
    node = replace(NODE, states=frozenset(states))
    assert (node.is_unknown, node.is_down) == (unknown, down)


def number(value: int | None) -> dict[str, Any]:
    """Return a number as Slurm has written it since 23.02."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def test_reads_jobs_in_the_form_of_newer_versions() -> None:
    row = {
        "job_id": 42, "job_state": ["CANCELLED", "COMPLETING"], "user_name": "ada",
        "name": "train", "account": "physics", "partition": "gpu", "priority": number(0),
        "nodes": "gpu[08-10]", "required_nodes": "", "cpus": number(12), "node_count": number(3),
        "memory_per_node": number(None), "memory_per_cpu": number(1000), "features": "",
        "start_time": number(1700000000), "end_time": number(1700000100), "restart_cnt": 2,
        "exit_code": {"status": ["SIGNALED"], "return_code": number(None),
                      "signal": {"id": number(15), "name": "SIGTERM"}},
        "array_job_id": number(0), "het_job_id": number(0), "array_task_string": "",
        "admin_comment": "berth",
    }  # fmt: skip
    (job,) = read_jobs(json.dumps({"jobs": [row], "errors": [], "warnings": []}))
    assert (job.state, job.phase, job.is_held) == ("COMPLETING", Phase.ENDING, False)
    assert job.nodes == ("gpu08", "gpu09", "gpu10")
    assert (job.cpus, job.node_count, job.memory_bytes) == (12, 3, 4000 * 2**20)
    assert (job.started_s, job.ended_s, job.exit_code) == (1.7e9, 1700000100.0, -15)
    assert job.restarts == 2
    (held,) = read_jobs(json.dumps({"jobs": [row | {"job_state": ["PENDING"]}]}))
    assert held.is_held


def test_reads_nodes_in_the_form_of_newer_versions() -> None:
    row = {
        "name": "gpu08", "state": ["DOWN", "NOT_RESPONDING"], "cpus": 64, "sockets": 2,
        "real_memory": 512000, "free_mem": number(None), "cpu_load": 120,
        "features": ["a100", "avx512"], "partitions": ["gpu"], "temporary_disk": 10,
    }  # fmt: skip
    (node,) = read_nodes(json.dumps({"nodes": [row]}))
    assert node.is_down
    assert node.features == ("a100", "avx512")
    assert (node.cpu_load, node.free_bytes, node.storage_bytes) == (None, None, 10 * 2**20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slurm_load_jobs error: Unable to contact", "did not answer with JSON"),
        ("[]", "answered with list, not an object"),
        ('{"errors": []}', "answered without 'jobs'"),
        ('{"errors": [{"description": "no", "error_number": 1}], "jobs": []}', "reports: no"),
        ('{"jobs": [{"job_id": 5, "job_state": "PENDING"}]}', "described job 5 in an unknown way"),
        (
            '{"jobs": [{"job_id": 5, "job_state": "DREAMING", "cpus": 1, "node_count": 1}]}',
            "state 'DREAMING'",
        ),
        ('{"jobs": [3]}', "described job 3 in an unknown way"),
    ],
    ids=["text", "list", "nothing", "error", "fields", "state", "row"],
)
def test_an_unknown_answer_is_a_clear_error(text: str, said: str) -> None:
    with pytest.raises(AnswerError, match=said):
        read_jobs(text)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("slurm-wlm 22.05.8\n", "v0.0.38"),
        ("slurm 23.02.7", "v0.0.39"),
        ("slurm 23.11.4", "v0.0.40"),
        ("slurm 24.05.0-rc1", "v0.0.41"),
        ("slurm 29.05.1", "v0.0.44"),
    ],
)
def test_the_version_says_how_slurm_is_asked(text: str, schema: str) -> None:
    assert version_of(text).schema == schema


@pytest.mark.parametrize("text", ["slurm 21.08.5", "slurm", "", "scontrol: not found"])
def test_an_old_or_unknown_version_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        version_of(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3,07],m2", ("n1", "n2", "n3", "n07", "m2")),
        ("r[1-2]n[08-09]", ("r1n08", "r1n09", "r2n08", "r2n09")),
        ("gpu-[0,5]-a", ("gpu-0-a", "gpu-5-a")),
    ],
)
def test_short_lists_of_nodes_are_expanded(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[1-3", "n1]", "n[a-b]", "n[1-9999999]", "n[[1]]"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names|brackets|range"):
        expand(text)


def test_placements_and_holds_come_before_the_releases_of_what_was_not_refused() -> None:
    edits = [
        Edit(7, Change.PLACE, "n3"),
        Edit(8, Change.HOLD),
        Edit(9, Change.SUSPEND),
        Edit(5, Change.LEAVE),
        Edit(4, Change.STOP),
        Edit(3, Change.CLEAR),
    ]
    assert written(edits).split("\n") == [
        "update JobId=7 ReqNodeList=n3 NumNodes=1-1",
        "uhold 8", "update JobId=8 ReqNodeList=", "suspend 9",
        "update JobId=5 AdminComment=left-to-slurm",
        "requeuehold incomplete 4", "update JobId=3 ReqNodeList= StartTime=now+2", "",
    ]  # fmt: skip
    assert releases(edits, ()) == "release 7\nrelease 5\n"
    assert releases(edits, {7: "Invalid node name specified"}) == "release 5\n"


@pytest.mark.parametrize("node", ["", "n3\nscancel 1", "n3 Priority=1", "n[1-2]"])
def test_only_the_name_of_a_node_becomes_part_of_a_line(node: str) -> None:
    with pytest.raises(ValueError, match="not the name of a node"):
        Edit(7, Change.PLACE, node)


def test_refusals_are_read_by_job() -> None:
    text = (
        "scontrol: error: Could not load state information for job 99: Invalid job id specified\n"
        "Invalid node name specified for job 1\n"
        "slurm_suspend error: Invalid job id specified\n"
        "Job is no longer pending execution for job 1\n"
    )
    assert read_refusals(text) == {
        99: "Invalid job id specified",
        1: "Invalid node name specified",
    }


@pytest.mark.parametrize(
    ("why", "started"),
    [
        ("Job is no longer pending execution", True),
        ("Job/step already completing or completed", True),
        ("Invalid node name specified", False),
    ],
)
def test_a_job_that_has_started_is_told_from_a_refused_placement(why: str, started: bool) -> None:
    assert has_started(why) is started


def test_a_refused_stop_says_why_the_job_does_not_restart() -> None:
    refusals = read_refusals("Requested operation is presently disabled for job 2\n")
    assert why_not_stopped(refusals[2]).startswith("Slurm does not requeue the job")
    assert why_not_stopped("Access denied") == "Slurm did not stop the job: Access denied"


def test_usage_is_summed_over_steps_and_tasks() -> None:
    text = "6.batch|00:01:00|3145728|1\n6.0|1-00:00:01|1024K|2\n7.batch|00:00:02||1\n"
    assert read_usage(text) == {6: Usage(60.0 + 172_802.0, 3 * 2**20), 7: Usage(2.0, 0)}
    with pytest.raises(AnswerError, match="another form"):
        read_usage("sstat: error")


def test_the_accounting_tells_how_a_job_ended() -> None:
    text = (
        "5|NODE_FAIL|n1|100|200|0:0\n"
        "5|COMPLETED|n[3-3]|300|400|0:0\n"
        "6|CANCELLED by 1000|None assigned|Unknown|500|0:15\n"
        "7|RUNNING|n2|600|Unknown|0:0\n"
    )
    ended = read_ended(text)
    assert sorted(ended) == [5, 6]
    assert (ended[5].state, ended[5].nodes, ended[5].ended_s) == ("COMPLETED", ("n3",), 400.0)
    assert (ended[6].state, ended[6].nodes, ended[6].exit_code) == ("CANCELLED", (), -15)
    with pytest.raises(AnswerError, match="another form"):
        read_ended("7|DREAMING|n2|600|Unknown|0:0\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:00", 0.0), ("01:02:03", 3723.0), ("02:03.500", 123.5), ("2-00:00:01", 172_801.0)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


def test_a_node_is_a_platform_with_labels() -> None:
    assert platform_of(NODE) == "slurm-avx2-xeon-4c-8g"
    many = SlurmNode(
        name="x", cpus=4, sockets=1, memory_bytes=2**30, partitions=(), states=frozenset(),
        features=tuple(f"feature{i:02d}" for i in range(20)),
    )  # fmt: skip
    assert len(platform_of(many)) <= 63
    assert platform_of(many).endswith("-4c-1g")
    assert labels_of(NODE) == {
        "slurm-node": "n3", "slurm-partition-main": "yes", "slurm-partition-urgent": "yes",
        "slurm-feature-avx2": "yes", "slurm-feature-xeon": "yes",
    }  # fmt: skip


def test_a_job_may_run_where_its_partition_and_features_are() -> None:
    job = SlurmJob(id=7, state="PENDING", partition="main", features="xeon&avx2", cpus=4)
    assert eligible(job, [NODE]) == [NODE]
    assert why_not(job, [NODE]) is None
    assert labels_wanted(job) == {
        "slurm-partition-main": "yes", "slurm-feature-xeon": "yes", "slurm-feature-avx2": "yes",
    }  # fmt: skip
    assert labels_wanted(job, node="n3") == {"slurm-node": "n3"}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (SlurmJob(id=7, state="PENDING", partition="main", features="a|b"), "joined by &"),
        (SlurmJob(id=7, state="PENDING", partition="main", is_array=True), "no arrays"),
        (SlurmJob(id=7, state="PENDING", partition="main", node_count=2), "needs 2 nodes"),
        (SlurmJob(id=7, state="PENDING", partition="gpu"), "no node of the partition gpu"),
        (SlurmJob(id=7, state="PENDING", partition="main", features="arm"), "the features arm"),
        (SlurmJob(id=7, state="PENDING", partition="main", cpus=5), "no node of the partition"),
    ],
    ids=["or", "array", "nodes", "partition", "feature", "size"],
)
def test_what_berth_cannot_place_says_why(job: SlurmJob, why: str) -> None:
    assert why in str(why_not(job, [NODE]))


def test_names_of_slurm_become_names_of_berth() -> None:
    job = SlurmJob(id=7, state="PENDING", name="my job!", command="/home/ada/train.sh --fast")
    assert (name_of(job), application_of(job)) == ("my-job-7", "slurm-train.sh")
    assert command_of(job) == ("/home/ada/train.sh --fast",)
    wrapped = SlurmJob(id=7, state="PENDING", name="wrap")
    assert (application_of(wrapped), command_of(wrapped)) == ("slurm-wrap", ("wrap",))
    assert application_of(SlurmJob(id=7, state="PENDING", name="!")) == "slurm-job"
    assert project_of("Physics Lab") == "physics-lab"
