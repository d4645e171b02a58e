"""Every error headwater raises on purpose.

    HeadwaterError
      UsageError              the caller's mistake: fix the call               exit 2
        FilterError             a filter that cannot be parsed
        UnknownComponent        no such name; says which names exist
        SettingError            a setting that is unknown or has a wrong value
        SpaceMismatch           the index was built with another embedder or chunker
        NotFound                no such document, chunk, collection or file
      SourceError             this document cannot be read: recorded on it, the rest goes on
        EmptyDocument           it was read, and holds no text
      BackendError            a store or a model failed: try again later       exit 1
        HomeLocked              another process is writing to this home
        HomeTooNew              the home was written by a newer headwater
        HomeDamaged             the home holds something that cannot be read; says how to mend it
        DiskFull                no room left; nothing acknowledged is lost

A message says what was wrong, what was got and what to do. Errors know neither exit codes nor HTTP: edges map them.
"""


class HeadwaterError(Exception):
    """The base of all of them."""


class UsageError(HeadwaterError):
    """The caller's mistake."""


class FilterError(UsageError):
    """A filter that cannot be parsed."""


class UnknownComponent(UsageError):
    """No component of that name is installed."""


class SettingError(UsageError):
    """A setting that does not exist or cannot have that value."""


class SpaceMismatch(UsageError):
    """The index was built with another embedder or chunker than the configuration asks for."""


class NotFound(UsageError):
    """The thing named does not exist."""


class SourceError(HeadwaterError):
    """One document cannot be read."""


class EmptyDocument(SourceError):
    """One document was read and holds no text."""


class BackendError(HeadwaterError):
    """A store or a model failed."""


class HomeLocked(BackendError):
    """Another process holds the write lock of the home."""


class HomeTooNew(BackendError):
    """The home was written by a newer version."""


class HomeDamaged(BackendError):
    """A file of the home cannot be read."""


class DiskFull(BackendError):
    """The disk has no room left."""
