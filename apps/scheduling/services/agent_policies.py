"""The policies of one agent: that of the cluster, that of short jobs, and those that jobs name."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from django.conf import settings

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.scheduling.services.peers import Peers
from apps.scheduling.services.proposals import AgentIdentity, SizedJob
from apps.workloads.core.spec import JobSpec

_ALONE: Final[Mapping[str, float]] = MappingProxyType({})


class Decider(NamedTuple):
    """A policy, the identity stored with its decisions, and its parameters."""

    policy: Policy
    identity: AgentIdentity
    parameters: Mapping[str, float]


class _Unavailable:
    """A policy that could not be made: it fails on every batch with the error of its creation."""

    version = 0
    draws_sample = False

    def __init__(self, name: str, error: PolicyFailedError) -> None:
        self.name, self._error = name, error

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Raise the error."""
        raise self._error


class Deciders:
    """The policies of an agent. Each is created once, and again if the number of agents changes.

    Parameters
    ----------
    default_name : returns the name of the policy of the cluster; None = always use ``policy``
    peers : the other active agents; None = there are none

    Attributes
    ----------
    default : decides on jobs that name no policy
    short : decides on short jobs of applications without a profile
    """

    def __init__(
        self,
        agent: str,
        policy: Policy,
        default_name: Callable[[], str] | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._agent, self._default_name, self._peers = agent, default_name, peers
        self._agent_parameters: dict[str, float] = {}
        self.default = self._decider(policy)
        self.short = self._decider(registry.make(registry.SHORT))
        self._named = {policy.name: self.default}

    def follow(self) -> None:
        """Use the policy of the cluster, which an administrator may have changed.

        A policy that prefers a share of the servers depends on the number of agents. It is
        created again when that number changes, and then has to rebuild its rankings.
        """
        if self._peers is not None and self._peers.parameters() != self._agent_parameters:
            self._agent_parameters = dict(self._peers.parameters())
            self._named = {
                name: by
                for name, by in self._named.items()
                if not registry.agent_parameters(name, self._agent_parameters)
            }
        if self._default_name is not None:
            self.default = self._of_name(self._default_name())

    def of(self, spec: JobSpec, otherwise: Decider) -> Decider:
        """Return the policy that a job names, or ``otherwise`` if it names none."""
        name = registry.policy_of(spec, otherwise.policy.name)
        return otherwise if name == otherwise.policy.name else self._of_name(name)

    def name_of(self, spec: JobSpec) -> str:
        """Return the name of the policy that decides on a job with a profile."""
        return self.of(spec, self.default).policy.name

    def by_policy(
        self, *batches: tuple[Sequence[SizedJob], Decider]
    ) -> list[tuple[Decider, list[SizedJob]]]:
        """Group jobs by the policy that decides on them, higher priorities first.

        Jobs of a higher priority always come first. If the policy that decides last on one
        priority also decides on jobs of the next priority, these jobs form one group.

        Parameters
        ----------
        batches : pairs of jobs and of the decider for those of them that name no policy
        """
        levels: dict[int, dict[str, tuple[Decider, list[SizedJob]]]] = {}
        for ready, otherwise in batches:
            for each in ready:
                by = self.of(each.job.spec, otherwise)
                level = levels.setdefault(each.job.priority, {})
                level.setdefault(by.policy.name, (by, []))[1].append(each)
        groups: list[tuple[Decider, list[SizedJob]]] = []
        for priority in sorted(levels, reverse=True):
            level = levels[priority]
            if groups and (more := level.pop(groups[-1][0].policy.name, None)):
                groups[-1][1].extend(more[1])
            groups += level.values()
        return groups

    def _of_name(self, name: str) -> Decider:
        if name not in self._named:
            from_agent = registry.agent_parameters(name, self._agent_parameters)
            try:
                self._named[name] = self._decider(registry.make(name, from_agent), from_agent)
            except PolicyFailedError as error:
                return self._decider(_Unavailable(name, error))  # made again for the next batch
        return self._named[name]

    def _decider(self, policy: Policy, from_agent: Mapping[str, float] = _ALONE) -> Decider:
        identity = AgentIdentity(
            self._agent,
            policy.name,
            policy.version,
            settings.BERTH_VERSION,
            policy.draws_sample,
        )
        parameters = {**registry.default_parameters(policy.name), **from_agent}
        return Decider(policy, identity, parameters)
