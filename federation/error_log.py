"""What a client logs about a round that failed. This module does not import Flower."""

import logging
from traceback import format_tb

from engine.config import SimulationConfig
from engine.errors import EpsilonError

log = logging.getLogger("epsilon.federation")


def cause(error: Exception, config: SimulationConfig) -> Exception | None:
    """Return the error that the client's own log may quote as the cause of a failed round; None if there is none.

    The message of an error of the program may quote sentences or noise. With system noise, only the type of such an
    error and the lines of code are logged.
    """
    if isinstance(error, EpsilonError) or config.privacy.noise_source != "system":
        return error
    log.error("The round failed: %s\n%s", type(error).__name__, "".join(format_tb(error.__traceback__)))
    return None
