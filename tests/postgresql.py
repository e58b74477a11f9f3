"""A PostgreSQL server for tests: Debian's package, with a temporary data folder and a free port."""

import contextlib
import glob
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

USER, PASSWORD = "epsilon", "not:to/be seen"  # pragma: allowlist secret
"""The password has characters that must be escaped in a URL."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server.

    Args:
        programs: folder of PostgreSQL's programs.
        within: see :func:`running`.
    """

    port: int
    folder: Path
    programs: Path
    host: str = "127.0.0.1"
    within: tuple[str, ...] = ()

    def address(self, database: str) -> str:
        """Return the URL of a database on this server, with the password."""
        from sqlalchemy.engine import URL

        url = URL.create("postgresql", USER, PASSWORD, self.host, self.port, database)
        return url.render_as_string(hide_password=False)

    def fresh(self) -> str:
        """Create an empty database and return its URL."""
        name = f"t{secrets.token_hex(6)}"
        self.say(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def say(self, statement: str) -> None:
        """Execute a statement as the server's owner, on a connection of its own."""
        import psycopg

        with psycopg.connect(
            host=self.host, port=self.port, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start or restart the server and wait until it accepts connections."""
        options = f"-p {self.port} -c listen_addresses={self.host} -c unix_socket_directories='' -c fsync=off"
        _run([*self._control, "-l", str(self.folder / "log"), "-o", options, "start"], self.within)

    def stop(self) -> None:
        """Stop the server if it runs."""
        if (self.folder / "data" / "postmaster.pid").exists():
            _run([*self._control, "-m", "immediate", "stop"])

    def kill(self) -> None:
        """Kill all server processes with SIGKILL; committed data is in the files, which :meth:`start` recovers."""
        first = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]))
        family = [first, *first.children()]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _, left = psutil.wait_procs(family, 30)
        assert left == []
        (self.folder / "data" / "postmaster.pid").unlink()

    @property
    def _control(self) -> list[str]:
        return [str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), "-w"]

    def restart(self) -> None:
        """Restart the server, which closes all connections."""
        _run([*self._control, "-m", "fast", "restart"])


def missing() -> str | None:
    """Return a sentence on a missing requirement of the server, or None."""
    if _programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and not _is_user("postgres"):
        return "PostgreSQL does not run as root, and there is no user postgres to run it as"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "the driver psycopg is not installed (`make setup-tests`)"
    return None


@contextmanager
def running(host: str = "127.0.0.1", within: Sequence[str] = ()) -> Iterator[Server]:
    """Run a server until the block ends, then delete its files.

    Args:
        host: address at which it listens; other hosts than loopback accept all clients with the password.
        within: prefix of a command that runs on the machine with this address.
    """
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="epsilon-postgresql-"))  # other users cannot read pytest's folders
    try:
        password_file = folder / "password"
        password_file.write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, password_file):
                shutil.chown(path, "postgres")
        data = str(folder / "data")
        login = ["-U", USER, "--auth=scram-sha-256", f"--pwfile={password_file}"]
        _run([str(programs / "initdb"), "-D", data, *login, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
        if host != "127.0.0.1":
            _run(["sh", "-c", f"echo 'host all all all scram-sha-256' >> {data}/pg_hba.conf"])
        server = Server(port=_free_port(), folder=folder, programs=programs, host=host, within=tuple(within))
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; Debian has one for each version, outside of PATH."""
    program = shutil.which("initdb")
    folders = [Path(program).resolve().parent] if program else []
    folders += [Path(name) for name in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((path for path in folders if (path / "initdb").is_file() and (path / "pg_ctl").is_file()), None)


def _is_user(name: str) -> bool:
    import pwd

    return any(user.pw_name == name for user in pwd.getpwall())


def _run(command: Sequence[str], within: Sequence[str] = ()) -> None:
    """Run one of PostgreSQL's programs, as user postgres if this process runs as root, which they refuse.

    The output goes to a file, since the server would keep a pipe open as long as it runs.
    """
    as_postgres = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [*within, *as_postgres, *command],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            timeout=120,
        )
        output.seek(0)
        assert done.returncode == 0, f"{command}: {output.read()}"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
