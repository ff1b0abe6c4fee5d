"""The event loop of the reservation engine; compiled.

w the workload and the machines, s the state, o the options of the scheduler.
"""

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.event_heap import next_time, pop, push
from apps.testbed.core.reservation.choice import take
from apps.testbed.core.reservation.state import (
    BUSY,
    ENDED,
    EVENTS,
    EVICTIONS,
    NONE,
    NOW,
    PROBES,
    QUEUE_HEAD,
    QUEUE_TAIL,
    REQUESTS,
    RUNNING,
    TOO_MANY_ATTEMPTS,
    WAITING,
    Options,
    State,
    Tables,
    apply_heartbeat,
    fits,
    raise_bounds,
    transfer,
    use_cpu,
)


@jit(makes_arrays=False)
def simulate(w: Tables, s: State, o: Options) -> None:
    """Process all events until ``o.until_s``.

    At the same time, machines change first; then tasks end, messages arrive and jobs arrive.
    """
    job, change = 0, 0
    jobs, changes = w.submit_s.size, w.change_s.size
    while True:
        at_end, at_message = next_time(s.ends), next_time(s.messages)
        at_job = w.submit_s[job] if job < jobs else np.inf
        at_change = w.change_s[change] if change < changes else np.inf
        now = min(at_end, at_message, at_job, at_change)
        if now > o.until_s or now == np.inf:
            return
        s.clock[NOW] = now
        if at_change == now:
            _change(w, s, o, change)
            change += 1
        elif at_end == now:
            _end(w, s, o, pop(s.ends))
        elif at_message == now:
            what = pop(s.messages)
            if what & 1:
                _reply(w, s, o, what >> 1)
            else:
                _deliver(w, s, o, what >> 1)
        else:
            s.counts[EVENTS] += w.first_task[job + 1] - w.first_task[job]
            if s.pending[job] != NONE:
                _request(w, s, o, job)
            job += 1


@jit(makes_arrays=False)
def place_at_start(w: Tables, s: State, o: Options) -> None:
    """Start the tasks that run at the start, and link those without a machine to their jobs."""
    for job in range(w.submit_s.size):
        last = NONE
        for task in range(w.first_task[job], w.first_task[job + 1]):
            if w.machine[task] != NONE:
                _start(w, s, o, task, w.machine[task])
                continue
            if last == NONE:
                s.pending[job] = task
            else:
                s.next_pending[last] = task
            last = task
    for machine in range(s.free_cpu.size):
        s.seen_cpu[machine] = s.free_cpu[machine]
        s.seen_memory[machine] = s.free_memory[machine]
        raise_bounds(s, machine)


@jit(makes_arrays=False)
def _request(w: Tables, s: State, o: Options, request: int) -> None:
    """Decide a request, or let it wait for a path."""
    if o.path_limit > 0 and s.counts[BUSY] >= o.path_limit:
        s.queue[s.counts[QUEUE_TAIL]] = request
        s.counts[QUEUE_TAIL] += 1
        return
    s.counts[BUSY] += 1
    _decide(w, s, o, request)


@jit(makes_arrays=False)
def _decide(w: Tables, s: State, o: Options, request: int) -> None:
    """Choose machines for all tasks of a request and send the decisions.

    The decisions see the state at the start of the round; looking takes time afterwards.
    """
    now, probes = s.clock[NOW], s.counts[PROBES]
    task, last, failed = s.pending[request], NONE, NONE
    s.pending[request] = NONE
    while task != NONE:
        following = s.next_pending[task]
        if take(w, s, o, task, failed) == NONE:
            failed = task
        else:
            if last == NONE:
                s.pending[request] = task
            else:
                s.next_pending[last] = task
            s.next_pending[task] = NONE
            last = task
        task = following
    ready = now + (s.counts[PROBES] - probes) * o.probe_s
    if last == NONE:
        push(s.messages, ready, 2 * request + 1)
    else:
        push(s.messages, ready + transfer(s, o), 2 * request)


@jit(makes_arrays=False)
def _deliver(w: Tables, s: State, o: Options, request: int) -> None:
    """Let the machines accept or reject the decisions for a request."""
    task, last = s.pending[request], NONE
    s.pending[request] = NONE
    while task != NONE:
        following = s.next_pending[task]
        s.next_pending[task] = NONE
        machine = s.chosen[task]
        apply_heartbeat(s, o, machine)
        if fits(w, task, s.free_cpu[machine], s.free_memory[machine], w.attributes[machine]):
            _start(w, s, o, task, machine)
        else:
            s.attempts[task] += 1
            if s.attempts[task] >= o.attempts:
                s.state[task] = TOO_MANY_ATTEMPTS
            else:
                if last == NONE:
                    s.pending[request] = task
                else:
                    s.next_pending[last] = task
                last = task
        task = following
    push(s.messages, s.clock[NOW] + transfer(s, o), 2 * request + 1)


@jit(makes_arrays=False)
def _reply(w: Tables, s: State, o: Options, request: int) -> None:
    """Decide rejected tasks again; without any, free the path for the next request."""
    if s.pending[request] != NONE:
        _decide(w, s, o, request)
        return
    s.decided_s[request] = s.clock[NOW]
    s.counts[BUSY] -= 1
    if s.counts[QUEUE_HEAD] < s.counts[QUEUE_TAIL]:
        following = s.queue[s.counts[QUEUE_HEAD]]
        s.counts[QUEUE_HEAD] += 1
        s.counts[BUSY] += 1
        _decide(w, s, o, following)


@jit(makes_arrays=False)
def _start(w: Tables, s: State, o: Options, task: int, machine: int) -> None:
    """Start a task on a machine, which has heard its last heartbeat."""
    now = s.clock[NOW]
    s.state[task] = RUNNING
    s.ran_on[task] = machine
    s.started_s[task] = now
    s.free_cpu[machine] -= w.cpu[task]
    s.free_memory[machine] -= w.memory[task]
    use_cpu(s, o, w.cpu[task])
    if w.change_s.size > 0:
        following = s.first_on[machine]
        s.before[task], s.after[task] = NONE, following
        s.first_on[machine] = task
        if following != NONE:
            s.before[following] = task
    if w.seconds[task] < np.inf:
        s.ended_s[task] = now + w.seconds[task]
        if not s.is_queued[task]:
            s.is_queued[task] = True
            push(s.ends, s.ended_s[task], task)


@jit(makes_arrays=False)
def _end(w: Tables, s: State, o: Options, task: int) -> None:
    """End a task. If the removal of its machine did, wait for the end of the task's next run."""
    s.is_queued[task] = False
    if s.state[task] != RUNNING:
        return
    if s.ended_s[task] > s.clock[NOW]:
        s.is_queued[task] = True
        push(s.ends, s.ended_s[task], task)
        return
    machine = s.ran_on[task]
    apply_heartbeat(s, o, machine)
    s.counts[EVENTS] += 1
    s.state[task] = ENDED
    s.free_cpu[machine] += w.cpu[task]
    s.free_memory[machine] += w.memory[task]
    raise_bounds(s, machine)
    use_cpu(s, o, -w.cpu[task])
    if w.change_s.size > 0:
        before, after = s.before[task], s.after[task]
        if before == NONE:
            s.first_on[machine] = after
        else:
            s.after[before] = after
        if after != NONE:
            s.before[after] = before


@jit(makes_arrays=False)
def _change(w: Tables, s: State, o: Options, change: int) -> None:
    """Add, resize or remove a machine."""
    machine = w.change_machine[change]
    cpu, memory = w.change_cpu[change], w.change_memory[change]
    s.counts[EVENTS] += 1
    apply_heartbeat(s, o, machine)
    was_there = s.capacity_cpu[machine] > 0 or s.capacity_memory[machine] > 0
    is_there = cpu > 0 or memory > 0
    if was_there and not is_there:
        s.free_cpu[machine], s.free_memory[machine] = -1, -1
    elif is_there and not was_there:
        s.free_cpu[machine], s.free_memory[machine] = cpu, memory
    elif is_there:
        s.free_cpu[machine] += cpu - s.capacity_cpu[machine]
        s.free_memory[machine] += memory - s.capacity_memory[machine]
    s.capacity_cpu[machine], s.capacity_memory[machine] = cpu, memory
    if was_there != is_there:  # its connection opens or closes
        s.seen_cpu[machine], s.seen_memory[machine] = s.free_cpu[machine], s.free_memory[machine]
    raise_bounds(s, machine)
    if was_there and not is_there:
        _evict(w, s, o, machine)


@jit(makes_arrays=False)
def _evict(w: Tables, s: State, o: Options, machine: int) -> None:
    """End the tasks of a machine and submit them again as one request."""
    task = s.first_on[machine]
    if task == NONE:
        return
    request = s.counts[REQUESTS]
    s.counts[REQUESTS] += 1
    s.pending[request] = task
    s.first_on[machine] = NONE
    while task != NONE:
        s.counts[EVICTIONS] += 1
        s.state[task] = WAITING
        s.ended_s[task] = np.nan
        s.next_pending[task] = s.after[task]
        use_cpu(s, o, -w.cpu[task])
        task = s.after[task]
    _request(w, s, o, request)
