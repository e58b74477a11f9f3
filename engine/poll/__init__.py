"""A class's guesses, which come in from phones of the local network: numbers only, in memory only."""

from engine.poll.network import local_address
from engine.poll.rounds import MOST_PHONES, Poll, Question, Refused, Tally
from engine.poll.server import PollServer

__all__ = ["MOST_PHONES", "Poll", "PollServer", "Question", "Refused", "Tally", "local_address"]
