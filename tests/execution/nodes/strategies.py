"""Every valid message of the node protocol, for Hypothesis."""

from hypothesis import strategies as st

from apps.execution.core.nodes.messages import (
    Accepted,
    Acknowledged,
    Code,
    Ended,
    Error,
    Heartbeat,
    Launch,
    Outcome,
    Register,
    Rejected,
    Rejection,
    Started,
    Stop,
    Usage,
    Welcome,
)

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=256).filter(str.isprintable)
notes = st.just("") | texts
amounts = st.integers(0, 2**53)
free = st.integers(-(2**53), 2**53)
lists = st.lists(texts, max_size=4).map(tuple)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8"))
payloads = st.dictionaries(st.text(st.characters(codec="utf-8")), scalars | st.lists(scalars))

from_node = st.one_of(
    st.builds(
        Register,
        node=texts,
        cpu=amounts,
        memory=amounts,
        free_cpu=free,
        free_memory=free,
        attributes=lists,
        epoch=amounts,
        running=lists,
        ended=lists,
        protocol=amounts,
    ),
    st.builds(Heartbeat, free, free, amounts),
    st.builds(Accepted, texts),
    st.builds(Rejected, texts, st.sampled_from(Rejection), notes),
    st.builds(Started, texts),
    st.builds(Usage, st.lists(st.tuples(texts, amounts, amounts), max_size=4).map(tuple)),
    st.builds(Ended, texts, st.sampled_from(Outcome), notes),
    st.builds(Error, st.sampled_from(Code), notes),
)
from_server = st.one_of(
    st.builds(
        Welcome,
        epoch=amounts,
        heartbeat_s=st.floats(0.1, 500.0),
        usage_s=st.floats(0.0, 1e6),
        lease_s=st.floats(0.0, 1e6),
        stop=lists,
        protocol=amounts,
    ),
    st.builds(Launch, texts, amounts, amounts, amounts, lists, payloads),
    st.builds(Stop, texts),
    st.builds(Acknowledged, lists),
    st.builds(Error, st.sampled_from(Code), notes),
)
