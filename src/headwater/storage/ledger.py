"""What a server must remember beside the documents -> one SQLite file: keys, datasets, chats, jobs, originals ..."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headwater.storage._chats import Chat, Chats
from headwater.storage._datasets import Dataset, Datasets, Scope, Taken, dataset_id
from headwater.storage._files import Batch, Batches, File, Files, new_file_id
from headwater.storage._jobs import OPEN, STOPPED, TOO_LATE, Job, Jobs, JobState
from headwater.storage._journal import Journal
from headwater.storage._keys import Key, Keys, Rights
from headwater.storage._ledger_file import LedgerFile, now
from headwater.storage._originals import FOLDER as ORIGINALS_FOLDER
from headwater.storage._originals import Original, Originals
from headwater.storage._outbox import Message, Outbox

__all__ = [
    "OPEN",
    "ORIGINALS_FOLDER",
    "STOPPED",
    "TOO_LATE",
    "Batch",
    "Chat",
    "Dataset",
    "File",
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
    "new_file_id",
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
        self.originals = Originals(self._file, home / ORIGINALS_FOLDER)
        self.files = Files(self._file, self.originals)
        self.batches = Batches(self._file)

    def close(self) -> None:
        """Let go of the file."""
        self.journal.flush()
        self._file.close()
