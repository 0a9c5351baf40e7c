"""Hooks of `make docs` (mkdocs.yml): pages that are written nowhere else, and what a page may not have.

The first page is README.md, and the page of changes is CHANGELOG.md. Links out of docs/ lead to the repository
that REPOSITORY names, and are plain text without one. Nothing is loaded from elsewhere: the site is read behind
firewalls, too.
"""

import itertools
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.programs import ROOT

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<(td|th)\b([^>]*)>(.*?)</\1>", re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_SHORT = 14
_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?https?:|<link[^>]+rel=["']?(?:stylesheet|preconnect)[^>]+https?:"""
)
_WHOLE_WIDTH = "---\nhide: [navigation]\n---\n"
_DOORS = """
<div class="doors" markdown>

- **Authors** run models: [tutorial](tutorial.md), [concepts](concepts.md), [storage](storage.md),
  [command line](cli.md), [FAQ](faq.md)
- **Platform teams** offer clusters: [install](install.md), [kubeconfig](kubeconfig.md), [network](network.md),
  [operations](operations.md), [rollouts](rollouts.md), [backup](backup.md), [monitoring](monitoring.md),
  [upgrades](upgrades.md), [capacity](capacity.md), [hardware](hardware.md),
  [nodes](nodes.md), [security](security.md)
- **Contributors** change it: [architecture](architecture.md), [extending](extending.md), [facts](facts.md),
  [decisions](decisions)

</div>
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name every decision in the navigation, after the rest of the last part, and where a page can be edited."""
    (*_, last) = config.nav or [{}]
    (pages,) = last.values()
    pages.append({"Decisions": [f"decisions/{name}" for name in _decisions()]})
    if repository := os.environ.get("REPOSITORY", ""):
        config.repo_url, config.repo_name, config.edit_uri = repository, config.site_name, "edit/main/docs/"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that come from elsewhere in the tree."""
    title, what, *rest = _read("README.md").replace("](docs/", "](").split("\n\n")
    readme = "\n\n".join((_WHOLE_WIDTH + title, what, _DOORS, *rest))
    for name, content in (("index.md", readme), ("changes.md", _read("CHANGELOG.md"))):
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


def on_page_content(html: str, **_: object) -> str:
    """Give each cell of a table the title of its column, which narrow screens show beside it (site.css)."""
    return _TABLE.sub(lambda table: _label_cells(table.group()), html)


def _label_cells(table: str) -> str:
    titles = [re.sub(r"<[^>]+>", "", title) for kind, _, title in _CELL.findall(table) if kind == "th"]
    columns = itertools.cycle(titles)

    def label(cell: re.Match[str]) -> str:
        kind, attributes, content = cell.groups()
        if kind == "th":
            return cell.group()
        return f'<td{attributes} data-title="{next(columns)}">{_CODE.sub(_break_code, content)}</td>'

    return _CELL.sub(label, table)


def _break_code(code: re.Match[str]) -> str:
    """Return code that breaks after dots, or nowhere where it is short."""
    said = code.group(1)
    return (
        f'<code class="short">{said}</code>' if len(said) <= _SHORT else f"<code>{said.replace('.', '.<wbr>')}</code>"
    )


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that would load something from elsewhere."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {found.group()}")
    return output


def _read(name: str) -> str:
    return (ROOT / name).read_text()


def _decisions() -> list[str]:
    return sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
