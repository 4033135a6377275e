"""Build the documentation site: `make docs`, or `python docs/tools/build.py --out FOLDER`.

The pages are those of docs/, the README as the home page, CONTRIBUTING, CHANGELOG and LICENSE, the notebook, and the
pages of reference.py, which are written from the code. They are gathered in a temporary folder and built by Zensical,
with warnings as errors: a link to a page or a heading that does not exist stops the build.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import notebook
import reference

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "docs/tools"
TOP_PAGES = {  # files beside docs/, and the pages that they become
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
}
UNSEARCHED = ("LOG.md", "license.md")  # long texts that would hide the guides among the results of a search
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder to write; default: site/")
    out = parser.parse_args().out
    build(out)
    print(f"The documentation is in {out}: open {out}/index.html, or run `python -m http.server -d {out}`.")


def build(out: Path) -> None:
    """Write the site to `out`, which is replaced; exit with the builder's report if it has any warning."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copy(TOOLS / "mkdocs.yml", work)
        gather(work / "pages")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(work / "mkdocs.yml")]
        built = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if built.returncode:
            sys.exit(f"{built.stdout}{built.stderr}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "site", out)


def gather(pages: Path) -> None:
    """Copy or write every page of the site."""
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("tools", "*.ipynb", "*.py", "__pycache__"))
    for name, page in TOP_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        shown = f"# Licence\n\n```text\n{text}```\n" if name == "LICENSE" else text
        (pages / page).write_text(moved_links(shown, from_root=True), encoding="utf-8")
    shutil.copy(ROOT / "CITATION.cff", pages)
    for page in pages.rglob("*.md"):
        head = "---\nsearch:\n  exclude: true\n---\n" if page.name in UNSEARCHED else ""
        page.write_text(head + moved_links(page.read_text(encoding="utf-8"), from_root=False), encoding="utf-8")
    for name, page in reference.PAGES.items():
        (pages / "reference" / name).write_text(page(), encoding="utf-8")
    for file in (ROOT / "docs/notebooks").glob("*.ipynb"):
        notebook.write_page(file, pages / "notebooks" / f"{file.stem}.md")


def moved_links(text: str, *, from_root: bool) -> str:
    """Return the text with the links of the site, where `docs/x.md` is `x.md` and `../README.md` is `index.md`."""

    def moved(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if from_root:
            target = TOP_PAGES.get(target, target.removeprefix("docs/"))
        else:
            for name, page in TOP_PAGES.items():
                target = re.sub(rf"^((?:\.\./)+){re.escape(name)}$", lambda up, page=page: up[1][3:] + page, target)
        target = re.sub(r"\.ipynb$", ".md", target)
        return f"{match[1]}{target}{'#' if anchor else ''}{anchor}{match[3]}"

    return LINK.sub(moved, text)


if __name__ == "__main__":
    main()
