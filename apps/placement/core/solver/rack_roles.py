"""The role program with racks: roles are counted per rack, and jobs are assigned to racks.

Like `roles`, but guests need hosts in their own rack, each rack has its own nodes, and a job that
stays whole is in one rack (z, 0 or 1 for each job and rack) with all its roles. For two slots this
determines everything except which guest joins which host, so its plan can be packed almost as it
is. It has (rack jobs · racks) more columns, so it is solved second.
"""

from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.solver.program import INFINITY
from apps.placement.core.solver.racks import ANYWHERE, RolePlan
from apps.placement.core.solver.roles import ContainerKinds, RoleProgram

MAX_COLUMNS: Final = 60_000  # larger programs do not help within a minute
_ROLES: Final = 4  # credited hosts, other hosts, guests of either


def extra_columns(instance: Instance) -> int:
    """Return the number of columns added to those of `roles`; 0 if racks do not matter."""
    racks = len(instance.rack_ids)
    bound = int(
        ((instance.effective_communication == Communication.RACK) & (instance.size > 1)).sum()
    )
    return (_ROLES + 1) * bound * racks if racks > 1 else 0


class RackProgram(RoleProgram):
    """The program of one instance; see the module."""

    def _add_balance(self, e: ContainerKinds) -> None:
        """Count every role in every rack; require enough hosts there."""
        super()._add_balance(e)
        self._assign(e)
        self._count_in_racks()

    def _assign(self, e: ContainerKinds) -> None:
        """Add a column for each rack of each job that may stay in one, and for each role there."""
        program, instance = self._program, self._instance
        racks = len(instance.rack_ids)
        is_bound = (instance.effective_communication == Communication.RACK) & (instance.size > 1)
        self._bound = np.flatnonzero(is_bound & (self._costs.split > 0.0))
        jobs = self._bound.size
        room = np.where(
            instance.rack_slots()[None, :] >= instance.size[self._bound, None], 1.0, 0.0
        )
        nothing = np.zeros(jobs * racks)
        self._in_rack = program.columns(nothing, room.reshape(-1), is_whole=self._is_whole)
        self._in_rack_roles = [program.columns(nothing) for _ in range(_ROLES)]
        size = np.repeat(instance.size[self._bound], racks).astype(np.float64)
        parts = [(part, 1.0) for part in self._in_rack_roles]
        program.rows(0.0, np.zeros(jobs * racks), *parts, (self._in_rack, -size), is_exact=True)
        order = np.argsort(e.job, kind="stable")
        first = np.searchsorted(e.job[order], np.arange(instance.size.size + 1))
        for at, job in enumerate(self._bound.tolist()):
            of_job = order[first[job] : first[job + 1]]
            span = slice(at * racks, (at + 1) * racks)
            for part, roles in zip(self._in_rack_roles, self._role_columns(of_job), strict=True):
                program.row(-INFINITY, 0.0, (part[span], 1.0), (roles, -1.0))

    def _role_columns(self, at: Ints) -> list[Ints]:
        """Columns of some items by role: credited hosts, other hosts, and the guests of each."""
        guests_of_other = np.concatenate([self._uncredited_guest[at], self._taz_guest[at]])
        return [self._credited[at], self._other[at], self._guest[at], guests_of_other]

    def _count_in_racks(self) -> None:
        """Count containers without a required rack too, and require enough hosts in every rack."""
        program, racks = self._program, len(self._instance.rack_ids)
        free = [program.columns(np.zeros(racks)) for _ in range(_ROLES)]
        every = self._role_columns(np.arange(self._items.count.size))
        for of_free, part, roles in zip(free, self._in_rack_roles, every, strict=True):
            program.row(0.0, 0.0, (roles, 1.0), (part, -1.0), (of_free, -1.0))
        k = float(self._guests)
        self._held = [
            [
                (of_free[r : r + 1], part[r::racks])
                for of_free, part in zip(free, self._in_rack_roles, strict=True)
            ]
            for r in range(racks)
        ]
        for held in self._held:
            credited, other, guest, beside = (np.concatenate(each) for each in held)
            program.row(-INFINITY, 0.0, (guest, 1.0), (credited, -k))
            program.row(-INFINITY, 0.0, (beside, 1.0), (other, -k))

    def _add_nodes(self) -> None:
        """Open one node for each host in every rack, with a slot for every container there."""
        program, instance = self._program, self._instance
        for rack, held in enumerate(self._held):
            here = np.flatnonzero(instance.rack == rack)
            kinds, count = np.unique(
                np.stack(
                    [self._costs.open[here], self._costs.slot[here], instance.slots[here]], axis=1
                ),
                axis=0,
                return_counts=True,
            )
            opened = program.columns(kinds[:, 0], count.astype(np.float64))
            used = program.columns(kinds[:, 1])
            program.rows(-INFINITY, 0.0, (opened, 1.0), (used, -1.0))
            program.rows(-INFINITY, 0.0, (used, 1.0), (opened, -kinds[:, 2]))
            columns = [np.concatenate(each) for each in held]
            hosts, everything = np.concatenate(columns[:2]), np.concatenate(columns)
            program.row(0.0, 0.0, (hosts, 1.0), (opened, -1.0))
            program.row(0.0, 0.0, (everything, 1.0), (used, -1.0))

    def _add_wholeness(self) -> None:
        """Put a job that stays whole in exactly one rack."""
        super()._add_wholeness()
        program, racks = self._program, len(self._instance.rack_ids)
        kept = self._kept[np.searchsorted(self._splits, self._bound)]
        for at, column in enumerate(kept.tolist()):
            span = self._in_rack[at * racks : (at + 1) * racks]
            program.row(0.0, 0.0, (span, 1.0), (np.array([column]), -1.0))

    def _plan(self, values: Floats | None) -> RolePlan | None:
        plan = super()._plan(values)
        if plan is None or values is None:
            return plan
        racks: Ints = np.full(self._instance.size.size, ANYWHERE)
        chosen = values[self._in_rack].reshape(self._bound.size, len(self._instance.rack_ids))
        if chosen.size:
            racks[self._bound] = np.where(
                chosen.max(axis=1) > 0.5, chosen.argmax(axis=1), ANYWHERE
            )
        return RolePlan(plan.roles, plan.is_whole, racks)
