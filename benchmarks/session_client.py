"""Client of a Streamlit session without a browser: HTTP, then Streamlit's messages over a WebSocket.

Like Streamlit's page, it requests the script, requests a fragment at the interval of ``AutoRerun``, reports which large
messages it has cached, opens another page, and sends the new value of a widget. It renders nothing.
"""

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

_INTERRUPTED = ForwardMsg.FINISHED_EARLY_FOR_RERUN


class SessionFailed(Exception):
    """The server closed the connection, or a script did not end in time, as the message states."""


_TLS = httpx.create_ssl_context()
"""One context for all clients: each new one would take 60 ms, in which no other simulated session gets its answer."""


def browser(address: str, patience: float, cookies: httpx.Cookies) -> httpx.AsyncClient:
    """Return a client that keeps cookies as a browser does."""
    return httpx.AsyncClient(base_url=address, timeout=patience, cookies=cookies, verify=_TLS)


class Session:
    """One session at an address of the dashboard, ``http://host:port/page?query``; open inside ``async with``.

    Attributes:
        faults: Errors of the server, and exceptions on the page.
        sliders: Id and options of the present sliders by label.
        buttons: Id and fragment of the enabled buttons by label.
        pages: Addresses of the pages in the navigation.
        redirect: Address to which the page sends the browser, or "".
        polls: Number of automatic requests of fragments.
        received: Number of received bytes.
    """

    def __init__(self, address: str, *, patience: float = 120.0, cookies: httpx.Cookies | None = None) -> None:
        parts = urlsplit(address)
        self._base, self._page, self._query = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"), parts.query
        self._patience = patience
        self.cookies = cookies or httpx.Cookies()
        self.faults: list[str] = []
        self.sliders: dict[str, tuple[str, list[str]]] = {}
        self.buttons: dict[str, tuple[str, str]] = {}
        self.pages: list[str] = []
        self.redirect = ""
        self.polls = self.received = 0
        self._states: dict[str, WidgetState] = {}
        self._kept: dict[str, ForwardMsg] = {}
        self._timers: dict[str, tuple[float, asyncio.Task[None]]] = {}
        self._script, self._whole_begun = "", False
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Load the first page and run its script once. Raises SessionFailed."""
        async with browser(self._base, self._patience, self.cookies) as client:
            for path in (f"/{self._page}", "/_stcore/health", "/_stcore/host-config"):
                if (answer := await client.get(path)).status_code != 200:
                    self.faults.append(f"{answer.status_code} {path}")
            self.cookies = client.cookies
            cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        # The server reads the cookie of a signed-in user only with this token.
        token = self.cookies.get("_streamlit_xsrf")
        url = self._base.replace("http", "ws", 1) + "/_stcore/stream"
        headers = {"Cookie": cookies} if cookies else {}
        self._socket: ClientConnection = await connect(
            url,
            origin=self._base,  # type: ignore[arg-type]
            subprotocols=["streamlit", *([token] if token else [])],  # type: ignore[list-item]
            additional_headers=headers,
            max_size=None,
            open_timeout=self._patience,
            ping_interval=None,
        )
        self._reader = asyncio.create_task(self._listen())
        try:
            await self._run_whole()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await self._close()

    async def slide(self, label: str, value: str) -> float:
        """Set a select slider, wait until the script has ended, and return the seconds.

        Args:
            label: Label of the slider.
            value: One of its options.

        Raises:
            SessionFailed: If the script does not end in time.
            KeyError: If the page has no such slider.
        """
        identity, _ = self.sliders[label]
        state = WidgetState(id=identity)
        state.string_array_value.data.append(value)
        self._states[identity] = state
        return await self._run_whole()

    async def press(self, label: str) -> float:
        """Press a button, wait until the script or the button's fragment has ended, and return the seconds.

        Raises SessionFailed, or KeyError if the page has no such button.
        """
        identity, fragment = self.buttons[label]
        self._states[identity] = WidgetState(id=identity, trigger_value=True)
        try:
            return await self._run_whole(fragment)
        finally:
            del self._states[identity]

    async def visit(self, page: str) -> float:
        """Open another page of the navigation, wait until its script has ended, and return the seconds."""
        self._page, self._query, self._script = page.strip("/"), "", ""
        self._states.clear()
        self.sliders.clear()
        self.buttons.clear()
        return await self._run_whole()

    async def _run_whole(self, fragment: str = "") -> float:
        begun = time.perf_counter()
        self._ended.clear()
        self._whole_begun = bool(fragment)
        await self._ask(fragment)
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait({ended, self._reader}, timeout=self._patience, return_when="FIRST_COMPLETED")
        took = time.perf_counter() - begun
        if not self._ended.is_set():
            ended.cancel()
            reason = "the connection was closed" if self._reader.done() else f"no end after {self._patience:g} s"
            raise SessionFailed(f"The script of /{self._page}?{self._query}: {reason}.")
        return took

    async def _ask(self, fragment: str = "", *, is_poll: bool = False) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string, rerun.page_name, rerun.page_script_hash = self._query, self._page, self._script
        rerun.widget_states.CopyFrom(WidgetStates(widgets=self._states.values()))
        rerun.cached_message_hashes.extend(self._kept)
        rerun.fragment_id, rerun.is_auto_rerun = fragment, is_poll
        await self._socket.send(message.SerializeToString())

    async def _listen(self) -> None:
        with suppress(ConnectionClosed):
            async for payload in self._socket:
                self.received += len(payload)
                self._take(ForwardMsg.FromString(payload))

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self._kept[message.hash] = message
        if kind == "new_session":
            self._script = message.new_session.page_script_hash
            if not message.metadata.run.fragment_ids:
                self._whole_begun = True
                self._stop(*self._timers)
        elif kind == "auto_rerun":
            self._repeat(message.auto_rerun.fragment_id, message.auto_rerun.interval)
        elif kind == "stop_auto_rerun":
            self._stop(*message.stop_auto_rerun.fragment_ids)
        elif kind == "script_finished":
            # If a poll follows immediately, the server reports the end of the poll only.
            if message.script_finished != _INTERRUPTED and self._whole_begun:
                self._ended.set()
        else:
            self._read(kind, message)

    def _read(self, kind: str | None, message: ForwardMsg) -> None:
        if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._see(message.delta.new_element, message.delta.fragment_id)
        elif kind == "navigation":
            self.pages = [page.url_pathname for page in message.navigation.app_pages if not page.is_hidden]
        elif kind == "auth_redirect":
            self.redirect = message.auth_redirect.url
        elif kind == "page_info_changed":
            self._query = message.page_info_changed.query_string
        elif kind == "page_not_found":
            self.faults.append(f"page not found: /{self._page}")
        elif kind == "session_event" and message.session_event.HasField("script_compilation_exception"):
            self.faults.append(message.session_event.script_compilation_exception.message)

    def _see(self, element: Any, fragment: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.faults.append(f"{element.exception.type}: {element.exception.message}")
        elif kind == "slider" and element.slider.options:
            self.sliders[element.slider.label] = (element.slider.id, list(element.slider.options))
        elif kind == "button" and not element.button.disabled:
            self.buttons[element.button.label] = (element.button.id, fragment)

    def _repeat(self, fragment: str, interval: float) -> None:
        if fragment in self._timers and self._timers[fragment][0] == interval:
            return
        self._stop(fragment)
        self._timers[fragment] = (interval, asyncio.create_task(self._poll(fragment, interval)))

    async def _poll(self, fragment: str, interval: float) -> None:
        with suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(interval)
                self.polls += 1
                await self._ask(fragment, is_poll=True)

    def _stop(self, *fragments: str) -> None:
        for fragment in list(fragments):
            if fragment in self._timers:
                self._timers.pop(fragment)[1].cancel()

    async def _close(self) -> None:
        self._stop(*self._timers)
        await self._socket.close()
        await self._reader
