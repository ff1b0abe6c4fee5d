"""The policies of one agent: that of the cluster, that of short jobs, and those that jobs name."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from django.conf import settings

from apps.scheduling.core import registry
from apps.scheduling.core.types import Policy
from apps.scheduling.services.proposals import AgentIdentity, SizedJob
from apps.workloads.core.spec import JobSpec


class Decider(NamedTuple):
    """A policy and the identity stored with its decisions."""

    policy: Policy
    identity: AgentIdentity


class Deciders:
    """The policies of an agent; each is made once.

    Attributes
    ----------
    default : decides on jobs that name none
    short : decides on short jobs of applications without a profile
    """

    def __init__(
        self, agent: str, policy: Policy, default_name: Callable[[], str] | None = None
    ) -> None:
        self._agent, self._default_name = agent, default_name
        self.default = self._decider(policy)
        self.short = self._decider(registry.make(registry.SHORT))
        self._named = {policy.name: self.default}

    def follow(self) -> None:
        """Decide by the policy of the cluster, which an administrator may have changed."""
        if self._default_name is not None:
            self.default = self._of_name(self._default_name())

    def of(self, spec: JobSpec, otherwise: Decider) -> Decider:
        """Return the policy that a job asks for, or else ``otherwise``."""
        name = registry.policy_of(spec, otherwise.policy.name)
        return otherwise if name == otherwise.policy.name else self._of_name(name)

    def name_of(self, spec: JobSpec) -> str:
        """Return the name of the policy that decides on a job with a profile."""
        return self.of(spec, self.default).policy.name

    def by_policy(
        self, ready: Sequence[SizedJob], otherwise: Decider
    ) -> list[tuple[Decider, list[SizedJob]]]:
        """Group jobs by the policy that decides on them."""
        groups: dict[str, tuple[Decider, list[SizedJob]]] = {}
        for sized_job in ready:
            by = self.of(sized_job.job.spec, otherwise)
            groups.setdefault(by.policy.name, (by, []))[1].append(sized_job)
        return list(groups.values())

    def _of_name(self, name: str) -> Decider:
        if name not in self._named:
            self._named[name] = self._decider(registry.make(name))
        return self._named[name]

    def _decider(self, policy: Policy) -> Decider:
        version = settings.BERTH_VERSION
        identity = AgentIdentity(self._agent, policy.name, policy.version, version)
        return Decider(policy, identity)
