"""What a page or a shell may catch: every message is one sentence for the person in front of it."""

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""What Python may raise where values that were read from JSON or TOML are not what they should be: numbers too large
for a float, lists in place of tables, thousands of brackets."""


class EpsilonError(Exception):
    """Base of all errors whose text may be shown to a user as it is."""


class InvalidConfig(EpsilonError, ValueError):
    """A value that a user chose cannot be used; the text names the field, the value and what is expected."""


class BudgetExceeded(InvalidConfig):
    """A run would cost a corpus more than its budget has left; the text has the sum. Nothing is stored."""


class NotAllowed(EpsilonError):
    """Somebody may not do this, or has as much under way as one person may; the text says what is needed."""


class CorpusError(EpsilonError):
    """A corpus is unknown, cannot be fetched, or its files cannot be read as tagged sentences."""


class VectorsMissing(EpsilonError):
    """The word vectors that a configuration asks for are not installed."""


class StoreError(EpsilonError):
    """The database or a file beside it cannot be read or written; nothing that was stored is lost."""


class StoreAddressError(StoreError):
    """EPSILON_STORE_URL leads to no database that this program can use: the address, the password, the server, its
    driver, or tables of another version."""


class StoreUnavailable(StoreAddressError):
    """The database's server does not answer, is only just starting, or has ended the connection: it may be back in a
    moment."""


class RunNotFound(EpsilonError):
    """No run has this identity, neither published nor in the store."""


class RunStopped(EpsilonError):
    """Raised inside a run when it was cancelled, or when another worker has taken it over."""


class TrainingFailed(EpsilonError):
    """Training cannot go on, for instance because the weights are no longer finite; the text names the step."""


class SecAggFailed(EpsilonError):
    """A secure sum stays closed: too few parties are left, a value does not fit, or somebody asks for, or sends, what
    the protocol forbids; the text says which."""


class ClusterError(EpsilonError):
    """The background cluster cannot be started or reached."""
