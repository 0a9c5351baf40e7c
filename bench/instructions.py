"""The cost of decisions in instructions, which a busy machine does not change: a change that makes one dearer fails.

Callgrind counts what bench/counted.py does, with one order of hashes (PYTHONHASHSEED=0). Counted twice, the numbers
differ by 0.2 % at most. They depend on the interpreter: the budget names the one that it was counted with, and
says nothing about another. After a change that is worth what it costs: python -m bench.instructions --write.
"""

import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from bench.counted import CALLS
from tools import debian

BUDGET = Path(__file__).with_name("instructions.json")
INTERPRETER = f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"
BEYOND = 1.05
SECONDS = 600


def count() -> dict[str, int]:
    """Return the thousands of instructions of one call of each scene."""
    valgrind = debian.path("valgrind")
    # Where it is unpacked and not installed, its tools must be configured.
    library = valgrind.parent.parent / "libexec" / "valgrind"
    with tempfile.TemporaryDirectory() as folder:
        command = (
            *(str(valgrind), "--tool=callgrind", f"--callgrind-out-file={folder}/%p", "-q"),
            *(sys.executable, "-m", "bench.counted"),
        )
        environment = {"PYTHONHASHSEED": "0", "VALGRIND_LIB": str(library)}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, timeout=SECONDS)  # noqa: S603  # our own command
        children: dict[str, int] = json.loads(done.stdout)
        spent = {name: _total(Path(folder, str(child))) for name, child in children.items()}
    nothing = spent.pop("")
    return {name: round((total - nothing) / CALLS[name] / 1000) for name, total in spent.items()}


def _total(file: Path) -> int:
    found = re.search(r"^totals: (\d+)$", file.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def _dearer(counted: Mapping[str, int], budget: Mapping[str, int]) -> list[str]:
    """Print what was counted beside what may be, and return what is beyond."""
    beyond = []
    for name, thousands in counted.items():
        allowed = budget.get(name)
        share = f"{100 * (thousands / allowed - 1):+6.1f} %" if allowed else "no budget"
        click.echo(f"{name:<24}{thousands:>10,} thousand instructions a call {share:>10}")
        if allowed is None or thousands > BEYOND * allowed:
            beyond.append(name)
    return beyond


@click.command()
@click.option("--write", is_flag=True, help="Make what is counted the budget for this interpreter.")
def main(*, write: bool) -> None:
    """Count, and fail where a call takes 5 % more than its budget."""
    budgets: dict[str, dict[str, int]] = json.loads(BUDGET.read_text())
    counted = count()
    beyond = _dearer(counted, budgets.get(INTERPRETER, {}))
    if write:
        BUDGET.write_text(json.dumps({**budgets, INTERPRETER: counted}, indent=2, sort_keys=True) + "\n")
    elif INTERPRETER not in budgets:
        click.echo(f"there is no budget for {INTERPRETER}, only for {', '.join(budgets)}")
    elif beyond:
        raise click.ClickException(f"beyond the budget by more than 5 %: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
