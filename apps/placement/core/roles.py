"""A bound for any nodes and intensities: which container plays which role, not where.

On every open node the most intense container is the *host* and the others are its *guests*. A
host is credited its intensity less its first guest's, if its job is protected; nothing else is
ever credited. So D is a sum over hosts less a sum over guests, and of the nodes only the number
that is open matters: with two slots a role of each container, and a choice for each job, say all
there is to say but in which rack. As columns of a program (items are containers of one job, class
and intensity, m of them):

- h credited hosts, at most m·y, y = 1 where the job is protected;
- u other hosts, at most m·(1 − y);
- g guests of credited hosts, Σ g <= (K − 1)·Σ h, K the most slots of a node;
- v guests of other hosts, Σ v <= (K − 1)·Σ u; a taz with a taz as host is exposed: v <= m·(1 − y);
- t tazes that are guests of other, more intense turtles, Σ t <= (K − 1)·Σ u of turtles;
- h + u + g + v + t = m.

A credited taz has no taz as guest, so tazes among g have turtles as hosts, Σ <= (K − 1)·Σ h of
turtles, and only where some turtle is as intense. Every node has one host: Σ (h + u) = open nodes,
which cost what the cheapest such nodes cost (N of each kind, s slots of them used, N <= s <= k·N).
The first guest is at least as intense as the mean of all guests: a guest costs its intensity
divided by K − 1, which is exact for two slots.

Jobs that wish for one rack or node are whole or split (q). A whole ``node`` job has one host at
most, and exposed tazes if it has two. In a rack of n nodes a whole ``rack`` job has h + u,
g/(K − 1) + u, h + v/(K − 1) and (g + v)/(K − 1) all at most n, for each of these counts nodes that
differ. Every placement gives such columns, at a cost not above its F: the least cost is a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.costs import Costs
from apps.placement.core.instance import Communication, Instance
from apps.placement.core.program import INFINITY, Program
from apps.placement.core.racks import Plan, Role


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Containers of one job, class and intensity, counted.

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


def items(instance: Instance) -> Items:
    """Count containers that are alike."""
    key = np.stack([instance.job, instance.is_taz, instance.intensity], axis=1)
    unique, of, count = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    return Items(
        job=unique[:, 0].astype(np.int64),
        intensity=unique[:, 2],
        is_taz=unique[:, 1] > 0.0,
        count=count.astype(np.float64),
        of=of.reshape(-1),
    )


class RoleBound(NamedTuple):
    """What the program says.

    Attributes
    ----------
    bound : no placement has an F below it
    plan : of the best columns found; None when there are none
    """

    bound: float
    plan: Plan | None


class RoleProgram:
    """The program of one instance; see the module. O(items) columns and rows."""

    def __init__(self, instance: Instance, costs: Costs, *, is_whole: bool = True) -> None:
        """Build it; where not ``is_whole`` jobs may be protected or split in part."""
        self._instance, self._costs, self._is_whole = instance, costs, is_whole
        self._items = e = items(instance)
        self._program = program = Program()
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
        self, *, limit_s: float, should_stop: Callable[[], bool], enough: float
    ) -> RoleBound:
        """Solve for at most so long, or until the relative gap is ``enough``."""
        found = self._program.solve(limit_s=limit_s, should_stop=should_stop, enough=enough)
        fixed = float(self._costs.split.sum()) + self._costs.least
        return RoleBound(found.bound + fixed, self._plan(found.values))

    def _plan(self, values: Floats | None) -> Plan | None:
        if values is None:
            return None
        is_whole = np.ones(self._tazes.size, dtype=np.bool_)
        is_whole[self._splits] = values[self._kept] > 0.5
        hosts = np.rint(values[self._credited])
        beside = hosts + np.rint(values[self._other] + values[self._beside])
        order = np.argsort(self._items.of, kind="stable")
        item = self._items.of[order]
        place = np.arange(order.size) - np.searchsorted(item, item)  # among containers alike
        roles: Ints = np.empty(order.size, dtype=np.int64)
        shared = np.where(place < beside[item], Role.BESIDE, Role.GUEST)
        roles[order] = np.where(place < hosts[item], Role.HOST, shared)
        # a taz could only be the guest of a turtle; a node of its own is the safer plan
        is_protected = values[self._protected] > 0.5
        alone = np.where(is_protected[self._instance.job], Role.HOST, Role.BESIDE)
        roles = np.where(self._instance.is_taz & (roles == Role.GUEST), alone, roles)
        return Plan(roles, is_whole)

    def _add_roles(self, e: Items, has_tazes: Bools) -> None:
        """Add a column for each role of each item, and that an item has as many as containers."""
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
        self._beside = program.columns(free, most)
        self._under = program.columns(free, np.where(e.is_taz, below(of_mixed), 0.0))
        roles = (self._credited, self._other, self._guest, self._beside, self._under)
        for_each = [(role, 1.0) for role in roles]
        program.rows(0.0, e.count, *for_each, is_exact=True)

    def _add_balance(self, e: Items) -> None:
        """Guests need hosts that may have them."""
        k, program = float(self._guests), self._program
        program.row(-INFINITY, 0.0, (self._guest, 1.0), (self._credited, -k))
        program.row(-INFINITY, 0.0, (self._beside, 1.0), (self._under, 1.0), (self._other, -k))
        taz, turtle = np.flatnonzero(e.is_taz), np.flatnonzero(~e.is_taz)
        program.row(-INFINITY, 0.0, (self._guest[taz], 1.0), (self._credited[turtle], -k))
        program.row(-INFINITY, 0.0, (self._under[taz], 1.0), (self._other[turtle], -k))

    def _add_nodes(self) -> None:
        """Open as many nodes as there are hosts, with a slot for every container."""
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

    def _add_protection(self, e: Items, has_tazes: Bools) -> None:
        """Say which roles a job's containers can have when it is protected, and when not."""
        program = self._program
        at = np.flatnonzero(has_tazes[e.job])
        y = self._protected[e.job[at]]
        program.rows(-INFINITY, 0.0, (self._credited[at], 1.0), (y, -e.count[at]))
        program.rows(-INFINITY, e.count[at], (self._other[at], 1.0), (y, e.count[at]))
        taz = np.flatnonzero(e.is_taz)
        y = self._protected[e.job[taz]]
        exposed = ((self._other[taz], 1.0), (self._beside[taz], 1.0), (y, e.count[taz]))
        program.rows(-INFINITY, e.count[taz], *exposed)

    def _add_wholeness(self) -> None:
        """Say what a job's containers cannot be when it stays on one node, or in one rack."""
        size, wish = self._instance.size, self._instance.counts_as
        widest = int(np.bincount(self._instance.rack).max(initial=0))
        order = np.argsort(self._items.job, kind="stable")
        first = np.searchsorted(self._items.job[order], np.arange(size.size + 1))
        for job, kept in zip(self._splits.tolist(), self._kept.tolist(), strict=True):
            of_job = order[first[job] : first[job + 1]]
            if size[job] > 1 and wish[job] == Communication.NODE:
                self._keep_on_node(job, np.array([kept]), of_job)
            elif size[job] > 1 and (self._tazes[job] > widest or size[job] > widest):
                self._keep_in_rack(job, np.array([kept]), of_job, widest)

    def _keep_on_node(self, job: int, kept: Ints, at: Ints) -> None:
        program, size = self._program, float(self._instance.size[job])
        y = self._protected[job : job + 1]
        hosts = ((self._credited[at], 1.0), (self._other[at], 1.0))
        program.row(-INFINITY, size, *hosts, (kept, size - 1.0))
        if size == self._guests + 1:  # it is alone there
            program.row(0.0, INFINITY, *hosts, (kept, -1.0))
        if self._tazes[job] > 1:
            program.row(-INFINITY, 1.0, (kept, 1.0), (y, 1.0))

    def _keep_in_rack(self, job: int, kept: Ints, at: Ints, nodes: int) -> None:
        program, size = self._program, float(self._instance.size[job])
        h, u = self._credited[at], self._other[at]
        g, v = self._guest[at], np.concatenate([self._beside[at], self._under[at]])
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
