"""Fetches the files of orders in the background, so that other work of the agent does not wait."""

import base64
import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from apps.common.infrastructure.stop_signal import StopSignal
from apps.execution.backends.agent.link import AwayError, Link, RefusedError
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.port import CommandOrder
from apps.workloads.core.archives import ArchiveError, digest_of

if TYPE_CHECKING:
    from pathlib import Path

AGAIN_S: Final = 1.0  # after an attempt without an answer
logger = logging.getLogger("berth.agent")


@dataclass(slots=True)
class Fetching:
    """The orders whose files are on their way; each is started once they are unpacked.

    Attributes
    ----------
    give_back : lets the job of an order be queued again, for a reason
    lock : held while `begin`, `keep` and `give_back` are called, and while a task starts
    """

    link: Link
    tasks: Tasks
    lock: Lock
    stop: StopSignal
    wakes: Wakes
    give_back: Callable[[CommandOrder, Exception], None]
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
        """Fetch, unpack and start. A wrong archive fails the job; other failures give it back."""
        files: Path | None = None
        act: Callable[[], None] | None = None
        try:
            data = self._archive(order, epoch)
            if data is not None:
                files = self.tasks.unpack(data)
                act = partial(self.tasks.start, order, files)
        except ArchiveError as error:
            act = partial(self._refuse, order, f"the files could not be unpacked: {error}")
        except Exception as error:
            logger.exception("the files of launch %d did not come", order.launch)
            act = partial(self.give_back, order, error)
        with self.lock:
            if self._is_wanted(order):
                del self._wanted[order.launch]
                self._act(order, act)
        if files is not None:
            shutil.rmtree(files, ignore_errors=True)  # what was not started

    def _act(self, order: CommandOrder, act: Callable[[], None] | None) -> None:
        try:
            if act is not None:
                act()
        except Exception as error:
            logger.exception("launch %d could not be started", order.launch)
            self.give_back(order, error)

    def _refuse(self, order: CommandOrder, reason: str) -> None:
        self.tasks.refuse(order, reason)
        self.wakes.wake()

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
