"""Fetches the files of orders: beside the other work of an agent, as it takes a while."""

import base64
import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any, Final

from apps.execution.backends.agent.link import AwayError, Link, RefusedError
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.port import CommandOrder
from apps.workloads.core.archives import ArchiveError, digest_of

AGAIN_S: Final = 1.0  # after an attempt without an answer
logger = logging.getLogger("berth.agent")


@dataclass(slots=True)
class Fetching:
    """The orders whose files are on their way; each is started once they are unpacked.

    Attributes
    ----------
    lock : held while `begin` and `keep` are called, and while a task starts
    """

    link: Link
    tasks: Tasks
    lock: Lock
    stop: Event
    wakes: Wakes
    _wanted: dict[int, CommandOrder] = field(default_factory=dict)

    def begin(self, order: CommandOrder, epoch: int) -> None:
        """Fetch the files of an order and start it, unless that is under way."""
        if order.launch not in self._wanted:
            self._wanted[order.launch] = order
            Thread(target=self._fetch, args=(order, epoch), daemon=True).start()

    def keep(self, orders: Iterable[CommandOrder]) -> None:
        """Do not start what is no order any more, or is to be stopped."""
        live = {order.launch for order in orders if not order.stop}
        for launch in self._wanted.keys() - live:
            del self._wanted[launch]

    def _fetch(self, order: CommandOrder, epoch: int) -> None:
        reason, files = "", None
        try:
            data = self._archive(order, epoch)
            files = None if data is None else self.tasks.unpack(data)
        except (ArchiveError, OSError) as error:
            reason = f"the files could not be unpacked: {error}"
        with self.lock:
            is_wanted = self._is_wanted(order)
            if is_wanted:
                del self._wanted[order.launch]
            if is_wanted and reason:
                self.tasks.refuse(order, reason)
                self.wakes.wake()
            elif is_wanted and files is not None:
                self.tasks.start(order, files)
            elif files is not None:
                shutil.rmtree(files, ignore_errors=True)

    def _is_wanted(self, order: CommandOrder) -> bool:
        """Return False if the order was withdrawn, also if it came again."""
        return self._wanted.get(order.launch) is order

    def _archive(self, order: CommandOrder, epoch: int) -> bytes | None:
        """Return the archive of an order; None if the control plane does not give it."""
        body: dict[str, Any] = {"epoch": epoch, "launch": order.launch}
        while not self.stop.is_set() and self._is_wanted(order):
            try:
                data = base64.b64decode(self.link.post("files", body)["archive"])
            except AwayError as error:
                logger.info("no files of launch %d yet: %s", order.launch, error)
                self.stop.wait(AGAIN_S)
            except RefusedError as error:
                # it is not an order any more, or this agent is fenced: the next answer says which
                logger.info("no files of launch %d: %s", order.launch, error)
                return None
            else:
                if digest_of(data) != order.files:
                    raise ArchiveError("they are not those of the job")
                return data
        return None
