"""Exceptions whose message is one sentence for the user; pages and the command line may catch them."""

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions that Python raises on malformed values from JSON or TOML.

Examples are numbers too large for a float, lists instead of tables, and thousands of brackets.
"""


class EpsilonError(Exception):
    """Base of all errors whose message can be shown to a user."""


class InvalidConfig(EpsilonError, ValueError):
    """A value cannot be used; the message names the field, the value and the expected values."""


class BudgetExceeded(InvalidConfig):
    """A run would spend more ε than the corpus's budget has left; the message has the numbers. Nothing is stored."""


class NotAllowed(EpsilonError):
    """The user lacks a role or has reached a quota; the message names what is required."""


class CorpusError(EpsilonError):
    """A corpus is unknown, cannot be downloaded, or its files cannot be read as tagged sentences."""


class VectorsMissing(EpsilonError):
    """The word vectors or language model of a configuration are not installed."""


class StoreError(EpsilonError):
    """The database or a related file cannot be read or written; stored data is not lost."""


class StoreAddressError(StoreError):
    """EPSILON_STORE_URL leads to no usable database.

    The cause is the address, the password, the server, its driver, or tables of another version.
    """


class StoreUnavailable(StoreAddressError):
    """The database server does not answer, is starting, or has closed the connection; a retry may succeed."""


class RunNotFound(EpsilonError):
    """No published or stored run has this identity."""


class RunStopped(EpsilonError):
    """A run was cancelled, or another worker has taken it over; raised inside the run."""


class TrainingFailed(EpsilonError):
    """Training cannot continue, for example because the weights are no longer finite; the message names the step."""


class SecAggFailed(EpsilonError):
    """Secure aggregation was aborted; the message names the reason.

    Too few clients are left, a value does not fit, or a party violates the protocol.
    """


class ClusterError(EpsilonError):
    """The background cluster cannot be started or reached."""
