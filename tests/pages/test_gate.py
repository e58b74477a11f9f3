"""Connections and uploads are limited, and files are accepted from users who may upload only."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import psutil
import pytest
from starlette.responses import PlainTextResponse
from websockets.asyncio.client import connect

from benchmarks.session_client import Session
from engine.corpus.text_decoding import MAX_BYTES
from engine.errors import CorpusError
from engine.serve import server_command
from pages.shared import uploads, visits
from pages.shared.uploads import UploadRefused, Uploads
from pages.shared.visits import Visits
from pages.startup import gate
from tests.browser.driving import answers, free_port
from tests.engine.access.test_roles import text
from tests.modules import ROOT

TOKEN = "0123456789abcdef"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestVisits:
    def test_upload_needs_sign_in_a_role_and_a_connection(self):
        known = Visits(sign_in=True)
        known.connect("vera", "10.0.0.1", lambda: None)
        assert not known.may_upload("vera")
        known.admit("vera", "Vera", may_upload=False, seconds=60)
        assert not known.may_upload("vera")
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        assert known.may_upload("vera")
        known.admit("rudi", "Rudi", may_upload=True, seconds=12 * 3600)
        assert not known.may_upload("rudi"), "without a connection"
        known.expel("vera")
        assert not known.may_upload("vera")
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        known.expel(name="Vera")
        assert not known.may_upload("vera")
        assert not known.may_upload("")

    def test_sign_in_ends_after_twelve_hours(self):
        clock = Clock()
        known = Visits(sign_in=True, clock=clock)
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        known.connect("vera", "10.0.0.1", lambda: None)
        clock.now = 12 * 3600 - 1
        assert known.user("vera") == "Vera"
        clock.now += 2
        assert known.user("vera") is None
        assert not known.may_upload("vera")

    def test_without_sign_in_a_connection_suffices(self):
        known = Visits(sign_in=False)
        assert not known.may_upload("here")
        connection = known.connect("here", "127.0.0.1", lambda: None)
        assert known.may_upload("here")
        known.disconnect(connection)
        assert not known.may_upload("here")

    def test_flood_displaces_its_own_connections(self):
        known, ended = Visits(sign_in=True), []
        signed_in = known.connect("vera", "10.0.0.1", lambda: ended.append("vera"))
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        known.connect("new", "10.0.0.2", lambda: ended.append("new"))
        for number in range(500):
            known.connect("", "10.6.6.6", lambda number=number: ended.append(number))
        assert ended == list(range(500 + 1 - visits.MOST_SIGNED_OUT))
        assert not signed_in.ended

    def test_connections_of_a_user_are_limited(self):
        known, ended = Visits(sign_in=True), []
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        for number in range(visits.MOST_SIGNED_IN + 3):
            known.connect("vera", "10.0.0.1", lambda number=number: ended.append(number))
        assert ended == [0, 1, 2]

    def test_connections_before_sign_in_begin_one_after_the_other(self):
        clock = Clock()
        known = Visits(sign_in=True, clock=clock)
        known.admit("vera", "Vera", may_upload=True, seconds=12 * 3600)
        waits = [known.wait("", "10.6.6.6") for _ in range(500)]
        assert waits[:3] == [0.0, pytest.approx(0.1), pytest.approx(0.2)]
        assert waits[-1] is None
        assert known.wait("vera", "10.6.6.6") == 0.0
        assert known.wait("", "10.0.0.2") == 0.0, "another address"
        clock.now = 60.0
        assert known.wait("", "10.6.6.6") == 0.0


def test_downloads_need_sign_in():
    """Streamlit gives a file to anyone who has its address, which follows from the content."""
    known = Visits(sign_in=True)

    def status(path: str, visit: str = "ritas", visits_of_server: Visits = known) -> int:
        transport = httpx.ASGITransport(gate.Gate(PlainTextResponse("content"), visits_of_server))

        async def get() -> int:
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return (await client.get(path, headers={"Cookie": f"{visits.COOKIE}={visit}"})).status_code

        return asyncio.run(get())

    file = "/media/0123456789abcdef.csv"
    assert status(file) == 403
    known.admit("ritas", "Rita", may_upload=False, seconds=60)
    assert [status(file), status(f"/behind/a/proxy{file}"), status(file, "veras")] == [200, 200, 403]
    known.expel("ritas")
    assert [status(file), status(f"/behind/a/proxy{file}"), status("/static/media/font.woff2")] == [403, 403, 200]
    assert status(file, "", Visits(sign_in=False)) == 200


class TestUploads:
    @pytest.fixture
    def files(self, tmp_path) -> Uploads:
        return Uploads(tmp_path / "incoming", Clock())

    def stored(self, files: Uploads, data: bytes = b"one O\n", file_id: str = "1", visit: str = "vera") -> bytes:
        reference = files.reserve(file_id, visit, visit, len(data))
        files.path(reference).write_bytes(data)
        return reference.encode()

    def test_reference_is_replaced_by_the_content_for_its_browser_only(self, files):
        reference = self.stored(files)
        assert files.content(reference, "vera") == b"one O\n"
        for other in ("rudi", None):
            with pytest.raises(CorpusError, match="upload it again"):
                files.content(reference, other)
        assert files.content(b"two O\n", "vera") == b"two O\n"
        assert len(files.content(reference + bytes(200), "vera")) > 200

    def test_file_is_deleted_when_it_is_dropped_or_late(self, files):
        for drop in (
            lambda: files.drop(file_id="1"),
            lambda: files.drop(visit="vera"),
            lambda: setattr(files.clock, "now", files.clock.now + uploads.KEPT_SECONDS + 1) or files.clean(),
        ):
            reference = self.stored(files)
            other = self.stored(files, file_id="2", visit="rudi")
            drop()
            with pytest.raises(CorpusError):
                files.content(reference, "vera")
            files.drop(reference=other.decode())
            assert not list(files.folder.iterdir())

    def test_bytes_of_a_user_and_of_the_server_are_limited(self, files, monkeypatch):
        first, *_ = [files.reserve(str(number), "vera", "Vera", MAX_BYTES) for number in range(4)]
        files.path(first).write_bytes(b"one O\n")
        files.reserve("5", "vera", "Vera", MAX_BYTES)
        assert not list(files.folder.iterdir()), "the oldest one is replaced"
        for number in range(16):
            files.reserve(f"a{number}", "x", f"user {number}", MAX_BYTES)
        with pytest.raises(UploadRefused, match="no space"):
            files.reserve("6", "rudi", "Rudi", 1)
        files.drop(visit="vera")
        files.reserve("6", "rudi", "Rudi", 1)

    def test_some_disk_space_stays_free(self, files, monkeypatch):
        monkeypatch.setattr(uploads, "LEAST_FREE", 10**18)
        with pytest.raises(UploadRefused, match="no space"):
            files.reserve("1", "vera", "Vera", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory, published_index):
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(published_index, folder)
    return folder


def serving(home, **environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address and the process of a server."""
    port = str(free_port())
    process = psutil.Popen(
        server_command({"PORT": port, "CI": "true"}),
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(home), "EPSILON_STORE_URL": ""} | environment,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not answers(f"http://localhost:{port}/_stcore/health"):
        time.sleep(0.05)
    yield f"http://localhost:{port}", process
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="module")
def local(home):
    yield from serving(home)


@pytest.fixture(scope="module")
def shared(home):
    access = home / "access.toml"
    access.write_text(text('admin = ["ada@example.org"]'))
    access.chmod(0o600)
    (home / "token").write_text(f"{TOKEN}\n")
    (home / "token").chmod(0o600)
    yield from serving(home, EPSILON_ACCESS_FILE=str(access), EPSILON_METRICS_TOKEN_FILE=str(home / "token"))


async def put(client: httpx.AsyncClient, data: bytes, session: str = "none") -> httpx.Response:
    """Send a file as Streamlit's page does."""
    token = (await client.get("/_stcore/health")).cookies.get("_streamlit_xsrf") or client.cookies["_streamlit_xsrf"]
    return await client.put(
        f"/_stcore/upload_file/{session}/file-1", files={"file": ("a.conll", data)}, headers={"X-Xsrftoken": token}
    )


async def send_in_pieces(client: httpx.AsyncClient) -> httpx.Response:
    """Send a file whose end alone gives its length."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one O\n"

    return await client.put("/_stcore/upload_file/none/file-1", content=pieces())


def test_upload_before_sign_in_is_refused_and_costs_no_memory(shared):
    address, process = shared

    async def flood() -> list[int]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            await client.get("/")
            return [(await put(client, bytes(MAX_BYTES))).status_code for _ in range(10)]

    before = process.memory_info().rss
    assert asyncio.run(flood()) == [403] * 10
    assert process.memory_info().rss < before + MAX_BYTES


@pytest.mark.repeats(area="dashboard")
def test_flood_of_connections_leaves_answers_and_newer_connections(shared):
    address, _ = shared

    async def flood() -> int:
        opened = []

        async def one() -> None:
            try:
                opened.append(await connect(address.replace("http", "ws") + "/_stcore/stream", origin=address))
            except Exception:
                return

        waiting = [asyncio.create_task(one()) for _ in range(300)]
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/_stcore/health")).status_code == 200
        await asyncio.gather(*waiting)
        for _ in range(100):
            alive = [each for each in opened if each.state.name == "OPEN"]
            if len(alive) <= visits.MOST_SIGNED_OUT:
                break
            await asyncio.sleep(0.1)
        async with Session(f"{address}/glossary") as session:
            assert not session.faults
        for each in opened:
            await each.close()
        return len(alive)

    assert 0 < asyncio.run(flood()) <= visits.MOST_SIGNED_OUT


def test_refused_files_leave_nothing_on_disk(local, home):
    address, process = local
    folder = home / "incoming" / str(process.pid)

    async def visit() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            cookie = (await client.get("/")).cookies[visits.COOKIE]
            assert (await put(client, b"one O\n")).status_code == 403, "without a connection"
            headers = {"Cookie": f"{visits.COOKIE}={cookie}"}
            url = address.replace("http", "ws") + "/_stcore/stream"
            async with connect(url, origin=address, additional_headers=headers):
                # The session is not that of the connection, so Streamlit refuses the reference, not the gate.
                assert "Invalid session_id" in (await put(client, b"one O\n")).text
                assert not list(folder.iterdir()), "a refused file is deleted"
                assert (await send_in_pieces(client)).status_code == 411, "which would have no length"
                assert (await put(client, bytes(MAX_BYTES + 20_000))).status_code == 413
                assert not list(folder.iterdir())

    asyncio.run(visit())


def test_metrics_of_streamlit_are_closed_and_cookies_are_for_tls_behind_tls(shared):
    address, _ = shared
    behind = {"X-Forwarded-Proto": "https"}
    assert httpx.get(f"{address}/_stcore/metrics").status_code == 404
    for path in ("/", "/_stcore/health"):
        for headers, secure in ((behind, True), ({}, False)):
            given = httpx.get(f"{address}{path}", headers=headers).headers.get_list("set-cookie")
            assert any(cookie.startswith(f"{visits.COOKIE}=") for cookie in given)
            assert [("; secure" in cookie.lower()) for cookie in given] == [secure] * len(given)
    assert not httpx.get(address, cookies={visits.COOKIE: "x"}).headers.get_list("set-cookie")


def test_metrics_are_for_other_machines_with_the_token(shared, home):
    address, _ = shared

    def read(**headers: str) -> int:
        return httpx.get(f"{address}/metrics", headers={"X-Forwarded-For": "192.0.2.1"} | headers).status_code

    assert httpx.get(f"{address}/metrics").status_code == 200
    assert [read(), read(Authorization="Bearer wrong"), read(Authorization=f"Bearer {TOKEN}")] == [403, 403, 200]
    (home / "token").chmod(0o644)
    assert read(Authorization=f"Bearer {TOKEN}") == 403
    (home / "token").chmod(0o600)
