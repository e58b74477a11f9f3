"""The poll's server survives malformed requests: it answers, or closes the connection."""

import socket
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lessons.poll.server import PollServer
from tests.engine.fuzz.mutation import damaged, fuzzed

BODY = b"round=abc&guess=12"


@pytest.fixture(scope="module")
def server():
    """It counts no requests: not those either that it takes up when their test has left."""
    from engine.lessons.poll import rate_limit
    from engine.lessons.poll.rounds import Poll

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_limit, "BURST", 10**9)
        opened = PollServer(Poll(), "127.0.0.1", 0)
        yield opened
        opened.close()


def said(server: PollServer, data: bytes, *, whole: bool) -> bytes:
    """What comes back until the server hangs up; TimeoutError where it does neither. whole: it knows where the request
    ends, else it is told that no more comes."""
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        try:
            line.sendall(data)
            if not whole:
                with suppress(OSError):  # it has hung up already, perhaps after an answer
                    line.shutdown(socket.SHUT_WR)
            found = b""
            while some := line.recv(65_536):
                found += some
        except ConnectionError:
            return b""
    return found


@fuzzed
@given(data=st.data())
def test_requests(server, data):
    request = (
        f"POST / HTTP/1.1\r\nHost: {server.address}\r\nConnection: close\r\nCookie: phone={'a' * 22}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    answer = said(server, data.draw(damaged(request)), whole=False)
    assert not answer or answer[:9] == b"HTTP/1.1 ", answer[:40]
    assert answer[9:12] != b"500", answer
    fine = said(server, f"GET / HTTP/1.1\r\nHost: {server.address}\r\nConnection: close\r\n\r\n".encode(), whole=True)
    assert fine[:12] == b"HTTP/1.1 200"
