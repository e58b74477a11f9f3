"""A PostgreSQL server for the tests: Debian's package, in a folder of its own, on a free port of this machine."""

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
"""The password has signs that an address must write in another way."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that runs. programs: the folder of PostgreSQL's programs. within: see :func:`running`."""

    port: int
    folder: Path
    programs: Path
    host: str = "127.0.0.1"
    within: tuple[str, ...] = ()

    def address(self, database: str) -> str:
        """Of a database on this server, with the password."""
        from sqlalchemy.engine import URL

        whole = URL.create("postgresql", USER, PASSWORD, self.host, self.port, database)
        return whole.render_as_string(hide_password=False)

    def fresh(self) -> str:
        """The address of a new and empty database."""
        name = f"t{secrets.token_hex(6)}"
        self.say(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def say(self, statement: str) -> None:
        """A statement of the server's owner, outside of any test's connections."""
        import psycopg

        with psycopg.connect(
            host=self.host, port=self.port, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses={self.host} -c unix_socket_directories='' -c fsync=off"
        _run([*self._control, "-l", str(self.folder / "log"), "-o", options, "start"], self.within)

    def stop(self) -> None:
        """Stop it where it runs."""
        if (self.folder / "data" / "postmaster.pid").exists():
            _run([*self._control, "-m", "immediate", "stop"])

    def kill(self) -> None:
        """kill -9 of all of its processes: what was committed is in its files, and :meth:`start` mends them."""
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
        """Stop the server, which ends all connections, and start it again."""
        _run([*self._control, "-m", "fast", "restart"])


def missing() -> str | None:
    """What is not here that a server needs, None if all is."""
    if _programs() is None:
        return "no PostgreSQL server is here (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and not _is_user("postgres"):
        return "PostgreSQL does not run as root, and there is no user postgres to run it as"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "the driver psycopg is not installed (`make setup-tests`)"
    return None


@contextmanager
def running(host: str = "127.0.0.1", within: Sequence[str] = ()) -> Iterator[Server]:
    """A server until the block ends, and nothing of it after that. host: the address at which it listens, for all who
    have the password. within: what a command begins with that is to run where this address is."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="epsilon-postgresql-"))  # pytest's own folders are closed to other users
    try:
        given = folder / "password"
        given.write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, given):
                shutil.chown(path, "postgres")
        data = str(folder / "data")
        who = ["-U", USER, "--auth=scram-sha-256", f"--pwfile={given}"]
        _run([str(programs / "initdb"), "-D", data, *who, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
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
    """Debian keeps them outside of PATH, a folder for each version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += [Path(each) for each in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((each for each in folders if (each / "initdb").is_file() and (each / "pg_ctl").is_file()), None)


def _is_user(name: str) -> bool:
    import pwd

    return any(each.pw_name == name for each in pwd.getpwall())


def _run(command: Sequence[str], within: Sequence[str] = ()) -> None:
    """Run one of PostgreSQL's programs, which refuse root. What the server says goes to its log: a pipe would stay open
    as long as it lives."""
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [*within, *other, *command],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
            timeout=120,
        )
        said.seek(0)
        assert done.returncode == 0, f"{command}: {said.read()}"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
