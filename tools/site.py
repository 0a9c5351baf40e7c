"""Hooks of `make docs` (mkdocs.yml): pages that are written nowhere else, and what a page may not have.

The first page is README.md, every field comes from the XRDs under apis/. Links out of docs/ lead to the repository
that REPOSITORY names, and are plain text without one. Nothing is loaded from elsewhere: the site is read behind
firewalls, too.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import field_table
from tools.programs import ROOT

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?https?:|<link[^>]+rel=["']?(?:stylesheet|preconnect)[^>]+https?:"""
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name every decision in the navigation, after the rest of the last part."""
    (*_, last) = config.nav or [{}]
    (pages,) = last.values()
    pages.append({"Decisions": [f"decisions/{name}" for name in _decisions()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that come from elsewhere in the tree."""
    readme = (ROOT / "README.md").read_text().replace("](docs/", "](")
    for name, content in (
        ("index.md", readme),
        ("fields.md", field_table.page()),
        ("changes.md", _read("CHANGELOG.md")),
    ):
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Lead links out of the documentation to the repository."""
    folder = Path(page.file.src_uri).parent

    def outside(link: re.Match[str]) -> str:
        shown, target = link.groups()
        path, _, _ = target.partition("#")
        if not path or "://" in path or files.get_file_from_path(os.path.normpath(folder / path)):
            return link.group()
        below = "docs" if page.file.src_uri not in {"index.md", "changes.md"} else "."
        there = (ROOT / below / folder / path).resolve()
        if path.rstrip("/") == "decisions":
            return f"[{shown}](decisions/{_decisions()[0]})"
        if not there.is_relative_to(ROOT) or not there.exists():
            raise PluginError(f"{page.file.src_uri}: {target} is nowhere")
        repository = os.environ.get("REPOSITORY", "")
        return f"[{shown}]({repository}/tree/main/{there.relative_to(ROOT)})" if repository else shown

    return _LINK.sub(outside, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that would load something from elsewhere."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {found.group()}")
    return output


def _read(name: str) -> str:
    return (ROOT / name).read_text()


def _decisions() -> list[str]:
    return sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
