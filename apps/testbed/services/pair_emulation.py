"""Runs emulated pairs: the applications' hidden truths on an emulated server of their own."""

import logging
from typing import Final

import numpy as np
from django.conf import settings
from django.db import transaction

from apps.emulation.core.events import Machines
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import WORLDS
from apps.execution.backends.emulated.port import NoServersError
from apps.execution.backends.emulated.site import read_site
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    OperationLostError,
    advance_operation,
    claim_operation,
    finish_owned,
    owned_operation,
)
from apps.operations.services.leases import lease_kept
from apps.testbed.core.pairs.emulated import emulated_rounds, one_server
from apps.testbed.core.pairs.rounds import Round, summary
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import open_pairs, predicted_estimates
from apps.workloads.models import Application

MESSAGE: Final = "emulated server"
_logger = logging.getLogger(__name__)


def run_emulated_pairs() -> int:
    """Run the emulated pairs that wait; returns the number that were measured."""
    return sum(_run(pair) for pair in open_pairs().filter(is_emulated=True))


def _run(pair: MeasuredPair) -> bool:
    operation = claim_operation(pair.operation_id)
    if operation is None:
        return False
    try:
        with lease_kept(operation):
            return _measure(pair, operation)
    except OperationLostError as error:
        _logger.warning("%s", error)
        return False


def _measure(pair: MeasuredPair, operation: Operation) -> bool:
    rounds: list[Round] = []
    try:
        server, truths = _emulation(pair)
    except (NoServersError, ValueError) as error:
        problem = {"title": "The pair was not measured", "detail": str(error)}
        finish_owned(operation, status=OperationStatus.FAILED, problem=problem)
        return False
    units = [side["units"] for side in pair.request["sides"]]
    # another measurement of the pair draws other noise
    rng = np.random.default_rng(pair.pk.int)
    for each in emulated_rounds(server, truths, units, pair.request["rounds"], rng):
        rounds.append(each)
        if not advance_operation(operation, progress=len(rounds), message=MESSAGE):
            finish_owned(operation, status=OperationStatus.CANCELLED)
            return False
    result = summary(rounds, predicted_estimates(pair), rejected=0)
    with transaction.atomic():
        owned_operation(operation)
        MeasuredPair.objects.filter(pk=pair.pk).update(result=result)
        finish_owned(operation, status=OperationStatus.SUCCEEDED, result={"pair": str(pair.pk)})
    return True


def _emulation(pair: MeasuredPair) -> tuple[Machines, tuple[Truth, Truth]]:
    """Return a server of the pair's platform, and the hidden truths of both applications."""
    world = WORLDS[settings.EMULATED_WORLD]
    site = read_site(world)
    names = site.machines.platforms.names
    machines = one_server(site.machines, names.index(pair.platform))
    kinds = dict(
        Application.objects.filter(name__in=[pair.first, pair.second]).values_list("name", "kind")
    )
    first, second = (
        world.application_truth(site.seed, name, kinds[name], site.machines.platforms)
        for name in (pair.first, pair.second)
    )
    return machines, (first, second)
