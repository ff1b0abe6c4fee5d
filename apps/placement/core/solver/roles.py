"""A bound for any nodes and intensities: the role of each container, not its node.

On every open node the most intense container is the *host* and the others are its *guests*. A
host is credited its intensity less its first guest's, if its job is protected; nothing else is
ever credited. So D is a sum over hosts less a sum over guests, and only the number of open nodes
matters. With two slots, roles of containers and options of jobs determine everything except the
racks. The columns of the program, for each item (the m containers of one job, class and
intensity):

- h credited hosts, at most m·y, y = 1 where the job is protected;
- u other hosts, at most m·(1 − y);
- g guests of credited hosts, Σ g <= (K − 1)·Σ h, K the slots of the largest node;
- v guests of other hosts, Σ v <= (K − 1)·Σ u; a taz with a taz as host is exposed: v <= m·(1 − y);
- t tazes that are guests of other, more intense turtles, Σ t <= (K − 1)·Σ u of turtles;
- h + u + g + v + t = m.

A credited taz has no taz as guest, so tazes among g have turtles as hosts, Σ <= (K − 1)·Σ h of
turtles, and only where some turtle is as intense. Every node has one host: Σ (h + u) = open nodes,
at the cost of the cheapest such nodes (N of each kind, s slots of them used, N <= s <= k·N).
The first guest is at least as intense as the mean of all guests, so a guest costs its intensity
divided by K − 1; this is exact for two slots.

``rack`` and ``node`` jobs are whole or split (q). A whole ``node`` job has at most one host, and
its tazes are exposed if it has two. In a rack of n nodes a whole ``rack`` job has h + u,
g/(K − 1) + u, h + v/(K − 1) and (g + v)/(K − 1) all at most n, for each of these counts distinct
nodes. Every placement gives such columns, at a cost not above its F: the minimum cost is a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.solver.program import INFINITY, MixedIntegerProgram
from apps.placement.core.solver.racks import ContainerRole, RolePlan


@dataclass(frozen=True, slots=True, eq=False)
class ContainerKinds:
    """Number of containers of each job, class and intensity.

    Attributes
    ----------
    job, intensity, is_taz, count : (e,)
    of : (c,) item of each container
    """

    job: Ints
    intensity: Floats
    is_taz: Bools
    count: Floats
    of: Ints


def container_kinds(instance: Instance) -> ContainerKinds:
    """Count the identical containers."""
    key = np.stack([instance.job, instance.is_taz, instance.intensity], axis=1)
    unique, of, count = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    return ContainerKinds(
        job=unique[:, 0].astype(np.int64),
        intensity=unique[:, 2],
        is_taz=unique[:, 1] > 0.0,
        count=count.astype(np.float64),
        of=of.reshape(-1),
    )


class RoleResult(NamedTuple):
    """The result of the program.

    Attributes
    ----------
    bound : lower bound on F of every placement
    plan : of the best columns; None if there are none
    """

    bound: float
    plan: RolePlan | None


class RoleProgram:
    """The program of one instance; see the module. O(items) columns and rows."""

    def __init__(self, instance: Instance, costs: Costs, *, is_whole: bool = True) -> None:
        """Build the program; unless ``is_whole``, jobs may be protected or split in part."""
        self._instance, self._costs, self._is_whole = instance, costs, is_whole
        self._items = e = container_kinds(instance)
        self._program = program = MixedIntegerProgram()
        self._guests = max(int(instance.slots.max(initial=1)) - 1, 0)  # of one host
        jobs = len(instance.job_ids)
        tazes = np.bincount(instance.job[instance.is_taz], minlength=jobs)
        self._tazes: Ints = tazes
        self._splits = np.flatnonzero(costs.split > 0.0)
        self._add_roles(e, tazes > 0)
        self._protected = program.columns(
            np.zeros(jobs), (tazes > 0).astype(np.float64), is_whole=is_whole
        )
        self._kept = program.columns(-costs.split[self._splits], 1.0, is_whole=is_whole)
        self._add_balance(e)
        self._add_nodes()
        self._add_protection(e, tazes > 0)
        self._add_wholeness()

    def solve(
        self, *, limit_s: float, should_stop: Callable[[], bool], gap_tolerance: float
    ) -> RoleResult:
        """Solve until the time limit, or until the relative gap is below ``gap_tolerance``."""
        found = self._program.solve(
            limit_s=limit_s, should_stop=should_stop, gap_tolerance=gap_tolerance
        )
        fixed = float(self._costs.split.sum()) + self._costs.other_min
        return RoleResult(found.bound + fixed, self._plan(found.values))

    def _plan(self, values: Floats | None) -> RolePlan | None:
        if values is None:
            return None
        is_whole = np.ones(self._tazes.size, dtype=np.bool_)
        is_whole[self._splits] = values[self._kept] > 0.5
        hosts = np.rint(values[self._credited])
        beside = hosts + np.rint(values[self._other] + values[self._uncredited_guest])
        order = np.argsort(self._items.of, kind="stable")
        item = self._items.of[order]
        place = np.arange(order.size) - np.searchsorted(item, item)  # among containers alike
        roles: Ints = np.empty(order.size, dtype=np.int64)
        shared = np.where(place < beside[item], ContainerRole.EXPOSED, ContainerRole.GUEST)
        roles[order] = np.where(place < hosts[item], ContainerRole.HOST, shared)
        # a taz can only be the guest of a turtle; a node of its own is the safer plan
        is_protected = values[self._protected] > 0.5
        alone = np.where(
            is_protected[self._instance.job], ContainerRole.HOST, ContainerRole.EXPOSED
        )
        roles = np.where(self._instance.is_taz & (roles == ContainerRole.GUEST), alone, roles)
        return RolePlan(roles, is_whole)

    def _add_roles(self, e: ContainerKinds, has_tazes: Bools) -> None:
        """Add a column for each role of each item; they add up to the item's containers."""
        program, credit = self._program, self._costs.credit
        most = e.count if self._guests else np.zeros(e.count.size)
        of_mixed = ~e.is_taz & has_tazes[e.job]
        free = np.zeros(e.count.size)

        def below(hosts: Bools) -> Floats:
            top = float(e.intensity[hosts].max(initial=-1.0))
            return np.where(e.intensity <= top, most, 0.0)

        loss = credit * e.intensity / max(self._guests, 1)
        self._credited = program.columns(-credit * e.intensity, e.count)
        self._other = program.columns(free, np.where(has_tazes[e.job], e.count, 0.0))
        self._guest = program.columns(loss, np.where(e.is_taz, below(~e.is_taz), most))
        self._uncredited_guest = program.columns(free, most)
        self._taz_guest = program.columns(free, np.where(e.is_taz, below(of_mixed), 0.0))
        roles = (self._credited, self._other, self._guest, self._uncredited_guest, self._taz_guest)
        for_each = [(role, 1.0) for role in roles]
        program.rows(0.0, e.count, *for_each, is_exact=True)

    def _add_balance(self, e: ContainerKinds) -> None:
        """Require enough hosts for the guests."""
        k, program = float(self._guests), self._program
        program.row(-INFINITY, 0.0, (self._guest, 1.0), (self._credited, -k))
        program.row(
            -INFINITY,
            0.0,
            (self._uncredited_guest, 1.0),
            (self._taz_guest, 1.0),
            (self._other, -k),
        )
        taz, turtle = np.flatnonzero(e.is_taz), np.flatnonzero(~e.is_taz)
        program.row(-INFINITY, 0.0, (self._guest[taz], 1.0), (self._credited[turtle], -k))
        program.row(-INFINITY, 0.0, (self._taz_guest[taz], 1.0), (self._other[turtle], -k))

    def _add_nodes(self) -> None:
        """Open one node for each host, with a slot for every container."""
        kinds, count = np.unique(
            np.stack([self._costs.open, self._costs.slot, self._instance.slots], axis=1),
            axis=0,
            return_counts=True,
        )
        program = self._program
        opened = program.columns(kinds[:, 0], count.astype(np.float64))
        used = program.columns(kinds[:, 1])
        program.rows(-INFINITY, 0.0, (opened, 1.0), (used, -1.0))
        program.rows(-INFINITY, 0.0, (used, 1.0), (opened, -kinds[:, 2]))
        hosts = np.concatenate([self._credited, self._other])
        program.row(0.0, 0.0, (hosts, 1.0), (opened, -1.0))
        containers = float(self._instance.job.size)
        program.row(containers, containers, (used, 1.0))

    def _add_protection(self, e: ContainerKinds, has_tazes: Bools) -> None:
        """Restrict the roles of a job's containers to those of a protected or an exposed job."""
        program = self._program
        at = np.flatnonzero(has_tazes[e.job])
        y = self._protected[e.job[at]]
        program.rows(-INFINITY, 0.0, (self._credited[at], 1.0), (y, -e.count[at]))
        program.rows(-INFINITY, e.count[at], (self._other[at], 1.0), (y, e.count[at]))
        taz = np.flatnonzero(e.is_taz)
        y = self._protected[e.job[taz]]
        exposed = ((self._other[taz], 1.0), (self._uncredited_guest[taz], 1.0), (y, e.count[taz]))
        program.rows(-INFINITY, e.count[taz], *exposed)

    def _add_wholeness(self) -> None:
        """Restrict the roles of a job's containers if it stays on one node, or in one rack."""
        size, scope = self._instance.size, self._instance.effective_communication
        widest = int(np.bincount(self._instance.rack).max(initial=0))
        order = np.argsort(self._items.job, kind="stable")
        first = np.searchsorted(self._items.job[order], np.arange(size.size + 1))
        for job, kept in zip(self._splits.tolist(), self._kept.tolist(), strict=True):
            of_job = order[first[job] : first[job + 1]]
            if size[job] > 1 and scope[job] == Communication.NODE:
                self._keep_on_node(job, np.array([kept]), of_job)
            elif size[job] > 1 and (self._tazes[job] > widest or size[job] > widest):
                self._keep_in_rack(job, np.array([kept]), of_job, widest)

    def _keep_on_node(self, job: int, kept: Ints, at: Ints) -> None:
        program, size = self._program, float(self._instance.size[job])
        y = self._protected[job : job + 1]
        hosts = ((self._credited[at], 1.0), (self._other[at], 1.0))
        program.row(-INFINITY, size, *hosts, (kept, size - 1.0))
        if size == self._guests + 1:  # it fills the node
            program.row(0.0, INFINITY, *hosts, (kept, -1.0))
        if self._tazes[job] > 1:
            program.row(-INFINITY, 1.0, (kept, 1.0), (y, 1.0))

    def _keep_in_rack(self, job: int, kept: Ints, at: Ints, nodes: int) -> None:
        program, size = self._program, float(self._instance.size[job])
        h, u = self._credited[at], self._other[at]
        g, v = self._guest[at], np.concatenate([self._uncredited_guest[at], self._taz_guest[at]])
        each = 1.0 / max(self._guests, 1)
        for one, other in (
            ((h, 1.0), (u, 1.0)),
            ((g, each), (u, 1.0)),
            ((h, 1.0), (v, each)),
            ((g, each), (v, each)),
        ):
            program.row(-INFINITY, nodes + size, one, other, (kept, size))
        if self._tazes[job] > nodes:
            y = self._protected[job : job + 1]
            program.row(-INFINITY, 1.0, (kept, 1.0), (y, 1.0))
