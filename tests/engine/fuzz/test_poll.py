"""The poll server responds to malformed requests or closes the connection."""

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
    """Return a server without rate limit, also for requests that it handles after the end of their test."""
    from engine.lessons.poll import rate_limit
    from engine.lessons.poll.rounds import Poll

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_limit, "BURST", 10**9)
        poll_server = PollServer(Poll(), "127.0.0.1", 0)
        yield poll_server
        poll_server.close()


def response_to(server: PollServer, data: bytes, *, whole: bool) -> bytes:
    """Return the response until the server closes the connection.

    Args:
        server: The server.
        data: The request.
        whole: Whether the request shows where it ends; otherwise the client ends the stream.

    Raises:
        TimeoutError: If the server neither responds nor closes the connection.
    """
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(data)
            if not whole:
                with suppress(OSError):  # the server may have closed the connection already
                    connection.shutdown(socket.SHUT_WR)
            received = b""
            while chunk := connection.recv(65_536):
                received += chunk
        except ConnectionError:
            return b""
    return received


@fuzzed
@given(data=st.data())
def test_damaged_requests_do_not_stop_the_server(server, data):
    request = (
        f"POST / HTTP/1.1\r\nHost: {server.address}\r\nConnection: close\r\nCookie: phone={'a' * 22}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    answer = response_to(server, data.draw(damaged(request)), whole=False)
    assert not answer or answer[:9] == b"HTTP/1.1 ", answer[:40]
    assert answer[9:12] != b"500", answer
    valid = response_to(
        server, f"GET / HTTP/1.1\r\nHost: {server.address}\r\nConnection: close\r\n\r\n".encode(), whole=True
    )
    assert valid[:12] == b"HTTP/1.1 200"
