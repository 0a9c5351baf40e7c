"""Runs a page: all its blocks of shell commands, in order, in one shell, from the root of the tree."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: str) -> str:
    """Return the commands of a page as one script that ends at the first command that fails."""
    return "\n".join(("set -euo pipefail", *_BLOCK.findall(page)))


def main() -> int:
    """Run the commands of a page, and show each before it runs."""
    parser = argparse.ArgumentParser(prog="python -m tools.page", description=main.__doc__)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page.read_text()
    # PS4: a command is shown with this before it.
    return subprocess.run(
        ("bash", "-x", "-c", script(page)), cwd=ROOT, env=os.environ | {"PS4": "$ "}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
