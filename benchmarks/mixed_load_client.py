"""Simulated users of :mod:`benchmarks.mixed_load`, in a process that imports nothing of the product.

``python -m benchmarks.mixed_load_client ADDRESS --sessions N --seconds N`` prints the measurements as JSON.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import defaultdict

import httpx

from benchmarks.session_client import Session, browser

READS_SECONDS = 30.0
"""Mean seconds for which a session reads a page."""
MOVES_SECONDS = 10.0
"""Mean seconds between two moves of a slider."""
ARRIVE_SECONDS = 60.0
"""Seconds in which all sessions sign in, at most a quarter of the measured time."""
RUN = "explore?corpus=synthetic&data_fraction=0.05&epochs=2&seed={seed}"
"""Address of a short run."""
SHARE_MOVE, SHARE_RUN = 0.2, 0.05
"""Shares of the sessions that move sliders, and that start runs."""


async def sign_in(address: str, name: str, patience: float) -> httpx.Cookies:
    """Sign a user in as a browser does, and return the cookies of this browser."""
    async with Session(address, patience=patience) as session:
        await session.press("Sign in")
        target, cookies = session.redirect, session.cookies
    async with browser(address, patience, cookies) as client:
        asked = await client.get(target)  # leads to the page of the identity provider
        asked = await client.get(httpx.URL(asked.headers["location"]).copy_merge_params({"who": name}))
        await client.get(asked.headers["location"])
        return client.cookies


class Load:
    """Simulated users; the seconds of their answers are in ``took``, by page or action.

    Args:
        address: Address of the dashboard.
        seconds: Duration of the measurement.
        patience: Seconds after which an answer counts as an error.
    """

    def __init__(self, address: str, seconds: float, patience: float = 60.0) -> None:
        self.address, self.patience = address, patience
        self.end, self.arrive = time.monotonic() + seconds, min(ARRIVE_SECONDS, seconds / 4)
        self.took: dict[str, list[float]] = defaultdict(list)
        self.faults: list[str] = []

    async def all(self, sessions: int) -> None:
        """Run all sessions."""
        for number, error in enumerate(
            await asyncio.gather(*(self._user(number, sessions) for number in range(sessions)), return_exceptions=True)
        ):
            if error:
                self.faults.append(f"session {number}: {type(error).__name__}: {error}")

    async def _user(self, number: int, sessions: int) -> None:
        draws = random.Random(number)
        await asyncio.sleep(self.arrive * number / sessions)
        begun = time.perf_counter()
        cookies = await sign_in(self.address, f"user {number}", self.patience)
        self.took["sign in"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        # A seed of its own: the dashboard may have runs of another client's sessions.
        path = RUN.format(seed=int(time.time())) if number < SHARE_RUN * sessions else "explore"
        async with Session(f"{self.address}/{path}", patience=self.patience, cookies=cookies) as session:
            self.took["first page"].append(time.perf_counter() - begun)
            if number < SHARE_RUN * sessions:
                await self._run(session)
            elif number < (SHARE_RUN + SHARE_MOVE) * sessions:
                await self._move(session, draws)
            else:
                await self._read(session, draws)
        self.faults += session.faults

    async def _run(self, session: Session) -> None:
        seconds = await session.press("Run")
        self.took["start a run"].append(seconds)
        await asyncio.sleep(max(0.0, self.end - time.monotonic()))

    async def _move(self, session: Session, draws: random.Random) -> None:
        while await self._pause(draws, MOVES_SECONDS):
            label = draws.choice(sorted(session.sliders))
            seconds = await session.slide(label, draws.choice(session.sliders[label][1]))
            self.took["move a slider"].append(seconds)

    async def _read(self, session: Session, draws: random.Random) -> None:
        pages = [page for page in session.pages if page != "account"]
        while await self._pause(draws, READS_SECONDS):
            page = draws.choice(pages)
            seconds = await session.visit(page)
            self.took[page or "home"].append(seconds)

    async def _pause(self, draws: random.Random, mean: float) -> bool:
        """Wait for a random time; return whether the session goes on."""
        wait = draws.expovariate(1 / mean)
        left = self.end - time.monotonic()
        await asyncio.sleep(min(wait, max(0.0, left)))
        return wait < left


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    load = Load(options.address, options.seconds)
    asyncio.run(load.all(options.sessions))
    json.dump({"took": load.took, "faults": load.faults}, sys.stdout)


if __name__ == "__main__":
    main()
