"""What a server must remember beside the documents -> one SQLite file: keys, datasets, chats, jobs, originals ..."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headwater.storage._chats import Chat, Chats
from headwater.storage._datasets import Dataset, Datasets, Scope, Taken, dataset_id
from headwater.storage._jobs import OPEN, Job, Jobs, JobState
from headwater.storage._journal import Journal
from headwater.storage._keys import Key, Keys, Rights
from headwater.storage._ledger_file import LedgerFile, now
from headwater.storage._originals import FOLDER, Original, Originals
from headwater.storage._outbox import Message, Outbox

__all__ = [
    "OPEN",
    "Chat",
    "Dataset",
    "Job",
    "JobState",
    "Key",
    "Ledger",
    "Message",
    "Original",
    "Rights",
    "Scope",
    "Taken",
    "dataset_id",
    "now",
]

FILE_NAME: Final = "ledger.sqlite"


class Ledger:
    """The ledger of a home. Safe for use from several threads and processes."""

    def __init__(self, home: Path) -> None:
        self._file = LedgerFile(home / FILE_NAME)
        self.keys = Keys(self._file)
        self.datasets = Datasets(self._file)
        self.jobs = Jobs(self._file)
        self.journal = Journal(self._file)
        self.outbox = Outbox(self._file)
        self.chats = Chats(self._file)
        self.originals = Originals(self._file, home / FOLDER)

    def close(self) -> None:
        """Let go of the file."""
        self.journal.flush()
        self._file.close()
