"""How good is `weft train` with no settings at all? Public tasks, each beside what published systems reach.

    python bench/quality.py                             # the whole table: about nine hours, resumable
    python bench/quality.py --task g2p-2020 --task scan # some of it
    python bench/quality.py --task g2p-2020/hin --budget 2m --set decoder.cell=gru   # a trial, kept out of the table
    python bench/quality.py --table                     # docs/quality.md from what is there

A set is trained with `--valid` and `--budget` alone (and `--features` where the data have tags) and evaluated with
`weft evaluate`; the result is one line in quality.jsonl. A set that has its line for this budget is not made again
without `--again`; a run that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "quality.jsonl", HERE.parent / "docs" / "quality.md"
HEAD = """# Scores of `weft train` with no settings

A model was trained on each data set with `weft train FILE --valid DEV --budget TIME` and no other options (except
`--features 3` where the data have features, and `--on-bad-line skip` for Portuguese, where 7 % of the rows have no
source). It was scored with `weft evaluate`. The first table has the mean over the data sets of each task, the second
has every data set. *Goal* and *stretch goal* are those of the project. *Others* are published figures on the test sets.
Weft was scored on the dev sets, because the data folder has no test sets (except for translation: flickr2016 and the
test set of tatoeba). *ade* is the mean distance over the 12 steps of pedestrians, *km* that of storms after 72 hours.
Where there is no other set, the checkpoint of a run was selected on the pairs that it is scored
on, which makes its score slightly optimistic; the published figures have no such advantage. *wer* is the percentage
of outputs that contain an error, and *exact* the percentage of outputs that contain none; *bleu* is sacreBLEU, cased.

`python bench/quality.py` (`make quality`) writes this page. Data sets without a result in
`bench/quality.jsonl` are measured first.
[The log](LOG.md) says what improved these scores and what did not.

"""


@dataclass(frozen=True)
class Goal:
    """The project's goals for the mean over a task's sets: at most (errors) or at least (everything else)."""

    reach: float | None = None
    beyond: float | None = None


@dataclass(frozen=True)
class Set:
    """Files to learn from, to validate on and to be judged on; `flags` say what the columns are."""

    train: str
    valid: str
    test: str = ""
    flags: tuple[str, ...] = ()
    always: tuple[str, ...] = ()  # for every command

    @property
    def judged_on(self) -> str:
        return self.test or self.valid


@dataclass(frozen=True)
class Task:
    title: str
    metric: str  # wer, exact, bleu, accuracy, ade, or km of storms
    budget: str
    sets: dict[str, Set]
    goal: Goal
    others: str = ""


def g2p(year: str, level: str, languages: str) -> dict[str, Set]:
    folder = f"g2p_sigmorphon{year}/data"
    train, dev = (
        (f"{level}/{{}}_train.tsv", f"{level}/{{}}_dev.tsv") if level else ("train/{}_train.tsv", "dev/{}_dev.tsv")
    )
    return {name: Set(f"{folder}/{train.format(name)}", f"{folder}/{dev.format(name)}") for name in languages.split()}


def inflection(size: str) -> dict[str, Set]:
    folder, tags = "inflection_conll2017", ("--features", "3")
    names = ("english", "german", "spanish", "russian")
    return {n: Set(f"{folder}/{n}-train-{size}", f"{folder}/{n}-dev", flags=tags) for n in names}


HISTORICAL = ("german-anselm", "german-ridges", "hungarian-hgds", "icelandic-icepahc", "portuguese-ps19",
              "slovene-goo300k-bohoric")  # fmt: skip
WITH_GAPS, SKIP = {"portuguese-ps19"}, ("--on-bad-line", "skip")  # 7 % of its rows have no source
MULTI30K = Set("multi30k/train.en:multi30k/train.de", "multi30k/val.en:multi30k/val.de",
               "multi30k/flickr2016.en:multi30k/flickr2016.de")  # fmt: skip
TATOEBA = Set("tatoeba_en_fr/train.tsv", "tatoeba_en_fr/dev.tsv", "tatoeba_en_fr/test.tsv")
DJANGO = Set("django/train.anno:django/train.code", "django/dev.anno:django/dev.code")

SCENES = {
    "eth": ["biwi_eth"],
    "hotel": ["biwi_hotel"],
    "univ": ["students001", "students003", "uni_examples"],
    "zara1": ["crowds_zara01"],
    "zara3": ["crowds_zara03"],
}
TRACKS = ("--source", "past", "--target", "future")
CLASSIFY = ("--task", "classify", "--source", "text", "--target", "label")
CONTINUE = ("--task", "language-model")
MADE = Path(os.environ.get("WEFT_TABLES", HERE.parent.parent / "tables"))


def continued(title: str, metric: str, budget: str, name: str, goal: Goal, others: str) -> Task:
    """Return the task of a language model of one text, or of one collection of tunes."""
    folder, ending = ("music", "jsonl") if metric == "nll" else ("language_models", "txt")
    files = (f"tables/{folder}/{name}.{part}.{ending}" for part in ("train", "dev"))
    return Task(title, metric, budget, {name: Set(*files, flags=CONTINUE)}, goal, others)


JUDGED_ON_ASIDE = ""  # SCAN's lines: one in twenty is kept aside
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
JUDGED = ("--task", "classify", "--source", "image", "--context", "sentence", "--target", "label")
HEARD = ("--task", "classify", "--source", "audio", "--target", "digit")


def table_set(name: str, *flags: str) -> Set:
    """Return a set of two tables that shared/tools/tables.py makes."""
    return Set(f"tables/{name}.train.tsv", f"tables/{name}.dev.tsv", flags=flags)


TASKS = {
    "g2p-2020": Task(
        "words to phones, 3,600 pairs",
        "wer",
        "10m",
        g2p("2020", "", "ady gre hin rum"),
        Goal(15.5, 14),
        "LSTM baseline 16.1, Transformer 17.2",
    ),
    "g2p-2021": Task(
        "words to phones, 8,000 pairs",
        "wer",
        "10m",
        g2p("2021", "medium", "arm_e bul dut fre geo hun jpn_hira"),
        Goal(8.5, 7.5),
        "ensemble baseline 7.9",
    ),
    "g2p-english": Task(
        "English words to phones, 33,344 pairs",
        "wer",
        "30m",
        g2p("2021", "high", "eng_us"),
        Goal(43, 40),
        "ensemble baseline 41.9",
    ),
    "inflection-low": Task("inflection, 100 pairs", "exact", "5m", inflection("low"), Goal(59, 65), "rules 59"),
    "inflection-medium": Task(
        "inflection, 1,000 pairs", "exact", "10m", inflection("medium"), Goal(85, 88), "rules 80.9"
    ),
    "inflection-high": Task(
        "inflection, 10,000 pairs", "exact", "20m", inflection("high"), Goal(94, 95.5), "rules 88.4"
    ),
    "histnorm": Task(
        "historical spelling, 10,000 tokens",
        "exact",
        "10m",
        {
            n: Set(f"histnorm/{n}.train.tsv#10000", f"histnorm/{n}.dev.tsv", always=SKIP if n in WITH_GAPS else ())
            for n in HISTORICAL
        },
        Goal(77, 79),
        "NMT 75.4, statistical MT with a language model 79.0",
    ),
    "translit": Task(
        "transliteration",
        "exact",
        "15m",
        {n: Set(f"translit_wd/{n}.train.tsv", f"translit_wd/{n}.dev.tsv") for n in ("russian", "korean")},
        Goal(),
    ),
    "scan-simple": Task(
        "commands to actions, random split",
        "exact",
        "10m",
        {"simple": Set("scan/tasks_train_simple.txt", JUDGED_ON_ASIDE)},
        Goal(99.5),
    ),
    "scan-others": Task(
        "commands to actions, within the other training sets",
        "exact",
        "10m",
        {n: Set(f"scan/tasks_train_{n}.txt", JUDGED_ON_ASIDE) for n in ("length", "addprim_jump")},
        Goal(),
    ),
    "labels": Task(
        "one label for a sentence",
        "accuracy",
        "10m",
        {n: Set(f"classification/{n}.train", "", flags=CLASSIFY) for n in ("sst2", "trec", "subj")},
        Goal(86.3, 88.5),  # sst2 80 and 82, trec 87 and 90, subj 92 and 93.5
        "TF-IDF and a linear SVM 85.9 on the same dev sets, fastText 85.3",
    ),
    "pedestrians": Task(
        "where pedestrians go in a scene not seen in training, metres",
        "ade",
        "5m",
        {n: Set(f"eth_ucy/{n}", "", flags=TRACKS) for n in SCENES},
        Goal(0.56, 0.52),
        "constant velocity .562, ridge regression on offsets .588, on the same windows",
    ),
    "storms-atlantic": Task(
        "where storms are after 72 hours, km",
        "km",
        "10m",
        {"atlantic": Set("hurdat2/atlantic", "", flags=(*TRACKS, "--context", "past_state"))},
        Goal(752, 714),
        "ridge regression on steps 822, also on position and season 752",
    ),
    "storms-pacific": Task(
        "where storms are after 72 hours, km",
        "km",
        "10m",
        {"pacific": Set("hurdat2/pacific", "", flags=(*TRACKS, "--context", "past_state"))},
        Goal(473, 449),
        "ridge regression on steps 507, also on position and season 473",
    ),
    "chorales": continued(
        "what sounds next in 229 chorales", "nll", "10m", "jsb", Goal(8.6, 8.4), "tanh 8.91, LSTM 8.45, GRU 8.43"
    ),
    "tunes": continued(
        "what sounds next in 694 tunes", "nll", "10m", "nottingham", Goal(3.6, 3.2), "tanh 4.05, LSTM 3.29, GRU 3.46"
    ),
    "shakespeare": continued(
        "characters of plays", "bits_per_character", "30m", "shakespeare", Goal(2.2, 2.1), "Kneser–Ney 8-gram 2.10"
    ),
    "warpeace": continued(
        "characters of a novel", "bits_per_character", "30m", "warpeace", Goal(1.9, 1.75), "Kneser–Ney 8-gram 1.75"
    ),
    "linux": continued(
        "characters of C code", "bits_per_character", "30m", "linux", Goal(1.95, 1.8), "Kneser–Ney 8-gram 1.88"
    ),
    "wikitext2": continued(
        "characters of articles", "bits_per_character", "30m", "wikitext2", Goal(2.38, 2.24), "Kneser–Ney 8-gram 2.24"
    ),
    "drawn-digits": Task(
        "strips of drawn digits to strings",
        "exact",
        "10m",
        {"strips": table_set("drawn_digits/strips")},
        Goal(95, 98.5),
        "CRNN with CTC 97.2 (200 CPU seconds)",
    ),
    "scene-captions": Task(
        "pictures of scenes to sentences",
        "bleu",
        "20m",
        {"scenes": table_set("scenes/captions")},
        Goal(12, 18),
        "nearest picture 8.4",
    ),
    "judged-scenes": Task(
        "is a sentence true of a picture?",
        "accuracy",
        "20m",
        {"scenes": table_set("scenes/judged", *JUDGED)},
        Goal(58, 66),
        "majority 56.0",
    ),
    "spoken-digits": Task(
        "connected digits to phones (phone error rate)",
        "token_error_rate",
        "10m",
        {"digits": table_set("spoken_digits/digits", "--source", "audio", "--target", "phones")},
        Goal(3, 1),
        "CTC BiGRU 3.6 (240 CPU seconds)",
    ),
    "unseen-speakers": Task(
        "single spoken digits of unseen speakers",
        "accuracy",
        "5m",
        {n: table_set(f"spoken_digits/without-{n}", *HEARD) for n in SPEAKERS},
        Goal(83, 90),
        "MFCC and SVM 82.0",
    ),
    "multi30k-20m": Task("English to German captions", "bleu", "20m", {"en-de": MULTI30K}, Goal(32, 34)),
    "multi30k-60m": Task("English to German captions", "bleu", "60m", {"en-de": MULTI30K}, Goal(36, 38)),
    "tatoeba": Task("English to French sentences", "bleu", "30m", {"en-fr": TATOEBA}, Goal()),
    "django": Task("English to Python", "exact", "30m", {"django": DJANGO}, Goal(45, 60), "NMT 45.1, tranX 77.2"),
}


class Failed(Exception):
    """A command of Weft did."""


def prepared(name: str, given: Set, data: Path, folder: Path) -> Set:
    """The set with its files where Weft can read them: the first rows of a corpus, or SCAN's lines as TSV."""
    if given.train.startswith("classification/"):
        return labelled_files(name, given, data, folder)
    if given.train.startswith("eth_ucy/"):
        return pedestrian_files(name, given, data, folder)
    if given.train.startswith("hurdat2/"):
        return storm_files(name, given, data, folder)
    if given.train.startswith("scan/"):
        return scan_files(name, data / given.train, folder)
    if "#" in given.train:
        path, rows = given.train.split("#")
        lines = [line for line in (data / path).read_text(encoding="utf-8").split("\n") if line]
        short = folder / f"{Path(path).stem}.{rows}.tsv"
        short.write_text("\n".join(lines[: int(rows)]) + "\n", encoding="utf-8")
        return replace(given, train=str(short), valid=absolute(given.valid, data))
    train, valid, test = (absolute(files, data) for files in (given.train, given.valid, given.test))
    return replace(given, train=train, valid=valid, test=test)


def absolute(files: str, data: Path) -> str:
    """Return the files in the folder of the data; those of `tables/` in the folder of the tables made from them."""
    return ":".join(
        str((MADE / part.removeprefix("tables/")) if part.startswith("tables/") else data / part)
        for part in files.split(":")
        if part
    )


def labelled_files(name: str, given: Set, data: Path, folder: Path) -> Set:
    """Tables of texts and labels; where the data have no dev set, a tenth of the lines is one (seed 0)."""
    train, own = labelled(data / given.train), (data / given.train).with_suffix(".dev")
    if own.exists():
        dev = labelled(own)
    else:
        order = list(range(len(train)))
        random.Random(0).shuffle(order)
        tenth = len(train) // 10
        dev, train = [train[i] for i in order[:tenth]], [train[i] for i in order[tenth:]]
    paths = [folder / f"{name}.{part}.tsv" for part in ("train", "dev")]
    for path, rows in zip(paths, (train, dev)):
        path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return replace(given, train=str(paths[0]), valid=str(paths[1]))


def pedestrian_files(name: str, given: Set, data: Path, folder: Path) -> Set:
    """All windows of 20 steps: one scene to be judged on, the others to learn from."""
    from weft.recipes.tracks import scene_windows, write_rows

    windows = {s: [w for f in files for w in scene_windows(data / f"eth_ucy/{f}.txt")] for s, files in SCENES.items()}
    others = [window for scene, rows in windows.items() if scene != name for window in rows]
    paths = [
        write_rows(rows, folder / f"{name}.{part}.jsonl") for part, rows in (("train", others), ("test", windows[name]))
    ]
    return replace(given, train=paths[0], valid=paths[1])


def storm_files(name: str, given: Set, data: Path, folder: Path) -> Set:
    """Windows of 20 fixes; one storm in ten is to be judged on."""
    from weft.recipes.tracks import storm_files as split

    files = split(data / f"{given.train}.csv", folder)
    return replace(given, train=files.train, valid=str(files.valid))


def kilometres(run: Path, table: str, log: Path, threads: int | None) -> float:
    """The mean great-circle distance at the last step."""
    import numpy as np

    from weft.recipes.yardsticks import kilometres as between

    outputs = [json.loads(line) for line in weft(["predict", str(run), table], log, threads).splitlines()]
    futures = [json.loads(line)["future"] for line in Path(table).read_text(encoding="utf-8").splitlines()]
    return float(between(np.array(outputs)[:, -1], np.array(futures)[:, -1]).mean())


def labelled(path: Path) -> list[tuple[str, str]]:
    """Return the texts and labels of lines `label text`, in UTF-8 or, line by line, in Windows-1252."""
    lines = []
    for raw in path.read_bytes().split(b"\n"):
        try:
            lines.append(raw.decode())
        except UnicodeDecodeError:
            lines.append(raw.decode("cp1252", errors="replace"))
    return [
        (" ".join(text.split()), label) for label, text in (line.split(" ", 1) for line in lines if " " in line.strip())
    ]


def scan_files(name: str, path: Path, folder: Path) -> Set:
    """One line in twenty kept aside, the rest to learn from."""
    pairs = [re.match(r"IN: (.*) OUT: (.*)", line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [f"{pair[1]}\t{pair[2]}\n" for pair in pairs if pair]
    train, aside = folder / f"scan-{name}.train.tsv", folder / f"scan-{name}.aside.tsv"
    train.write_text("".join(row for n, row in enumerate(rows) if n % 20), encoding="utf-8")
    aside.write_text("".join(row for n, row in enumerate(rows) if n % 20 == 0), encoding="utf-8")
    return Set(str(train), str(aside))


def weft(words: list[str], log: Path, threads: int | None) -> str:
    """What a command of Weft writes on stdout; its messages go to a file."""
    own = {**os.environ} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    with log.open("a", encoding="utf-8") as messages:
        done = subprocess.run([sys.executable, "-m", "weft", *words], env=own, stdout=subprocess.PIPE, stderr=messages)
    if done.returncode:
        raise Failed(f"weft {words[0]} ended with {done.returncode}; its messages are in {log}")
    return done.stdout.decode()


def make(task: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Trains and evaluates one set; the line that tells of it."""
    budget = options.budget or TASKS[task].budget
    trial = "" if not options.set else "-" + re.sub(r"[^\w.=-]+", "_", "-".join(options.set))
    folder = options.folder / f"{task}-{name}-{budget}{trial}-{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    files, run, log = (
        prepared(name, TASKS[task].sets[name], options.data, folder),
        folder / "run",
        folder / "messages.txt",
    )
    if options.again:
        shutil.rmtree(run, ignore_errors=True)
    sets = [word for setting in options.set for word in ("--set", setting)]
    words = ["train", files.train, "--valid", files.valid, "--budget", budget, "--out", str(run), *files.flags, *sets]
    resumed, began = run.exists(), time.time()
    going_on = ["--resume"] if resumed else []
    weft([*words, "--seed", str(options.seed), *going_on, *files.always], log, options.threads)
    trained = None if resumed else round(time.time() - began)
    found = json.loads(weft(["evaluate", str(run), files.judged_on, "--json", *files.always], log, options.threads))
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    final = next(line for line in reversed(lines) if line["kind"] == "final")
    metric = TASKS[task].metric
    if metric == "km":
        score = kilometres(run, files.judged_on, log, options.threads)
    else:
        score = 100 - found["exact"] if metric == "wer" else found[metric]
    also = {"lower": lower_cased(run, files.judged_on, log, options.threads)} if metric == "bleu" else {}
    also |= {"fde": round(found["fde"], 3)} if metric == "ade" else {}
    return {
        "task": task, "set": name, "budget": budget, "settings": options.set, "seed": options.seed,
        "metric": metric, "score": round(score, 3 if metric == "ade" else 2), **also,
        "parameters": final["parameters"],
        "pairs": found["n"], "steps": final["steps"], "seconds": trained, "threads": options.threads or os.cpu_count(),
        "at": time.strftime("%Y-%m-%d %H:%M"), "commit": commit(),
    }  # fmt: skip


def lower_cased(run: Path, pairs: str, log: Path, threads: int | None) -> float:
    """BLEU of texts in lower case, as some papers have it."""
    from sacrebleu.metrics import BLEU

    said = weft(["predict", str(run), pairs.split(":")[0]], log, threads).splitlines()
    rows = Path(pairs.split(":")[-1]).read_text(encoding="utf-8").splitlines()
    wanted = rows if ":" in pairs else [row.split("\t")[1] for row in rows]
    return round(float(BLEU(lowercase=True).corpus_score(said, [wanted]).score), 2)


def commit() -> str:
    words = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def results() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [line for line in _lines() if "peer" not in line]


def of_peers(task: str) -> str:
    """Return what other toolkits reached in the same time (the lines of quality.jsonl that name a peer)."""
    found = {r["peer"]: r for r in _lines() if r["task"] == task and "peer" in r and r["budget"] == TASKS[task].budget}
    threads = {peer: f"{r['threads']} thread{'s' * (r['threads'] > 1)}" for peer, r in found.items()}
    return ", ".join(f"{peer} {r['score']} in the same time, with {threads[peer]}" for peer, r in found.items())


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def wanted(options: argparse.Namespace) -> list[tuple[str, str]]:
    """(task, set) for each that was asked for, each as TASK or TASK/SET."""
    asked = options.task or list(TASKS)
    pairs = []
    for word in asked:
        task, _, name = word.partition("/")
        if task not in TASKS or (name and name not in TASKS[task].sets):
            raise SystemExit(f"{word} is no task: there are {', '.join(TASKS)}, each also as TASK/SET")
        pairs += [(task, n) for n in TASKS[task].sets if not name or n == name]
    return pairs


def table() -> str:
    """Return the tables of the page: each task's mean beside its goal, and each set."""
    last = {(r["task"], r["set"]): r for r in results() if not r["settings"] and r["budget"] == TASKS[r["task"]].budget}
    rows = [
        "| task | budget | metric | Weft | goal | stretch goal | others (test sets) |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    sets = [
        "| task | set | Weft | parameters | updates | seconds | threads | measured |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for task, about in TASKS.items():
        scores = [last[task, name]["score"] for name in about.sets if (task, name) in last]
        digits = 3 if about.metric == "ade" else 1
        mean = (
            f"{statistics.fmean(scores):.{digits}f}"
            if len(scores) == len(about.sets)
            else f"{len(scores)} of {len(about.sets)} sets"
        )
        goal = [format(g, "g") if g is not None else "" for g in (about.goal.reach, about.goal.beyond)]
        cells = [f"{task}: {about.title}", about.budget, about.metric, mean, *goal, about.others or of_peers(task)]
        rows.append(f"| {' | '.join(cells)} |")
        for name in about.sets:
            if (task, name) in last:
                r = last[task, name]
                score = f"{r['score']} (lower-cased {r['lower']})" if "lower" in r else r["score"]
                score = f"{score} (fde {r['fde']})" if "fde" in r else score
                numbers = f"{r['parameters']:,} | {r['steps']:,} | {r['seconds'] or 'resumed'} | {r['threads'] or 2}"
                sets.append(f"| {task} | {name} | {score} | {numbers} | {r['at']}, {r['commit']} |")
    return "\n".join([*rows, "", *sets]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="a task or TASK/SET; may be repeated [default: all]")
    parser.add_argument("--budget", help="[default: the task's own]")
    parser.add_argument("--set", action="append", default=[], help="a setting, for trials")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each run [default: all]")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--again", action="store_true", help="also what has its line already, from the start")
    parser.add_argument("--table", action="store_true", help="only write the page, docs/quality.md")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("WEFT_DATA", HERE.parent.parent / "shared" / "data"))
    )
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality")
    options = parser.parse_args()
    options.data, options.folder = options.data.resolve(), options.folder.resolve()
    if not options.table:
        have = {(r["task"], r["set"], r["budget"], tuple(r["settings"]), r["seed"]) for r in results()}

        def one(pair: tuple[str, str]) -> None:
            task, name = pair
            key = (task, name, options.budget or TASKS[task].budget, tuple(options.set), options.seed)
            if key in have and not options.again:
                return
            try:
                line = make(task, name, options)
            except (Failed, OSError, ValueError) as failure:  # data that are not there or not as they should be
                print(f"{task}/{name}: {failure}", flush=True)
                return
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            took = f"{line['seconds']} s" if line["seconds"] else "resumed"
            print(f"{task}/{name}: {line['metric']} {line['score']}, {line['steps']} updates, {line['parameters']:,} "
                  f"parameters, {took}", flush=True)  # fmt: skip

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, wanted(options)))
    PAGE.write_text(HEAD + table(), encoding="utf-8")
    print(table())


if __name__ == "__main__":
    main()
