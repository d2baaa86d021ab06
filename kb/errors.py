"""Every error that kb raises.

KbError                       catch this to catch them all
├── ConfigError               a key or value in config.toml, .env, the environment or an argument
│   └── MissingKeyError       a service is configured and its key is not set
├── LoadError                 one file cannot be read: `path`, `reason`
├── ServiceError              a service answered with an error, or not at all: `service`, `status`
│   ├── AuthenticationError   the key was refused
│   ├── QuotaError            the account is out of credit: waiting does not help
│   └── RefusedError          this input or model was refused for good
├── StoppedError              somebody stopped what was under way: `Cancellation.cancel()`
├── StoreError                the vector store cannot be opened, read or written
│   └── StoreDiedError        the process that wrote it was killed or crashed
├── LedgerError               the ledger cannot be opened, or is of a newer version
├── IndexMismatchError        the index was built with another embedder: `stored`, `configured`
├── NothingIngestedError      a question before the first ingest
├── LockedError               another process is ingesting into the collection: `holder`
├── ExportError               a file of an exported collection cannot be written or read, or is none
├── RemovalRefusedError       this run would remove much of the collection: `removed`, `total`
└── CostRefusedError          this run would cost more than allowed: `dollars`, `allowed`

Each message says what happened, to which thing, and what to do. Facts are attributes.
"""

from __future__ import annotations


class KbError(Exception):
    """Base class of every error that kb raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes with all facts, whatever `__init__` asks for."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[KbError], arguments: tuple[object, ...], facts: dict[str, object]) -> KbError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(facts)
    return error


class ConfigError(KbError):
    """A setting is unknown, has a wrong value, or does not fit the other settings."""


class MissingKeyError(ConfigError):
    """A configured service needs an API key that is not set; `variable` names it."""

    def __init__(self, variable: str, service: str) -> None:
        self.variable = variable
        self.service = service
        super().__init__(
            f"{service} needs an API key, but {variable} is not set. Put it into the environment or into .env "
            "(copy .env.example), or choose the embedded default, which needs no key"
        )


class LoadError(KbError):
    """One file cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class ServiceError(KbError):
    """A service failed; `status` is the HTTP status, or None when it could not be reached."""

    def __init__(self, message: str, *, service: str, status: int | None = None) -> None:
        self.service = service
        self.status = status
        super().__init__(message)


class AuthenticationError(ServiceError):
    """The service refused the key (401, 403)."""


class QuotaError(ServiceError):
    """The account has no credit left; waiting does not help."""


class RefusedError(ServiceError):
    """The service refused this model or this input for good (400, 404, 413, 422)."""


class StoppedError(KbError):
    """What was under way was stopped by whoever had asked for it, as by `Cancellation.cancel()`."""

    def __init__(self, message: str = "stopped, as it was asked to: nothing more is sent or waited for") -> None:
        super().__init__(message)


class StoreError(KbError):
    """The vector store cannot be opened, read or written."""


class StoreDiedError(StoreError):
    """The process that an ingest has its store written by was killed, or crashed."""


class LedgerError(KbError):
    """The ledger cannot be opened, or was written by a newer version."""


class IndexMismatchError(KbError):
    """The index was built with another embedder than the one configured."""

    def __init__(self, stored: str, configured: str, mend: str = "python -m pipelines.ingest --rebuild") -> None:
        self.stored = stored
        self.configured = configured
        super().__init__(
            f"this collection was built with the embedder {stored}, but {configured} is configured; their vectors "
            f"cannot be compared. Configure the first again, or build the collection anew: {mend}"
        )


class NothingIngestedError(KbError):
    """A question was asked of a collection that does not exist yet."""


class LockedError(KbError):
    """Another process is ingesting into this collection."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        super().__init__(
            f"another ingest is writing to this collection ({holder}). Wait until it has ended; "
            "questions can be asked meanwhile"
        )


class ExportError(KbError):
    """A file that holds an exported collection cannot be written or read, or is no sound one."""


class RemovalRefusedError(KbError):
    """The run would remove documents that the caller may not have meant to remove."""

    def __init__(self, message: str, *, removed: int, total: int) -> None:
        self.removed = removed
        self.total = total
        super().__init__(message)


class CostRefusedError(KbError):
    """The run would cost more than the caller allows; `dollars` is None when nobody knows what it costs."""

    def __init__(self, message: str, *, dollars: float | None, allowed: float) -> None:
        self.dollars = dollars
        self.allowed = allowed
        super().__init__(message)
