"""Bodies of the routes of the agents."""

from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.execution.core.agent.wire import MAX_REPORTS, MAX_STREAM_WAIT_S, MAX_WAIT_S
from apps.execution.models import OutputStream, ServerAgent
from apps.execution.services.agent_credentials import ENROLMENT_S
from apps.inventory.core.cluster_file import MAX_BYTES, MAX_CORES, MAX_WATTS

MAX_KNOWN: Final = 10_000
MAX_BASE64: Final = 88_000  # characters of a chunk of `services.output.MAX_CHUNK` bytes
MAX_ID: Final = 2**63 - 1
NAME: Final = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$"


class EnrolmentSerializer(serializers.Serializer[Any]):
    """A machine that may enrol."""

    server = serializers.RegexField(NAME, max_length=63, help_text="Name of the server.")
    expires_in_seconds = serializers.FloatField(
        min_value=1, max_value=30 * 86_400, default=ENROLMENT_S
    )


class NewEnrolmentSerializer(serializers.Serializer[Any]):
    """An enrolment token."""

    id = serializers.UUIDField()
    server = serializers.CharField()
    secret = serializers.CharField(help_text="Shown only now.")
    expires_at = serializers.DateTimeField()


class EnrolSerializer(serializers.Serializer[Any]):
    """The secret of an enrolment token."""

    token = serializers.CharField(max_length=200)


class CredentialSerializer(serializers.Serializer[Any]):
    """The credential of an agent."""

    server = serializers.CharField()
    credential = serializers.CharField(help_text="Shown only now.")


class RegisterSerializer(serializers.Serializer[Any]):
    """Shape of a machine: cores, memory and other resources, and what its agent can limit."""

    cores = serializers.IntegerField(min_value=1, max_value=MAX_CORES)
    sockets = serializers.IntegerField(min_value=1, max_value=MAX_CORES)
    memory_bytes = serializers.IntegerField(min_value=1, max_value=MAX_BYTES)
    network_bps = serializers.IntegerField(min_value=1, max_value=MAX_BYTES)
    storage_bytes = serializers.IntegerField(min_value=1, max_value=MAX_BYTES)
    idle_watts = serializers.FloatField(min_value=0, max_value=MAX_WATTS, default=0.0)
    peak_watts = serializers.FloatField(min_value=0, max_value=MAX_WATTS, default=0.0)
    rack = serializers.RegexField(NAME, max_length=63, default="machines")
    l3_groups = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=MAX_CORES),
        max_length=MAX_CORES,
        default=list,
        help_text="L3 cache of each core, from 0; empty: one, or not known.",
    )
    facts = serializers.DictField(
        default=dict, help_text="Version of the agent, and which limits it can enforce."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check that the watts are in order."""
        if attrs["peak_watts"] < attrs["idle_watts"]:
            raise serializers.ValidationError("peak_watts must be at least idle_watts")
        groups = attrs["l3_groups"]
        if groups and (len(groups) != attrs["cores"] or {*groups} != {*range(max(groups) + 1)}):
            raise serializers.ValidationError(
                "l3_groups must hold one number for each core, and each number from 0 on"
            )
        return attrs


class RegisteredSerializer(serializers.Serializer[Any]):
    """A registration."""

    server = serializers.CharField()
    epoch = serializers.IntegerField(help_text="To be sent with every report.")
    lease_s = serializers.FloatField(
        help_text="Seconds without an answer after which the agent stops all jobs."
    )
    heartbeat_s = serializers.FloatField()
    orders_url = serializers.CharField(help_text="Where to wait for orders: the stream process.")


class LastAnswerSerializer(serializers.Serializer[Any]):
    """The orders that an agent already knows."""

    epoch = serializers.IntegerField(min_value=0, max_value=MAX_ID)
    known = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MAX_ID),
        max_length=MAX_KNOWN,
        default=list,
        help_text="Launches in the last answer that were not to be stopped.",
    )
    suspended = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MAX_ID),
        max_length=MAX_KNOWN,
        default=list,
        help_text="Launches in the last answer that were to be suspended.",
    )


class AwaitSerializer(LastAnswerSerializer):
    """An agent that waits for other orders than those that it knows."""

    wait_s = serializers.FloatField(min_value=0, max_value=MAX_STREAM_WAIT_S)


class SyncSerializer(LastAnswerSerializer):
    """Reports of an agent."""

    reports = serializers.ListField(
        child=serializers.DictField(), max_length=MAX_REPORTS, default=list
    )
    usage = serializers.DictField(required=False, allow_null=True)
    samples = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_REPORTS,
        default=list,
        help_text="What running commands use, and their progress.",
    )
    wait_s = serializers.FloatField(min_value=0, max_value=MAX_WAIT_S, default=0.0)


class OrdersSerializer(serializers.Serializer[Any]):
    """All live launches of a server."""

    lease_s = serializers.FloatField()
    orders = serializers.ListField(child=serializers.DictField())


class OutputSerializer(serializers.Serializer[Any]):
    """A chunk of output."""

    epoch = serializers.IntegerField(min_value=0, max_value=MAX_ID)
    launch = serializers.IntegerField(min_value=1, max_value=MAX_ID)
    stream = serializers.ChoiceField(choices=OutputStream.values)
    start = serializers.IntegerField(min_value=0, max_value=MAX_ID)
    chunk = serializers.CharField(max_length=MAX_BASE64, help_text="Base64, of at most 64 KiB.")


class FilesRequestSerializer(serializers.Serializer[Any]):
    """A launch with files."""

    epoch = serializers.IntegerField(min_value=0, max_value=MAX_ID)
    launch = serializers.IntegerField(min_value=1, max_value=MAX_ID)


class LaunchFilesSerializer(serializers.Serializer[Any]):
    """The files of a launch."""

    archive = serializers.CharField(help_text="Tar file, plain or with gzip, in base64.")


class AgentSerializer(serializers.Serializer[Any]):
    """An agent."""

    server = serializers.CharField()
    epoch = serializers.IntegerField()
    facts = serializers.DictField()
    enrolled_at = serializers.DateTimeField()
    registered_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class AgentsSerializer(serializers.Serializer[Any]):
    """All agents, by name."""

    results = AgentSerializer(many=True)


def represent_agent(agent: ServerAgent) -> dict[str, Any]:
    """JSON of an agent."""
    return {
        "server": agent.name,
        "epoch": agent.epoch,
        "facts": agent.facts,
        "enrolled_at": time(agent.enrolled_at),
        "registered_at": time(agent.registered_at),
        "revoked_at": time(agent.revoked_at),
    }
