"""A class poll: guesses from phones in the local network, as numbers only and in memory only."""

from engine.lessons.poll.network import local_address
from engine.lessons.poll.rounds import MOST_PHONES, Poll, Question, Refused, Tally
from engine.lessons.poll.server import PollServer

__all__ = ["MOST_PHONES", "Poll", "PollServer", "Question", "Refused", "Tally", "local_address"]
