"""Log records that stay on one line, whatever a request contains."""

import logging
import logging.config
from http import HTTPStatus
from typing import Any

from apps.common.core.plain_text import one_line


class OneLineRecord(logging.LogRecord):
    """A record whose message has its control characters escaped; tracebacks keep their lines."""

    def getMessage(self) -> str:  # noqa: N802 - the name of the base class
        """Return the message on one line."""
        return one_line(super().getMessage())


class RefusalsWithoutTraceback(logging.Filter):
    """Keeps the line of a refused page (403) and drops its traceback: nothing is broken."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True: every record is kept."""
        if getattr(record, "status_code", None) == HTTPStatus.FORBIDDEN:
            record.exc_info = None
        return True


def configure_logging(settings: dict[str, Any]) -> None:
    """Configure logging (LOGGING_CONFIG); all loggers of the process make such records."""
    logging.setLogRecordFactory(OneLineRecord)
    logging.config.dictConfig(settings)
