"""The gate in front of Streamlit: it limits connections, and only users send and get files.

Streamlit opens a session for each connection and keeps each uploaded file in memory, before anyone signs in and without
a limit of the total. It gives a file that a page made to anyone who has the address. See :mod:`pages.shared.visits` and
:mod:`pages.shared.uploads` for the limits.
"""

import asyncio
import gc
import logging
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine import memory
from engine.corpus.text_decoding import MAX_BYTES
from pages.shared import uploads, visits
from pages.shared.uploads import UploadRefused, Uploads
from pages.shared.visits import Visits

TRY_AGAIN = 1013
"""Code of a WebSocket that is closed since there are too many (IANA registry of close codes)."""
AT_ONCE = 4
"""Files that the server receives at once, each from another browser; others wait."""
MOST_SECONDS = 300.0
"""Seconds in which a file must arrive."""
MOST_WAITING = 20
"""Files that wait to be received."""
FORGOTTEN_AFTER, COLLECT_SECONDS = 45.0, 15.0
"""Seconds after the last connection of a browser until its files are deleted, and then until the memory of its sessions
is freed."""
_UPLOAD = re.compile(r"/_stcore/upload_file/[^/]+/(?P<file_id>[^/]+)$")
_MARGIN = 10_000
"""Bytes of an upload that are not of the file: names, types and borders."""
_DOWNLOAD = re.compile(r"(?<!/static)/media/[^/]+$")
"""Address of a file that a page made for a user. Streamlit derives it from the content, and gives it to anyone."""
_log = logging.getLogger(__name__)


class Gate:
    """Middleware that applies the limits."""

    def __init__(self, app: ASGIApp, known: Visits | None = None, files: Uploads | None = None) -> None:
        self._app = app
        self._visits = known or visits.of_this_server()
        self._uploads = files or uploads.of_this_server()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[str, asyncio.Semaphore] = {}  # of each browser that sends a file
        self._waiting = 0
        self._collection: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
            return
        upload = _UPLOAD.search(scope["path"]) if scope["type"] == "http" else None
        if upload and scope["method"] == "PUT":
            await self._receive_file(upload["file_id"], scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"].endswith("/_stcore/metrics"):
            await PlainTextResponse("Not found", 404)(scope, receive, send)  # /metrics has ours
            return
        if scope["type"] == "http" and _DOWNLOAD.search(scope["path"]) and self._visits.user(_visit(scope)) is None:
            await PlainTextResponse("Only users who are signed in can download files.", 403)(scope, receive, send)
            return
        if upload and scope["method"] == "DELETE":
            self._uploads.drop(file_id=upload["file_id"])
        await self._app(scope, receive, _with_cookie(scope, send))

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket until it is closed, here or by the browser."""
        visit, address = _visit(scope), _address(scope)
        wait = self._visits.wait(visit, address)
        if wait is None:
            _log.warning("Too many connections of users who are not signed in; one from %s was refused.", address)
            await send({"type": "websocket.close", "code": TRY_AGAIN})
            return
        await asyncio.sleep(wait)
        serving = asyncio.ensure_future(self._app(scope, receive, send))
        connection = self._visits.connect(visit, address, serving.cancel)
        try:
            await serving
        except asyncio.CancelledError:
            if not connection.ended:  # the server stops
                raise
            _log.warning("Too many connections; the oldest one from %s was closed.", address)
            with suppress(Exception):  # the browser may have left
                await send({"type": "websocket.close", "code": TRY_AGAIN})
        finally:
            self._visits.disconnect(connection)
            self._forget_later(visit)

    def _forget_later(self, visit: str) -> None:
        """Free what a browser without connections holds, after a while: it may only reconnect."""
        loop = asyncio.get_running_loop()
        loop.call_later(FORGOTTEN_AFTER, self._forget, visit)

    def _forget(self, visit: str) -> None:
        if not self._visits.is_open(visit):
            self._uploads.drop(visit=visit)
            self._turns.pop(visit, None)
        if self._collection is None:  # once for all connections that end meanwhile: it takes tenths of a second
            self._collection = asyncio.get_running_loop().call_later(COLLECT_SECONDS, self._collect)

    def _collect(self) -> None:
        # Streamlit's sessions are cycles of objects. They stay until a collection of all, which is rare by itself.
        self._collection = None
        gc.collect()
        memory.return_freed()

    async def _receive_file(self, file_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Write a file to disk, and give Streamlit a reference to it."""
        try:
            form, boundary = await self._received(file_id, Request(scope, receive))
        except HTTPException as error:
            await PlainTextResponse(error.detail, error.status_code)(scope, receive, send)
            return
        stored = False

        async def send_noted(message: Message) -> None:
            nonlocal stored
            stored = stored or message.get("status") == 204
            await send(message)

        try:
            await self._app(_replaced(scope, form, boundary), _sending(form), send_noted)
        finally:
            if stored:
                asyncio.get_running_loop().call_later(uploads.KEPT_SECONDS + 1, self._uploads.clean)
            else:
                self._uploads.drop(file_id=file_id)

    async def _received(self, file_id: str, request: Request) -> tuple[bytes, str]:
        """Write the file of a request to disk, in its turn; see :meth:`_written`. Raises HTTPException."""
        visit, length = _visit(request.scope), request.headers.get("content-length", "")
        self._user(visit)
        if not length.isdigit() or "transfer-encoding" in request.headers:  # which would overrule the length
            raise HTTPException(411, "The length of the file is missing.")
        if int(length) > MAX_BYTES + _MARGIN:
            raise HTTPException(413, f"The file is larger than {MAX_BYTES / 1e6:.0f} MB.")
        if self._waiting >= MOST_WAITING:
            raise HTTPException(503, "Too many files are uploaded now; try again later.")
        self._waiting += 1
        own_turn = self._turns.setdefault(visit, asyncio.Semaphore())
        try:
            async with own_turn, self._turn, asyncio.timeout(MOST_SECONDS):
                return await self._written(request, file_id, visit, int(length))
        except UploadRefused as error:
            raise HTTPException(413, f"The file was refused: {error}.") from error
        except TimeoutError as error:
            raise HTTPException(408, f"The file took more than {MOST_SECONDS:.0f} s.") from error
        except OSError as error:
            raise HTTPException(507, f"The file could not be stored: {error.strerror}.") from error
        finally:
            self._waiting -= 1

    def _user(self, visit: str) -> str:
        """Return the user of a browser. Raises HTTPException if the user may not upload."""
        user = self._visits.user(visit)
        if user is None or not self._visits.may_upload(visit):
            raise HTTPException(403, "Only users who may start runs can upload files.")
        return user

    async def _written(self, request: Request, file_id: str, visit: str, size: int) -> tuple[bytes, str]:
        """Write the file of a request to disk; return a form that contains its reference instead, and its boundary."""
        reference = self._uploads.reserve(file_id, visit, self._user(visit), size)  # the user may have signed out
        try:
            async with request.form(max_files=1, max_fields=1) as form:
                (file,) = (each for each in form.values() if isinstance(each, UploadFile))
                path = self._uploads.path(reference)
                await run_in_threadpool(_copy, file, path)
                boundary = secrets.token_hex(16)
                name = (file.filename or "").translate({ord('"'): "%22", 10: " ", 13: " "})
                head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                kind = "Content-Type: application/octet-stream\r\n\r\n"
                return f"{head}{kind}{reference}\r\n--{boundary}--\r\n".encode(), boundary
        except (MultiPartException, HTTPException, ValueError, KeyError) as error:
            self._uploads.drop(reference=reference)
            raise HTTPException(400, "Expected a form with one file.") from error
        except BaseException:  # the browser left, or the disk is full
            self._uploads.drop(reference=reference)
            raise


def _copy(file: UploadFile, path: Path) -> None:
    """Write an uploaded file to a new file of its owner."""
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
        shutil.copyfileobj(file.file, target)


def _replaced(scope: Scope, body: bytes, boundary: str) -> Scope:
    """Return the request with another body."""
    changed = {**scope, "headers": list(scope["headers"])}
    headers = MutableHeaders(scope=changed)
    headers["content-length"] = str(len(body))
    headers["content-type"] = f"multipart/form-data; boundary={boundary}"
    return changed


def _sending(body: bytes) -> Receive:
    """Return what gives this body to an application."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _visit(scope: Scope) -> str:
    return HTTPConnection(scope).cookies.get(visits.COOKIE, "")


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _with_cookie(scope: Scope, send: Send) -> Send:
    """Return a function that sends a response, with a new cookie if the browser opens a page and has none.

    Behind TLS, all cookies of the response, also those of the sign-in, are for TLS only.
    """
    if scope["type"] != "http":
        return send
    scheme = HTTPConnection(scope).headers.get("x-forwarded-proto", scope.get("scheme", ""))
    secure = scheme.partition(",")[0].strip().lower() == "https"  # the first one is that of the browser
    new = scope["method"] == "GET" and not _visit(scope)

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            # The browser may have the page in its cache. It then asks whether the server is ready, and connects.
            first = headers.get("content-type", "").startswith("text/html") or scope["path"].endswith("/_stcore/health")
            if new and first:
                cookie = f"{visits.COOKIE}={secrets.token_urlsafe(24)}; Path=/; HttpOnly; SameSite=Lax"
                headers.append("set-cookie", cookie)
            if secure:
                message["headers"] = [(name, _secured(name, value)) for name, value in message["headers"]]
        await send(message)

    return send_with_cookie


def _secured(name: bytes, value: bytes) -> bytes:
    """Return the value of a header; cookies get the attribute Secure."""
    cookie = name.lower() == b"set-cookie" and b"; secure" not in value.lower()
    return value + b"; Secure" if cookie else value
