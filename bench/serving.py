"""How fast is `weft serve`, and what does it do under too much load?

    python bench/serving.py RUN FILE [--rounds 3] [--seconds 20] [--overload 300] [--requests 100000] [--peer PORT]
        [--core N] [--only throughput]

RUN translates from English to German (its folder, or its name: en-de=FOLDER), FILE has a source on each line. In one
run, side by side: `weft predict` from file to file, requests of 32 lines, 32 clients with single lines, the 99th
percentile of latency alone and at half of the highest throughput, four times the highest throughput, a worker that is
killed, SIGTERM under load, and memory over many requests. With --peer, LibreTranslate's own server is measured, too,
which bench/serving_peer.py starts with the same weights. Throughputs are medians over rounds, in which all are measured
in turn, so that a machine that is busy with other things slows all of them. Short seconds give rough figures. With
--core, the server and `weft predict` run on that core alone; start the peer on it, too, and the clients on another
(`taskset`). --only measures some parts, and adds them to the figures that --out holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from load import Seen, closed_loop, on_core, open_loop, serving

CLIENTS, LINES = 32, 32
SHORT = 12  # characters of a line, where memory is watched


def main() -> None:
    given = arguments()
    lines = [line for line in given.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    figures: dict[str, Any] = {"command": " ".join(sys.argv[1:]), "load before": os.getloadavg()[0]}
    if given.only and given.out.exists():
        figures = {**json.loads(given.out.read_text(encoding="utf-8")), **figures}
    wanted = given.only or PARTS
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        if set(wanted) - {"signals"}:
            with serving([given.run], log, core=given.core) as server:
                for part in wanted:
                    if part in PARTS_OF_A_SERVER:
                        figures |= PARTS_OF_A_SERVER[part](server, lines, figures, given, Path(folder))
                        save(figures, given.out)
        if "signals" in wanted:
            figures |= kill_and_drain(given.run, log, lines, min(given.seconds, 10), given.core)
    show(figures)
    save(figures, given.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--overload", type=float, default=300, help="seconds at four times the highest throughput")
    parser.add_argument("--requests", type=int, default=100_000, help="whose memory is watched")
    parser.add_argument("--peer", type=int, help="the port of another server with LibreTranslate's protocol")
    parser.add_argument("--core", type=int, help="the core of the server and of `weft predict`")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part to measure; can be repeated")
    parser.add_argument("--out", type=Path, default=Path(".bench/serving.json"))
    return parser.parse_args()


def save(figures: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def throughput(server: Any, lines: list[str], figures: Any, given: Any, folder: Path) -> dict[str, Any]:
    rounds = [one_round(server.port, lines, given, folder) for _ in range(given.rounds)]
    return {name: median(each[name] for each in rounds) for name in rounds[0]} | {"rounds": rounds}


def one_round(port: int, lines: list[str], given: Any, folder: Path) -> dict[str, float]:
    """Measure the throughput of everything once, in turn."""
    seconds, run = given.seconds, given.run.partition("=")[2] or given.run
    predict = predict_speed(run, lines, folder, given.core)
    asyncio.run(closed_loop(port, lines, 4, 8, min(seconds, 3)))  # warm
    speeds = {
        "predict, lines/s": predict,
        "requests of 32 lines, lines/s": asyncio.run(closed_loop(port, lines, 4, LINES, seconds)).lines_per_second,
        "32 clients, lines/s": asyncio.run(closed_loop(port, lines, CLIENTS, 1, seconds)).lines_per_second,
    }
    if given.peer is not None:
        asyncio.run(closed_loop(given.peer, lines, 4, 1, min(seconds, 3)))
        other = asyncio.run(closed_loop(given.peer, lines, CLIENTS, 1, seconds))
        speeds["peer, 32 clients, lines/s"] = other.lines_per_second
    return speeds


def predict_speed(run: str, lines: list[str], folder: Path, core: int | None) -> float:
    """Return the lines a second of `weft predict` from file to file, without its start."""
    seconds = []
    for count in (1, len(lines)):
        source = folder / f"{count}.txt"
        source.write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
        started = time.monotonic()
        with (folder / "out.txt").open("wb") as out:
            command = on_core(core, [sys.executable, "-m", "weft", "predict", run, str(source)])
            subprocess.run(command, stdout=out, check=True)
        seconds.append(time.monotonic() - started)
    return (len(lines) - 1) / (seconds[1] - seconds[0])


def latencies(server: Any, lines: list[str], figures: Any, given: Any, folder: Path) -> dict[str, Any]:
    """Measure latencies of a single client, and at half of the highest throughput."""
    alone = asyncio.run(closed_loop(server.port, lines, 1, 1, given.seconds))
    half = asyncio.run(open_loop(server.port, lines, figures["32 clients, lines/s"] / 2, given.seconds))
    return {
        "alone, p50 ms": 1000 * alone.percentile(0.5),
        "alone, p99 ms": 1000 * alone.percentile(0.99),
        "half of the throughput, p50 ms": 1000 * half.percentile(0.5),
        "half of the throughput, p99 ms": 1000 * half.percentile(0.99),
        "half of the throughput, statuses": dict(half.statuses),
    }


def overload(server: Any, lines: list[str], figures: Any, given: Any, folder: Path) -> dict[str, Any]:
    """Send four times the highest throughput; memory is compared with that after a first part of the same load."""
    rate = 4 * figures["32 clients, lines/s"]
    asyncio.run(open_loop(server.port, lines, rate, min(given.overload, 20)))
    before = server.megabytes
    seen: Seen = asyncio.run(open_loop(server.port, lines, rate, given.overload))
    return {
        "overload, requests/s": sum(seen.statuses.values()) / seen.seconds,
        "overload, statuses": dict(seen.statuses),
        "overload, goodput lines/s": seen.lines_per_second,
        "overload, MB before and after": [round(before, 1), round(server.megabytes, 1)],
    }


def memory(server: Any, lines: list[str], figures: Any, given: Any, folder: Path) -> dict[str, Any]:
    """Watch the memory over many requests of one short line."""
    sizes, count, statuses = [server.megabytes], 0, Counter[int]()
    while count < given.requests:
        seen = asyncio.run(closed_loop(server.port, [line[:SHORT] for line in lines], CLIENTS, 1, 10))
        statuses += seen.statuses
        count = statuses.total()
        sizes.append(server.megabytes)
    shown = [round(size, 1) for size in sizes[:: max(1, len(sizes) // 8)]]
    return {"memory, statuses": dict(statuses), "memory, MB over time": [*shown, round(sizes[-1], 1)]}


PARTS_OF_A_SERVER = {"throughput": throughput, "latencies": latencies, "overload": overload, "memory": memory}
PARTS = [*PARTS_OF_A_SERVER, "signals"]


def kill_and_drain(run: str, log: Path, lines: list[str], seconds: float, core: int | None) -> dict[str, Any]:
    """Kill one of two workers under load; then end the server under load."""

    async def under_load(server: Any, act: Any) -> Seen:
        loading = asyncio.create_task(closed_loop(server.port, lines, 16, 1, seconds))
        await asyncio.sleep(seconds / 2)
        act(server)
        return await loading

    with serving([run], log, "--workers", "2", core=core) as server:
        killed = asyncio.run(under_load(server, lambda server: os.kill(server.workers[0], signal.SIGKILL)))
    with serving([run], log, core=core) as server:
        drained = asyncio.run(under_load(server, lambda server: server.process.send_signal(signal.SIGTERM)))
        code = server.process.wait(60)
    return {
        "a worker killed, statuses": dict(killed.statuses),
        "drained, statuses until the port closed": {s: n for s, n in drained.statuses.items() if s},
        "drained, exit code": code,
    }


def show(figures: dict[str, Any]) -> None:
    base = figures.get("predict, lines/s", float("nan"))
    for name, value in figures.items():
        shown = f"{value:.1f}" if isinstance(value, float) else value
        share = f"  ({value / base:.2f} of predict)" if name.endswith("lines/s") and name != "predict, lines/s" else ""
        print(f"{name:45} {shown}{share}")


if __name__ == "__main__":
    main()
