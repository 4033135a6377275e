"""Every part of every table through `weft train`, `weft predict` and `weft evaluate` on a small real set.

    python bench/parts.py --data $WEFT_DATA --folder /tmp/parts --budget 60s

Each part changes one setting of a small model (or the few that it needs). Results go to FOLDER/parts.jsonl as they
come; the same command goes on where it stopped. Two run side by side with one thread each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft.learn.feeding import SCHEDULES
from weft.nn.assemble import BRIDGES, CELLS, HEADS, JOINS, POSITIONS, PROJECTIONS, SCORES, WEIGHERS

TRANSFORMER = [
    f"{side}.{setting}"
    for side in ("encoder", "decoder")
    for setting in ("kind=transformer", "width=128", "layers=2", "heads=4", "inner=256")
] + ["embed.width=128"]
SMALL = ["encoder.width=128", "decoder.width=128", "embed.width=128"]


def parts() -> dict[str, list[str]]:
    """A name and the settings of each; what the small model has anyway is in «as it is»."""
    look, made = "decoder.attention", {}
    made["as it is"] = [
        f"{look}.score=additive",
        f"{look}.weigh=softmax",
        f"{look}.join=concat",
        "bridge.kind=projected",
    ]
    for cell in CELLS:
        made[f"cell {cell}"] = [f"encoder.cell={cell}", f"decoder.cell={cell}"]
    for score in ("none", *(s for s in SCORES if s != "additive")):
        made[f"score {score}"] = [f"{look}.score={score}"]
    for weigh in (w for w in WEIGHERS if w != "softmax"):
        made[f"weigh {weigh}"] = [f"{look}.weigh={weigh}", f"{look}.score={'rbf' if weigh == 'exact' else 'additive'}"]
    for project in (p for p in PROJECTIONS if p != "none"):
        made[f"project {project}"] = [f"{look}.project={project}", f"{look}.score=scaled"]
    made["heads 4"] = [f"{look}.heads=4"]
    made["query before"] = [f"{look}.query=before"]
    made["feed false"] = [f"{look}.feed=false"]
    for join in (j for j in JOINS if j != "concat"):
        made[f"join {join}"] = [f"{look}.join={join}"]
    for kind in (b for b in BRIDGES if b != "projected"):
        made[f"bridge {kind}"] = [f"bridge.kind={kind}"]
    made["give every"], made["give none"] = ["bridge.give=every"], ["bridge.give=none"]
    made["forward"], made["reverse"] = ["encoder.directions=forward"], ["encoder.reverse=true"]
    deep = ["encoder.layers=2", "decoder.layers=2"]
    made["layers 2"] = deep
    for option in ("residual", "layer_norm", "variational"):
        made[option] = [*deep, f"encoder.{option}=true", f"decoder.{option}=true"]
    for name, scheme in POSITIONS.items():
        if not scheme.in_attention and name != "none":
            made[f"recurrent, positions {name}"] = [f"embed.positions={name}"]
        made[f"transformer, positions {name}"] = [*TRANSFORMER, f"embed.positions={name}"]
    made["transformer, post-norm"] = [*TRANSFORMER, "encoder.norm=post", "decoder.norm=post", "embed.positions=rotary"]
    for score in (s for s in SCORES if s != "scaled"):
        both = [f"{side}.attention.score={score}" for side in ("encoder", "decoder")]
        made[f"transformer, score {score}"] = [*TRANSFORMER, *both, "embed.positions=sinusoid"]
    for weigh in ("straight-through", "sparsemax", "kernel"):
        both = [f"{side}.attention.weigh={weigh}" for side in ("encoder", "decoder")]
        made[f"transformer, weigh {weigh}"] = [*TRANSFORMER, *both, "embed.positions=sinusoid"]
    for schedule in SCHEDULES:
        made[f"feeding scheduled, {schedule}"] = ["feeding.kind=scheduled", f"feeding.schedule={schedule}"]
    made["feeding own"] = ["feeding.kind=own"]
    made["feeding scheduled, transformer"] = [*TRANSFORMER, "embed.positions=rotary", "feeding.kind=scheduled"]
    made["feeding noise"], made["token dropout"] = ["feeding.noise=0.3"], ["feeding.token_dropout=0.1"]
    for head in (h for h in HEADS if h != "tokens"):
        made[f"head {head}"] = [f"head.kind={head}"]
    made["head own matrix"] = ["head.tied=false"]
    return {
        name: settings if "transformer" in name else [*_small(settings), *settings] for name, settings in made.items()
    }


def _small(settings: list[str]) -> list[str]:
    return [s for s in SMALL if not (s.startswith("decoder.") and "head.kind=ctc" in settings)]


def weft(*words: str, folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WEFT_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-m", "weft", *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stdout


def one(name: str, settings: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Train, predict and evaluate; what was measured, or why it failed."""
    run = options.folder / name.replace(" ", "-").replace(",", "")
    train, dev = (str(options.data / f"g2p_sigmorphon2020/data/{part}/hin_{part}.tsv") for part in ("train", "dev"))
    sets = [word for setting in settings for word in ("--set", setting)]
    began = time.monotonic()
    try:
        if not (run / "README.md").exists():
            weft("train", train, "--valid", dev, "--budget", options.budget, "--out", str(run), "--resume", *sets,
                 folder=options.folder)  # fmt: skip
        said = weft("predict", str(run), dev, folder=options.folder).splitlines()
        found = json.loads(weft("evaluate", str(run), dev, "--json", folder=options.folder))
    except RuntimeError as problem:
        return {"part": name, "settings": settings, "failed": str(problem)}
    final = json.loads((run / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    keys = ("exact", "token_error_rate", "loss", "n")
    measured = {**{key: found[key] for key in keys}, "parameters": final["parameters"], "steps": final["steps"]}
    return {"part": name, "settings": settings, **measured, "lines": len(said), "seconds": time.monotonic() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("WEFT_DATA", "../shared/data")))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / "parts.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    done = {line["part"]: line for line in map(json.loads, lines) if "failed" not in line}
    left = {name: settings for name, settings in parts().items() if name not in done}
    with ThreadPoolExecutor(options.workers) as pool:
        for found in pool.map(lambda item: one(*item, options), left.items()):
            done[str(found["part"])] = found
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found, ensure_ascii=False) + "\n")
            print(_row(found), flush=True)
    print("\n| part | exact | token_error_rate | loss | parameters | steps |\n|---|---:|---:|---:|---:|---:|")
    for name in parts():
        print(_row(done[name]))


def _row(found: dict[str, object]) -> str:
    if "failed" in found:
        return f"| {found['part']} | failed: {found['failed']} | | | | |"
    return "| {part} | {exact:.1f} | {token_error_rate:.2f} | {loss:.3f} | {parameters:,} | {steps:,} |".format(**found)


if __name__ == "__main__":
    main()
