"""The commands `cluster …`: a scheduler, and workers on several machines."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.output import Json, say, write
from engine.cluster import remote_workers
from engine.settings import Settings

cluster_app = typer.Typer(help="Run workers on other machines; see docs/deploy.md.", no_args_is_help=True)


@cluster_app.command()
def key(file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")]) -> None:
    """Create the key of a new cluster. Each machine needs a copy with mode 600."""
    remote_workers.make_key(file)
    say(f"{file} is the key. Anyone with this key can execute code on every worker.")


@cluster_app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address of this machine for the other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = remote_workers.PORT,
    file: Annotated[
        Path | None, typer.Option(help="Write the scheduler's address to this file, for EPSILON_SCHEDULER elsewhere.")
    ] = None,
) -> None:
    """Run the scheduler, which assigns runs to workers, until interrupted."""
    settings = Settings.from_environment()
    _run_until_signal(lambda: remote_workers.schedule(settings, host, port, file, _print))


@cluster_app.command()
def worker(
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. [default: by this machine's cores and memory]")
    ] = None,
) -> None:
    """Compute runs for the scheduler of EPSILON_SCHEDULER until interrupted. Reconnects when it is unavailable."""
    from engine.cluster import dispatcher
    from engine.cluster.worker import environment
    from engine.hardware import processor

    settings = Settings.from_environment()
    count = workers or dispatcher.workers_here(settings)
    cores = max(1, processor().cores // count)
    _run_until_signal(lambda: remote_workers.work(settings, count, environment(cores), _print))


@cluster_app.command()
def show(as_json: Json = False) -> None:
    """List the workers of the scheduler of EPSILON_SCHEDULER."""
    with remote_workers.connect(Settings.from_environment()) as client:
        compatible = remote_workers.members(client)
        workers, tasks = client.scheduler_info()["workers"], client.processing()
    rows = [
        {
            "worker": str(info["name"]),
            "address": address,
            "fits": address in compatible,
            "runs": sum(not task.startswith(remote_workers.WARM) for task in tasks.get(address, ())),
            "doing": remote_workers.doing(tasks.get(address, ())),
        }
        for address, info in sorted(workers.items())
    ]
    lines = [
        f"{row['worker']}  {row['address']}  {row['doing']}"
        if row["fits"]
        else f"{row['worker']}  {row['address']}  gets no runs: it is not {remote_workers.OURS}"
        for row in rows
    ]
    write(as_json, {"workers": rows}, "\n".join(lines) or "No worker is connected yet.")


def _print(message: str) -> None:
    say(message, err=True)


def _run_until_signal(begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine until SIGINT or SIGTERM, which cancel it."""
    import dask

    from engine.cluster.dispatcher import QUIET, SHUT

    dask.config.set(QUIET | SHUT | {"logging.distributed": "error"})  # before it is imported

    async def run() -> None:
        task = asyncio.create_task(begin())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
