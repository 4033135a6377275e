"""Dynamic batches: inputs of different requests are computed together, and each request gets its own answers.

One thread computes, so that the event loop never waits. While it computes, requests gather; the next batch takes them,
the oldest first and a share of each, so that a long list does not hold up a single line. Inputs can share a batch if
their run and their search are the same. An answer never depends on the other inputs of its batch.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weft.core.pair import Pair
from weft.predict.engines import Detail
from weft.predict.predictions import Prediction
from weft.search.clock import Abandoned, abandoned_if
from weft.search.decode import SearchPlan
from weft.serve.errors import Problem, busy, unavailable
from weft.serve.metrics import Metrics
from weft.serve.served import Served
from weft.serve.settings import Serve

log = logging.getLogger("weft.serve")
LONGEST_SHARE = 0.25  # of the time of a batch that the next one waits for further requests at most
QUIET_SHARE = 0.05  # of it without a further request, after which the next one waits no longer: clients that have
# just been answered need some milliseconds to ask again, and a batch of the first of them alone would be wasteful
LONGEST_WAIT = 60  # seconds that a client is told to wait at most
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """The prediction for an input and, where it was asked for, what its best output looked at."""

    prediction: Prediction
    alignment: dict[str, Any] | None = None


@dataclass(eq=False)
class Ticket:
    """The inputs of a request, and the answers that are there so far."""

    served: Served
    plan: SearchPlan
    pairs: Sequence[Pair]
    costs: Sequence[int]  # how much room each takes in a batch
    detail: Detail = "score"
    align: bool = False
    taken: int = 0  # inputs that are in a batch, or answered
    abandoned: bool = False  # whether nobody waits for the answers any more
    arrived: asyncio.Queue[Sequence[Answer] | Exception] = field(default_factory=asyncio.Queue)

    @property
    def key(self) -> tuple[int, SearchPlan, Detail, bool]:
        """Inputs with the same key can be computed together."""
        return id(self.served), self.plan, self.detail, self.align

    @property
    def left(self) -> int:
        return 0 if self.abandoned else len(self.pairs) - self.taken

    def abandon(self) -> None:
        """Say that nobody waits for the answers any more."""
        self.abandoned = True

    async def answers(self) -> AsyncIterator[Answer]:
        """Yield the answers in the order of the inputs, as soon as they are there."""
        count = 0
        while count < len(self.pairs):
            news = await self.arrived.get()
            if isinstance(news, Exception):
                raise news
            for answer in news:
                yield answer
            count += len(news)


@dataclass(frozen=True)
class Slice:
    """Inputs of one ticket that are in a batch."""

    ticket: Ticket
    first: int
    pairs: Sequence[Pair]


class Batcher:
    """Collects tickets and computes them in batches."""

    def __init__(self, settings: Serve, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._tickets: deque[Ticket] = deque()  # of which inputs wait
        self.waiting = 0  # inputs, of those that were abandoned since the last batch, too
        self._woken = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "weft-compute")
        self._together, self._seconds = 1, 0.0  # requests of the last batch, whose clients may ask again; its time
        self._speed = 0.0  # inputs a second, of late
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End; what still waits is not computed."""
        for ticket in self._tickets:
            ticket.abandoned = True
            ticket.arrived.put_nowait(unavailable("the server is stopping"))
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def alone(self, work: Callable[[], Result]) -> Result:
        """Return what some other work returns, which is done after the batch that is computed now."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def seconds_to_wait(self) -> int:
        """About how long it takes to compute what waits, at the speed of the last batches."""
        return max(1, min(LONGEST_WAIT, math.ceil(self.waiting / self._speed))) if self._speed else 1

    def submit(self, ticket: Ticket) -> None:
        """Let a ticket wait for its turn; Problem if too much waits already."""
        limits = self._settings.limits
        if self.waiting and self.waiting + len(ticket.pairs) > max(limits.queue, limits.items):
            raise busy("too many inputs are waiting", self.seconds_to_wait)
        self._tickets.append(ticket)
        self._count(self.waiting + len(ticket.pairs))
        self._woken.set()

    def _count(self, waiting: int) -> None:
        self.waiting = waiting
        self._metrics.waiting.set(waiting)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._gather()
            slices, started = self._take(), time.perf_counter()
            if not slices:
                continue  # the clients went away
            results = await loop.run_in_executor(self._thread, self._compute, slices)
            self._together, self._seconds = len(slices), time.perf_counter() - started
            self._note_speed(sum(len(piece.pairs) for piece in slices), self._seconds)
            for piece, result in zip(slices, results):
                if isinstance(result, Exception):
                    piece.ticket.abandoned = True
                piece.ticket.arrived.put_nowait(result)

    async def _gather(self) -> None:
        """Wait for a request, and then for as many as the last batch had, as long as they keep coming."""
        while not self.waiting:
            self._woken.clear()
            await self._woken.wait()
        loop, batch = asyncio.get_running_loop(), self._settings.batch
        pause, until = batch.wait_milliseconds / 1000, loop.time() + LONGEST_SHARE * self._seconds
        patience, known, latest = max(pause, QUIET_SHARE * self._seconds), len(self._tickets), loop.time()
        while len(self._tickets) < self._together and self.waiting < batch.lines and loop.time() < until:
            await asyncio.sleep(pause)
            if len(self._tickets) > known:
                known, latest = len(self._tickets), loop.time()
            elif loop.time() - latest >= patience:
                return

    def _note_speed(self, inputs: int, seconds: float) -> None:
        speed = inputs / max(seconds, 1e-6)
        self._speed = speed if not self._speed else 0.8 * self._speed + 0.2 * speed

    def _take(self) -> list[Slice]:
        """Take the next batch: of the oldest ticket and those that can be computed with it, a share of each in turn."""
        tickets = [ticket for ticket in self._tickets if ticket.left]
        key = tickets[0].key if tickets else None
        together = [ticket for ticket in tickets if ticket.key == key]
        taken = _shares(together, self._settings.batch.lines, self._settings.batch.cost)
        slices = []
        for ticket, count in zip(together, taken):
            if count:
                slices.append(Slice(ticket, ticket.taken, ticket.pairs[ticket.taken : ticket.taken + count]))
                ticket.taken += count
        others = [ticket for ticket in tickets if ticket.key != key]
        self._tickets = deque(ticket for ticket in (*others, *together) if ticket.left)  # another search is next
        self._count(sum(ticket.left for ticket in self._tickets))
        return slices

    def _compute(self, slices: Sequence[Slice]) -> list[Sequence[Answer] | Exception]:
        """Compute a batch; where that fails and it has several requests, each by itself: only the guilty one fails."""
        started = time.perf_counter()
        try:
            with abandoned_if(lambda: all(piece.ticket.abandoned for piece in slices)):
                return list(_answers(slices))
        except Abandoned:
            return [Problem(503, "the request was abandoned")] * len(slices)
        except Exception as error:
            if len(slices) > 1:
                return [result for piece in slices for result in self._compute([piece])]
            return [_known(error)]
        finally:
            lines = sum(len(piece.pairs) for piece in slices)
            self._metrics.batch.observe(lines)
            self._metrics.together.observe(len(slices))
            self._metrics.compute.observe(time.perf_counter() - started)


def _shares(tickets: Sequence[Ticket], lines: int, cost: int) -> list[int]:
    """Return how many inputs of each ticket are in a batch of so many lines and of such a cost, by turns."""
    shares = [0] * len(tickets)
    room, budget, open_ = lines, cost, list(range(len(tickets)))
    while open_ and room:
        for index in tuple(open_):
            ticket, share = tickets[index], shares[index]
            price = ticket.costs[ticket.taken + share] if share < ticket.left else 0
            if share == ticket.left or room == 0 or (price > budget and room < lines):
                open_.remove(index)
                continue
            shares[index], room, budget = share + 1, room - 1, budget - price
    return shares


def _answers(slices: Sequence[Slice]) -> list[list[Answer]]:
    first = slices[0].ticket
    pairs = [pair for piece in slices for pair in piece.pairs]
    lines = [piece.first + number for piece in slices for number in range(len(piece.pairs))]
    predictions = iter(first.served.predict(pairs, first.plan, lines, first.detail))
    return [[_answer(piece.ticket, pair, next(predictions)) for pair in piece.pairs] for piece in slices]


def _answer(ticket: Ticket, pair: Pair, prediction: Prediction) -> Answer:
    if not ticket.align or ticket.abandoned:
        return Answer(prediction)
    return Answer(prediction, ticket.served.alignment(pair, prediction.text))


def _known(error: Exception) -> Exception:
    """Return what a client is told of an error; one that nobody expected goes to the log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return unavailable("there is not enough memory for this request")
    if isinstance(error, OSError):
        return unavailable("a file that the run needs cannot be read")
    log.exception("a batch failed", exc_info=error)
    return Problem(500, "the server failed to answer this request", "the server", "tell its operator, who has a log")
