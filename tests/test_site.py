"""The documentation as a site: it builds without a warning, links lead somewhere, nothing comes from the network."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The ids of a page, where it links to, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loaded.add(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; the build stops at a warning."""
    sys.path.insert(0, str(ROOT / "docs/tools"))
    try:
        import build
    finally:
        sys.path.pop(0)
    out = tmp_path_factory.mktemp("docs") / "site"
    build.build(out)
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html") if file.name != "404.html"}


def test_every_link_leads_to_a_page_and_a_heading(pages: dict[Path, Page]) -> None:
    broken = []
    for file, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):  # another site, which a test without a network cannot ask
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{file.name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_the_network(pages: dict[Path, Page], site: Path) -> None:
    for file, page in pages.items():
        for address in page.loaded:
            assert not re.match(r"([a-z]+:)?//", address), (file.name, address)
            assert (file.parent / unquote(address).partition("?")[0]).is_file(), (file.name, address)
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert not re.search(r"@import|url\(['\"]?(https?:)?//", styles)


def test_links_to_other_sites_are_secure(pages: dict[Path, Page]) -> None:
    outside = {link for page in pages.values() for link in page.links if re.match(r"[a-z]+:", link)}
    assert all(link.startswith("https://") for link in outside), outside


def test_every_page_is_in_the_navigation(pages: dict[Path, Page], site: Path) -> None:
    home = pages[site / "index.html"]
    reached = {(site / link.partition("#")[0]).resolve() for link in home.links if not re.match(r"[a-z]+:", link)}
    assert set(pages) <= reached | {site / "index.html"}


def test_search_finds_every_guide_command_and_setting(site: Path) -> None:
    index = (site / "search.json").read_text(encoding="utf-8")
    for words in ("weft train", "--match-parameters", "decoder.attention.score", "Training and budgets", "GPUs"):
        assert words in index
    assert (
        (site / "search.js").read_text(encoding="utf-8").endswith(f"{index};")
    )  # for pages that are opened from a file


def test_the_page_of_settings_has_every_setting(pages: dict[Path, Page], site: Path) -> None:
    from weft.settings import compose, flatten

    text = (site / "reference/settings.html").read_text(encoding="utf-8")
    spec = compose(("flag", {"decoder": {"kind": "transformer"}, "embed": {"positions": "sinusoid"}})).spec
    for layer in (spec, compose().spec):
        for key, _ in flatten(layer.model_dump(mode="json")):
            assert f"<code>{key}</code>" in text, key


def test_the_page_of_commands_has_every_command_and_option(site: Path) -> None:
    from typer.main import get_command

    from weft.cli.main import app

    text = (site / "reference/commands.html").read_text(encoding="utf-8")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"<code>weft {name}</code>" in text
        for parameter in command.params:
            assert parameter.hidden or parameter.opts[0] in text, (name, parameter.opts)
