"""What happens -> one JSON object a line on standard error. No text of documents, and of queries only where asked."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

NAME = "headwater.server"
logger = logging.getLogger(NAME)


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as `fields` stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            told["error"] = type(record.exc_info[1]).__name__
            # The places, not the values: what an error says may be text of a document.
            told["stack"] = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(told, ensure_ascii=False, default=str)


def set_up(level: str = "info") -> None:
    """Write the server's log, and that of what serves it, as lines of JSON."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JsonLines())
    for name in (NAME, "uvicorn.error"):
        named = logging.getLogger(name)
        named.handlers, named.propagate = [out], False
        named.setLevel(level.upper())
    logging.getLogger("uvicorn.access").handlers = []


def tell(message: str, **fields: Any) -> None:
    """One line with these fields."""
    logger.info(message, extra={"fields": fields})


def warn(message: str, *, error: BaseException | None = None, **fields: Any) -> None:
    """One line about something that went wrong."""
    told = (type(error), error, error.__traceback__) if error else None
    logger.warning(message, extra={"fields": fields}, exc_info=told)
