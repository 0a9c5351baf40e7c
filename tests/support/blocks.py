"""The code in documents: fenced blocks by language, and the commands in blocks and in code spans."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LISTED = subprocess.run(("git", "ls-files", "*.md"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
# Documents whose commands readers follow. The changelog and decisions also name commands that do not exist.
DOCUMENTS = tuple(
    ROOT / name
    for name in _LISTED.splitlines()
    if name != "CHANGELOG.md" and not name.startswith(("docs/decisions/", "tests/"))
)
_BLOCK = re.compile(r"^([ ]*)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_HEREDOC = re.compile(r"^(?P<command>[^\n]*)<<'?(?P<end>\w+)'?\n(?P<said>.*?)^(?P=end)$", re.MULTILINE | re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_KEYWORDS = {"while", "do", "done", "case", "in", "esac", "if", "then", "fi", "read", "eval", "$"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document."""

    document: Path
    language: str
    said: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its document; `whole` means that readers type it as it is, and not only a sentence names it."""

    document: Path
    words: tuple[str, ...]
    whole: bool = True

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}: {shlex.join(self.words)}"


def blocks() -> Iterator[Block]:
    """Return every fenced block of every document."""
    for document in DOCUMENTS:
        for _, language, said in _BLOCK.findall(document.read_text()):
            yield Block(document, language, said)


def yaml_blocks() -> Iterator[Block]:
    """Return the YAML of documents, including YAML within commands that write it to a file."""
    for block in blocks():
        if block.language == "yaml":
            yield block
        for found in _HEREDOC.finditer(block.said) if block.language == "sh" else ():
            yield Block(block.document, "yaml", found["said"])


def commands(program: str) -> list[Command]:
    """Return every command that calls a program, from the program's name on."""
    found = [Command(b.document, words) for b in blocks() if b.language in {"sh", "make"} for words in _calls(b.said)]
    for document in DOCUMENTS:
        found += [
            Command(document, words, whole=False) for span in spans(document) for words in _lenient(span, program)
        ]
    return [command for command in found if command.words[0].rpartition("/")[2] == program]


def spans(document: Path) -> list[str]:
    """Return the code spans in the sentences and tables of a document."""
    return [" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", document.read_text()))]


def _lenient(span: str, program: str) -> Iterator[tuple[str, ...]]:
    """Return the commands of a span that begins with a program; others may be anything."""
    if span.startswith(f"{program} "):
        yield from _calls(span)


def _calls(script: str) -> Iterator[tuple[str, ...]]:
    plain = _HEREDOC.sub(r"\g<command>", script).replace("\\\n", " ")
    for inner in _SUBSTITUTION.findall(plain):
        yield from _calls(inner)
    for line in _SUBSTITUTION.sub("SUBSTITUTED", plain).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        yield from _simple(list(lexer))


def _simple(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Split a line at shell operators, without assignments before a command, keywords and redirections."""
    call: list[str] = []
    redirected = False
    for word in (*words, ";"):
        if word in {"|", "||", "&&", ";", "&", ";;", "(", ")"}:
            if call:
                yield tuple(call)
            call = []
        elif word in {">", ">>", "<"}:
            redirected = True
        elif redirected:
            redirected = False
        elif call or (word not in _KEYWORDS and not re.match(r"\w+=", word)):
            call.append(word)
