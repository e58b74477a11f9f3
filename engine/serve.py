"""Entry point of `make run`: start and stop the dashboard server, the worker cluster and the background set-up.

The server is another process (this package does not import streamlit). A server or cluster that ends unexpectedly is
started again. SIGINT, SIGTERM and SIGHUP end all three in order. After SIGKILL, the server sees that its pipe from this
process is closed and ends. The cluster notices that its owner is gone and ends, and set-up ends when it is done.
"""

import argparse
import errno
import ipaddress
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from socket import SOCK_STREAM

from engine import file_access, launcher_pipe, setup_status
from engine.access import roles
from engine.errors import EpsilonError, InvalidConfig
from engine.launcher_pipe import GRACE
from engine.settings import REPOSITORY, Settings
from engine.setup.progress import say

SERVER = "pages/startup/server.py"
"""File in which Streamlit finds the application."""

SET_UP = [sys.executable, "-m", "engine.setup.background_install"]
"""Command of the background installation."""

HERE = "localhost"
"""Address that other machines cannot reach."""

MEMORY = {"MALLOC_ARENA_MAX": "2"}
"""Limits glibc to two heaps: with one for each session's thread, freed memory could not be reused by other threads."""

POLL = 0.1
"""Seconds between two checks of another process while it is waited for."""

CHECK = 1.0
"""Seconds between two checks of the cluster, and of the parent process."""

RETENTION = [sys.executable, "-m", "engine", "retention", "--delete"]
"""Command that deletes what is older than EPSILON_RETENTION_DAYS."""

FIRST_RETENTION, RETENTION_PAUSE = 60.0, 86_400.0
"""Seconds until the first deletion, which does not delay the first page, and from one to the next."""

LONGEST_PAUSE = 60.0
"""Most seconds before another attempt to start a process that failed or ended soon."""

SHORT_LIFE = 10.0
"""A process that ends sooner, in seconds, may be unable to work. It is started again after a pause only, and a server
not at all, unless a signal ended it."""


def main() -> int:
    """Serve until a signal arrives or the server ends; return the exit code, 0 after a signal."""
    argparse.ArgumentParser(
        prog="python -m engine.serve",
        description="Start the dashboard. Environment variables configure it (docs/deploy.md); PORT sets its port.",
    ).parse_args()
    signals: list[int] = []  # signals received; a handler must not touch locks, so no threading.Event here
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # started by nohup: continues after the terminal closes
        signal.signal(number, lambda received, _frame: signals.append(received))
    try:
        settings = Settings.from_environment()
        command = server_command(os.environ, settings.access)
        check_port(os.environ)
        if settings.metrics_token:
            file_access.read_secret("EPSILON_METRICS_TOKEN_FILE", settings.metrics_token)
    except InvalidConfig as error:
        say(str(error))
        return 2
    umask = file_access.protect_process()
    if problem := file_access.correct(settings.home):
        say(problem)
    if settings.shared:
        say(f"The files that runs share can be read by {settings.artefacts.readers}.")
    parent = Parent()
    wakeups = Wakeups()
    background = start_set_up(umask)
    server = Server(command)
    stopping = threading.Event()
    cluster = threading.Thread(target=keep_cluster, args=(settings, stopping), daemon=True)
    cluster.start()
    if settings.retention_days:
        threading.Thread(target=keep_retention, args=(stopping,), daemon=True).start()
    code = None
    try:
        while code is None and not signals and not parent.is_stopping():
            code = server.keep()
            if background:
                background.poll()  # reaps the process once it has ended
            wakeups.wait(CHECK)
        return code or 0
    finally:
        stopping.set()
        for process in (server.process, background):
            if process:
                stop(process)
        stop_cluster(settings, cluster)


class Server:
    """The process that serves pages; it ends when this process does.

    Attributes:
        process: The process.
    """

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._pipe, self._writer = os.pipe()  # no other process has the writing end, so it closes with this process
        self._pause = 0.0
        self._start()

    def _start(self) -> None:
        # Local only by default. To serve other machines, operators set STREAMLIT_SERVER_ADDRESS, and the users in
        # EPSILON_ACCESS_FILE.
        environment = {
            "STREAMLIT_SERVER_ADDRESS": HERE,
            **MEMORY,
            **os.environ,
            launcher_pipe.VARIABLE: str(self._pipe),
        }
        self.process = subprocess.Popen(self._command, cwd=REPOSITORY, env=environment, pass_fds=(self._pipe,))
        self._began = time.monotonic()
        self._ended: float | None = None

    def keep(self) -> int | None:
        """Start the process again if it has ended; return its exit code if it ended so soon that it cannot work.

        A process that a signal ended so soon is started again after a pause: the system may have had too little memory.
        """
        code = self.process.poll()
        if code is None:
            return None
        now = time.monotonic()
        if self._ended is None:
            self._ended = now
            if now - self._began >= SHORT_LIFE:
                self._pause = 0.0
            elif code >= 0:
                return code
            else:
                self._pause = min(max(CHECK, 2 * self._pause), LONGEST_PAUSE)
            say(f"The dashboard's server ended unexpectedly with code {code}. It is started again.")
        if now - self._ended >= self._pause:
            self._start()
        return None


class Wakeups:
    """Lets the main thread wait until a signal arrives. The end of a child process is a signal too, SIGCHLD."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # without a handler it would not wake

    def wait(self, seconds: float) -> None:
        """Wait until a signal arrives, or has arrived since the last wait, for at most ``seconds``."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)


def server_command(environment: os._Environ[str] | dict[str, str], access: Path | None = None) -> list[str]:
    """Return the command that starts the server.

    The variable PORT sets its port; without it, the port is 8501 or the next free one. Streamlit opens a browser if
    there is a display. In CI it must not, and it must never stop to ask for an e-mail address.

    Args:
        environment: Environment variables.
        access: File with the roles of users (EPSILON_ACCESS_FILE), or None for no sign-in.

    Raises:
        InvalidConfig: If the port is not valid, or other machines could reach a dashboard without sign-in.
    """
    if access:
        roles.read(access)
    elif not _is_loopback(address := environment.get("STREAMLIT_SERVER_ADDRESS", HERE)):
        raise InvalidConfig(
            f"STREAMLIT_SERVER_ADDRESS={address} without EPSILON_ACCESS_FILE: anyone who can reach the "
            "dashboard would have full access; docs/deploy.md describes sign-in"
        )
    command = [sys.executable, "-m", "streamlit", "run", SERVER, "--server.showEmailPrompt", "false"]
    if _is_every_address(environment.get("STREAMLIT_SERVER_ADDRESS", HERE)):
        # Otherwise Streamlit asks another company's server for this machine's external address, only to print it.
        command += ["--browser.serverAddress", environment.get("STREAMLIT_BROWSER_SERVER_ADDRESS", HERE)]
    if access or environment.get("CI"):
        # No browser on this machine. Visitors of a proxy cannot install files of Streamlit's into this folder either.
        command += ["--server.headless", "true"]
    if access:
        command += ["--secrets.files", str(access)]
    port = environment.get("PORT")
    if port:
        if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise InvalidConfig(f"PORT={port}, expected a number from 1 to 65535")
        command += ["--server.port", port]
    return command


def check_port(environment: os._Environ[str] | dict[str, str]) -> None:
    """Raise InvalidConfig if the server could not open the port that the variable PORT sets."""
    if not (port := environment.get("PORT")):
        return
    try:
        places = socket.getaddrinfo(environment.get("STREAMLIT_SERVER_ADDRESS", HERE) or None, port, type=SOCK_STREAM)
        for family, _, _, _, place in places[:1]:
            with socket.socket(family, SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
                probe.bind(place)
    except OSError as error:  # the server reports others
        if error.errno == errno.EADDRINUSE:
            raise InvalidConfig(
                f"PORT={port} is in use: stop the program that uses it, or choose another port"
            ) from None
        if error.errno == errno.EACCES:
            raise InvalidConfig(f"PORT={port} is not allowed for this user: choose a port above 1023") from None


def _is_every_address(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _is_loopback(address: str) -> bool:
    try:
        return address == HERE or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def start_set_up(umask: int) -> subprocess.Popen[bytes] | None:
    """Start the installation of missing parts in the background, if any; return its process.

    On return the process holds the installation lock, so that pages and runs wait for it.

    Args:
        umask: The umask of the installed files, which are not the user's data.
    """
    progress = setup_status.look()
    if progress is None or not progress.left:
        return None
    say(
        "Dashboard ready with published results; installing the remaining components in the background: "
        f"{', '.join(progress.left)}."
    )
    process = subprocess.Popen(SET_UP, cwd=REPOSITORY, umask=umask)
    while process.poll() is None and (progress := setup_status.look()) and not progress.under_way:
        time.sleep(POLL / 10)
    return process


def keep_cluster(settings: Settings, stopping: threading.Event) -> None:
    """Start the workers now, so that the first run finds them warm, and again whenever the cluster has ended.

    Args:
        settings: The settings.
        stopping: Ends this function.
    """
    from engine.cluster import supervisor  # imported only after the server's start, which it would delay

    files, problem, began, pause = supervisor.ClusterFiles(settings), "", 0.0, CHECK
    while not stopping.is_set():
        if not began or files.process() is None:  # at first, to become an owner of a cluster that is there already
            if began:
                pause = CHECK if time.monotonic() - began > SHORT_LIFE else min(2 * pause, LONGEST_PAUSE)
                say(f"The cluster of workers ended unexpectedly. It is started again. Its last log: {files.older_log}.")
            try:
                supervisor.ensure_cluster(settings, os.getpid())
                problem, began = "", time.monotonic()
            except EpsilonError as error:
                began, pause = 0.0, LONGEST_PAUSE
                if str(error) != problem:
                    problem = str(error)
                    say(f"{error} Published results are available. The workers are started again every minute.")
        stopping.wait(pause)


def keep_retention(stopping: threading.Event) -> None:
    """Delete once a day what is older than EPSILON_RETENTION_DAYS; it prints what it deletes, and its errors.

    Args:
        stopping: Ends this function, and a deletion between two runs or corpora.
    """
    stopping.wait(FIRST_RETENTION)
    while not stopping.is_set():
        process = subprocess.Popen(RETENTION, cwd=REPOSITORY)
        while process.poll() is None and not stopping.wait(POLL):
            pass
        stop(process)
        stopping.wait(RETENTION_PAUSE)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it after ``GRACE`` seconds. Do nothing if it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_cluster(settings: Settings, starting: threading.Thread) -> None:
    """Stop the cluster and its workers, even while they are starting."""
    from engine.cluster import supervisor

    starting.join(GRACE)
    try:
        supervisor.stop_cluster(settings, os.getpid())
    except EpsilonError as error:
        say(str(error))


class Parent:
    """The make process that started this one, if any.

    If make alone receives SIGINT (``kill -INT``, an editor's stop button), it does not forward it but waits for its
    recipe to end. The only sign is that make no longer catches SIGINT, which Linux shows in /proc. On other systems
    only the end of make is detected.
    """

    def __init__(self) -> None:
        self._pid = os.getppid() if "MAKELEVEL" in os.environ else None
        self._caught_interrupt = self._catches_interrupt()

    def is_stopping(self) -> bool:
        """Return whether make was interrupted or ended since this object was made."""
        if self._pid is None:
            return False
        return os.getppid() != self._pid or (self._caught_interrupt and not self._catches_interrupt())

    def _catches_interrupt(self) -> bool:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
        except OSError:
            return False
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)


if __name__ == "__main__":
    sys.exit(main())
