"""The poll server, as phones and other hosts on the network reach it."""

import http.client
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.message import Message
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from engine.errors import EpsilonError
from engine.lessons.poll import Poll, PollServer, Question, local_address, server
from engine.lessons.poll.rate_limit import A_SECOND, BURST, MOST_ADDRESSES, Buckets

QUESTION = Question(
    name="one", text="<b>Who</b> & why?", label='Of "100" <i>', low=0, high=100, step=1, unit=" %<script>"
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def poll():
    opened = Poll()
    opened.open(QUESTION)
    return opened


@pytest.fixture
def served(poll):
    opened = PollServer(poll, "127.0.0.1", 0)
    yield opened
    opened.close()


class Answer(NamedTuple):
    status: int
    headers: Message
    text: str


class Phone:
    """A client that keeps its cookie, as a browser does."""

    def __init__(self, served: PollServer) -> None:
        self.served, self.cookie = served, ""

    def ask(self, method="GET", path="/", body=None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.served.address, timeout=60)
        sent = ({"Cookie": self.cookie} if self.cookie else {}) | headers
        connection.request(method, path, body, sent)
        found = connection.getresponse()
        answer = Answer(found.status, found.headers, found.read().decode())
        if cookie := found.headers.get("Set-Cookie"):
            self.cookie = cookie.split(";")[0]
        connection.close()
        return answer

    def send(self, guess: object, **headers: str) -> Answer:
        token = re.search(r'name="round" value="([^"]*)"', self.ask(path="/?change").text)
        body = urlencode({"round": token[1] if token else "", "guess": guess})
        return self.ask("POST", body=body, **FORM, **headers)


def test_phone_sees_its_answer_and_may_change_it(served, poll):
    phone = Phone(served)
    answered = phone.send(25)
    assert (answered.status, answered.headers["Location"]) == (303, "/")
    after = phone.ask()
    assert "25 %" in after.text
    assert "<form" not in after.text
    assert 'http-equiv="refresh"' in after.text
    assert phone.send(75).status == 303
    assert Phone(served).send("12,5").status == 303
    assert poll.current().values == (12.5, 75.0)


def test_page_escapes_text_and_allows_no_scripts(served):
    found = Phone(served).ask()

    seen = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.add(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

    Tags().feed(found.text)
    assert seen >= {"form", "input", "h1"}
    assert seen.isdisjoint({"script", "b", "i", "iframe", "img"})
    assert "&lt;b&gt;Who&lt;/b&gt; &amp; why?" in found.text
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["X-Frame-Options"] == "DENY"
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Cache-Control"] == "no-store"
    assert "Server" not in found.headers
    assert "HttpOnly" in found.headers["Set-Cookie"]
    assert "SameSite=Strict" in found.headers["Set-Cookie"]


@pytest.mark.parametrize("guess", ["-1", "101", "NaN", "Infinity", "", "<script>alert(1)</script>", "1;2"])
def test_invalid_answer_is_422_and_keeps_the_form(served, poll, guess):
    found = Phone(served).send(guess)
    assert found.status == 422
    assert "no number from 0" in found.text
    assert "<form" in found.text
    assert "alert" not in found.text
    assert poll.current().values == ()


def test_answer_to_a_closed_round_is_rejected(served, poll):
    phone = Phone(served)
    old = re.search(r'name="round" value="([^"]*)"', phone.ask().text)[1]
    poll.open(replace(QUESTION, name="two"))
    found = phone.ask("POST", body=urlencode({"round": old, "guess": 5}), **FORM)
    assert found.status == 422
    assert "closed" in found.text
    assert poll.current().values == ()


def test_page_refreshes_while_no_question_is_open(served, poll):
    poll.close()
    found = Phone(served).ask()
    assert "No question is open" in found.text
    assert "<form" not in found.text
    assert 'http-equiv="refresh"' in found.text


def test_answer_without_valid_cookie_is_rejected(served, poll):
    phone = Phone(served)
    token = re.search(r'name="round" value="([^"]*)"', phone.ask().text)[1]
    for cookie in ("", "phone=x", f"phone={'x' * 3000}", "phone=<script>aaaaaaaaaaaaaa"):
        phone.cookie = cookie
        assert phone.ask("POST", body=urlencode({"round": token, "guess": 5}), **FORM).status == 400
    assert poll.current().values == ()


def test_foreign_origin_or_host_is_rejected(served, poll):
    assert Phone(served).send(5, Origin="http://elsewhere.example").status == 403
    assert Phone(served).send(5, Origin="null").status == 403
    assert Phone(served).ask(Host="elsewhere.example").status == 403
    assert Phone(served).ask(Host="localhost").status == 403
    assert Phone(served).send(5, Origin=f"http://{served.address}").status == 303
    assert poll.current().values == (5.0,)


@pytest.mark.parametrize(
    "path", ["/learn", "/_stcore/health", "/_stcore/stream", "/static/x", "/..%2f..%2fapp.py", "//"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_other_paths_are_404(served, path, method):
    found = Phone(served).ask(method, path, "a=1" if method == "POST" else None, **FORM)
    assert found.status == 404
    assert "Content-Security-Policy" in found.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_are_405(served, method):
    assert Phone(served).ask(method).status == 405


def exchange_raw(served: PollServer, sent: bytes, wait: float = 60) -> bytes:
    host, port = served.address.split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(sent)
        found = b""
        try:
            while part := connection.recv(4096):
                found += part
        except ConnectionResetError:
            pass
        return found


def test_oversized_requests_are_rejected(served, poll):
    head = f"POST / HTTP/1.1\r\nHost: {served.address}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    assert b" 200 " not in exchange_raw(served, f"{head}Content-Length: 100000000\r\n\r\n".encode() + b"x" * 2000)
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 2
    assert b" 200 " not in exchange_raw(served, chunked)
    assert b" 200 " not in exchange_raw(served, f"{head}X: {'x' * 9000}\r\n\r\n".encode())
    assert b" 200 " not in exchange_raw(served, b"\x16\x03\x01\x00\xff" * 20)
    assert Phone(served).send(5).status == 303


def test_slow_senders_are_disconnected_and_block_no_others(poll, monkeypatch):
    monkeypatch.setattr(server, "SLOWEST", 0.5)
    served = PollServer(poll, "127.0.0.1", 0)
    try:
        host, port = served.address.split(":")
        slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(20)]
        for number, connection in enumerate(slow):
            head = b"GET / HTTP/1.1\r\nX: " if number % 2 else b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nguess"
            connection.sendall(head)
        assert Phone(served).send(5).status == 303
        for connection in slow:
            while connection.recv(4096):  # until it is closed; a waiting server would run into the timeout
                pass
            connection.close()
    finally:
        served.close()


def test_connections_per_address_are_limited(served):
    host, port = served.address.split(":")
    held = [socket.create_connection((host, int(port)), timeout=60) for _ in range(server.MOST_OF_ONE + 5)]
    closed = 0
    for connection in held[server.MOST_OF_ONE :]:
        closed += connection.recv(1) == b""
    assert closed == 5
    for connection in held:
        connection.close()
    end = time.monotonic() + 120
    while time.monotonic() < end:  # until the server has seen the closed connections
        try:
            assert Phone(served).ask().status == 200
            break
        except (ConnectionError, http.client.HTTPException):
            time.sleep(0.05)
    else:
        pytest.fail("the connections that were closed still count")


def test_repeated_answers_are_rate_limited_and_count_once(served, poll, caplog):
    phone = Phone(served)
    phone.ask()
    token = poll.current().token

    def send(number: int) -> int:
        return phone.ask("POST", body=urlencode({"round": token, "guess": number % 100}), **FORM).status

    with ThreadPoolExecutor(8) as senders:
        statuses = list(senders.map(send, range(1000)))
    assert set(statuses) == {303, 429}
    assert statuses.count(303) >= BURST - 1
    assert len(poll.current().values) == 1
    (logged,) = (record.getMessage() for record in caplog.records if "refused" in record.getMessage())
    assert "127.0.0.1" not in logged


def test_refusals_are_logged_once_a_minute_without_the_address(caplog):
    now = [100.0]
    refusals = server.Refusals(lambda: now[0])
    for second in (0, 1, 59, 60, 61):
        now[0] = 100.0 + second
        refusals.count()
    assert [record.getMessage() for record in caplog.records] == [
        f"The class poll refused requests or connections above its limits, so far {number}." for number in (1, 4)
    ]


def test_token_buckets_refill_per_address():
    buckets = Buckets()
    assert sum(buckets.allows("a", 0.0) for _ in range(2 * BURST)) == BURST
    assert buckets.allows("b", 0.0)
    assert sum(buckets.allows("a", 2.0) for _ in range(BURST)) == 2 * A_SECOND
    assert sum(buckets.allows("a", 1000.0) for _ in range(2 * BURST)) == BURST


def test_least_recent_addresses_are_evicted():
    buckets = Buckets()
    for _ in range(BURST):
        buckets.allows("quiet", 0.0)
    assert not buckets.allows("quiet", 0.0)
    for number in range(MOST_ADDRESSES):
        buckets.allows(str(number), 0.0)
    assert buckets.allows("quiet", 0.0)


def test_port_in_use_raises(served):
    port = int(served.address.split(":")[1])
    with pytest.raises(EpsilonError, match=f"cannot listen at 127.0.0.1:{port}"):
        PollServer(Poll(), "127.0.0.1", port)


def test_closed_server_refuses_connections(poll):
    served = PollServer(poll, "127.0.0.1", 0)
    phone = Phone(served)
    assert phone.ask().status == 200
    served.close()
    with pytest.raises(ConnectionRefusedError):
        phone.ask()


def test_local_address_must_be_private(monkeypatch):
    def answers(found):
        class Probe(socket.socket):
            def connect(self, _there):
                if found is None:
                    raise OSError("no route")

            def getsockname(self):
                return found, 40000

        monkeypatch.setattr("engine.lessons.poll.network.socket.socket", Probe)

    answers("192.168.1.5")
    assert local_address() == "192.168.1.5"
    answers(None)
    assert local_address() == "127.0.0.1"
    answers("8.8.8.8")
    with pytest.raises(EpsilonError, match=r"8\.8\.8\.8, .*\bnot\b.*local network"):
        local_address()
