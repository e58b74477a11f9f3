"""`cluster`: workers on other machines."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.output import write
from engine.cluster import remote_workers
from engine.settings import Settings

cluster_app = typer.Typer(help="Workers on other machines: docs/deploy.md tells how.", no_args_is_help=True)


@cluster_app.command()
def key(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not be there.")]) -> None:
    """Make the key of a new cluster. Each machine needs a copy, readable by its owner alone."""
    remote_workers.make_key(file)
    typer.echo(f"{file} is the key: whoever has it can have code run on every machine of the cluster.")


@cluster_app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address of this machine that others reach.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = remote_workers.PORT,
    file: Annotated[Path | None, typer.Option(help="Write its address here, for EPSILON_SCHEDULER elsewhere.")] = None,
) -> None:
    """Be the scheduler, which hands runs to workers, until Ctrl-C."""
    settings = Settings.from_environment()
    _until_told(lambda: remote_workers.schedule(settings, host, port, file, _tell))


@cluster_app.command()
def worker(
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: what this machine has]")] = None,
) -> None:
    """Compute runs for the scheduler of EPSILON_SCHEDULER, until Ctrl-C; wait for it where it is away."""
    from engine.cluster import dispatcher
    from engine.cluster.worker import environment
    from engine.hardware import processor

    settings = Settings.from_environment()
    number = workers or dispatcher.workers_here(settings)
    cores = max(1, processor().cores // number)
    _until_told(lambda: remote_workers.work(settings, number, environment(cores), _tell))


@cluster_app.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False) -> None:
    """The workers that the scheduler of EPSILON_SCHEDULER knows."""
    with remote_workers.connect(Settings.from_environment()) as client:
        ours = remote_workers.members(client)
        every, tasks = client.scheduler_info()["workers"], client.processing()
    rows = [
        {
            "worker": str(each["name"]),
            "address": address,
            "fits": address in ours,
            "runs": sum(not task.startswith(remote_workers.WARM) for task in tasks.get(address, ())),
            "doing": remote_workers.doing(tasks.get(address, ())),
        }
        for address, each in sorted(every.items())
    ]
    lines = [
        f"{row['worker']}  {row['address']}  {row['doing']}"
        if row["fits"]
        else f"{row['worker']}  {row['address']}  gets no runs: it is not {remote_workers.OURS}"
        for row in rows
    ]
    write(as_json, {"workers": rows}, "\n".join(lines) or "No worker is there yet.")


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _until_told(begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it until SIGINT or SIGTERM, which end it in order."""
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
