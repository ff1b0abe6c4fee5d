"""Compiled conflict resolution against `resolve_conflicts`."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.cluster.conflict_kernels import ClaimTable, Owners, win_units
from apps.scheduling.core.cluster.conflicts import FREE, Claim, resolve_conflicts

SERVER = np.array([0, 0, 0, 1, 1, 2, 2, 2], dtype=np.int32)
SHARE = np.array([[2.0, 1.0, 4.0], [3.0, 0.1, 1.0], [1.0 / 3.0, 1.0, 2.0]])
ROOM = st.sampled_from([0.0, 0.1, 1.0, 2.0, 3.9999999, 4.0, 8.0])
CLAIMS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 7), min_size=1, max_size=4),  # units
        st.tuples(*[st.sampled_from([0.0, 0.1, 1.0, 2.5])] * 3),  # requested
        st.booleans(),  # whole
    ),
    min_size=1,
    max_size=6,
)


@given(
    CLAIMS,
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.tuples(ROOM, ROOM, ROOM), min_size=3, max_size=3),
)
def test_claims_win_the_same_units(
    drawn: list[tuple[list[int], tuple[float, float, float], bool]],
    taken: list[bool],
    opened: list[bool],
    room: list[tuple[float, float, float]],
) -> None:
    requested = np.array([each[1] for each in drawn])
    vectors = [
        [np.where(each > 0, each, SHARE[SERVER[unit]]).tolist() for unit in units]
        for (units, _, _), each in zip(drawn, requested, strict=True)
    ]
    claims = [
        Claim(str(i), units, SERVER[units].tolist(), [(v[0], v[1], v[2]) for v in rows], whole)
        for i, ((units, _, whole), rows) in enumerate(zip(drawn, vectors, strict=True))
    ]
    owner = {unit: "other" if is_taken else None for unit, is_taken in enumerate(taken)}
    free = {server: room[server] for server in range(3) if opened[server]}
    expected = resolve_conflicts(claims, owner, free)

    units = [unit for each, _, _ in drawn for unit in each]
    first = np.cumsum([0, *(len(each) for each, _, _ in drawn)])
    owners = Owners(
        np.where(taken, 77, FREE).astype(np.int64),
        SERVER,
        np.array(opened),
        SHARE,
        np.array(room),
    )
    table = ClaimTable(
        first.astype(np.int64),
        np.array(units, dtype=np.int64),
        requested,
        np.array([whole for _, _, whole in drawn]),
        np.zeros(len(units), dtype=np.bool_),
        np.empty((len(units), 3)),
    )
    win_units(owners, table, 100)

    won = [
        tuple(np.flatnonzero(table.has_won[begin:end]).tolist()) for begin, end in pairwise(first)
    ]
    assert won == expected
    holder = np.where(taken, 77, FREE)
    number = 100
    for (listed, _, _), positions in zip(drawn, won, strict=True):
        holder[[listed[i] for i in positions]] = number
        number += bool(positions)
    assert owners.owner.tolist() == holder.tolist()
