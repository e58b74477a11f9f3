"""Downloads from a local server, with and without faults."""

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine import corpus
from engine.corpus import files, loader
from engine.corpus.catalogue import ENTRIES, NAMED, CorpusFile
from engine.corpus.download import fetch_entry
from engine.errors import CorpusError

DATA = "\n".join(f"word{i} O\nName{i} B-PER\n" for i in range(500)).encode()


@pytest.fixture
def server():
    """Return a server of DATA under paths that begin with ``good``; other paths produce faults."""

    class Handler(BaseHTTPRequestHandler):
        requests = 0

        def do_GET(self) -> None:
            Handler.requests += 1
            behaviour = self.path.strip("/").split("/")[0]
            if behaviour == "missing":
                self.send_error(404)
                return
            body = {"wrong": DATA.replace(b"PER", b"LOC"), "endless": DATA * 50}.get(behaviour, DATA)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if behaviour == "cut" else body)

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    httpd.handler = Handler  # type: ignore[attr-defined]
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def entry_at(server, behaviour: str):
    file = CorpusFile(name="a.conll", size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest(), part="whole")
    base = f"http://127.0.0.1:{server.server_port}/{behaviour}/"
    return replace(NAMED["wikigold"], name="toy", base=base, files=(file,))


def test_a_corpus_is_downloaded_once(server, settings):
    shares: list[float] = []
    entry = entry_at(server, "good")
    folder = fetch_entry(entry, settings, shares.append)
    assert (folder / "a.conll").read_bytes() == DATA
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    fetch_entry(entry, settings)
    assert server.handler.requests == 1
    located = files.find_named(entry, settings)
    assert located is not None
    assert located.where == "fetched"
    assert len(loader.read(located).train) == 400


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [("wrong", "wrong SHA-256"), ("cut", "cut"), ("missing", "404"), ("endless", "longer than")],
)
def test_download_with_wrong_content_is_discarded(server, settings, behaviour, message):
    with pytest.raises(CorpusError, match=message):
        fetch_entry(entry_at(server, behaviour), settings)
    assert [path for path in settings.home.rglob("*") if path.is_file()] == []


def test_connection_failure_raises_corpus_error(server, settings):
    entry = entry_at(server, "good")
    server.shutdown()
    server.server_close()
    with pytest.raises(CorpusError, match="no connection"):
        fetch_entry(entry, settings)


def test_restricted_corpus_is_not_downloaded(settings):
    with pytest.raises(CorpusError, match="licence forbids"):
        corpus.fetch("conll2003", settings)
    with pytest.raises(CorpusError, match="wnut17, btc, wikigold"):
        corpus.fetch("nowhere", settings)


def test_sources_are_pinned():
    for entry in ENTRIES:
        assert all(len(file.sha256) == 64 for file in entry.files)
        if entry.base:
            assert entry.base.startswith("https://raw.githubusercontent.com/")
            commit = entry.base.split("/")[5]
            assert len(commit) == 40
