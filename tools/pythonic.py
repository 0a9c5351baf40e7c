"""function-pythonic, a composition function that runs Python, as PyPI has it.

The Composition of examples/bring-your-own-cluster uses it. It has an environment of its own in the cache, because
it pins other versions of what we need too.
"""

import hashlib
import shutil
import sys
import venv
from pathlib import Path

from tools.programs import CACHE, ROOT, lock, output, say

REQUIREMENTS = ROOT / "requirements" / "pythonic.txt"


def install() -> Path:
    """Returns the program, installed first if it is missing.

    Raises:
        BuildError: It cannot be installed.
    """
    pinned = hashlib.sha256((REQUIREMENTS.read_text() + sys.version).encode()).hexdigest()[:16]
    home = CACHE / "pythonic" / pinned
    program, done = home / "bin" / "function-pythonic", home / "installed"
    with lock("pythonic"):
        if not done.exists():
            say("function-pythonic: installing")
            shutil.rmtree(home, ignore_errors=True)
            venv.create(home, with_pip=True)
            pip = (str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install")
            output((*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS)), ROOT)
            done.touch()
    return program
