"""A page is run as it is read (tools/page.py)."""

import subprocess

import pytest

from tools import page

PAGE = """# A page

```sh
A=1
```

Between.

```text
not a command
```

```sh
cat <<'END'
$A
END
echo $A
```
"""


def test_blocks_share_one_shell() -> None:
    done = subprocess.run(("bash", "-c", page.script(PAGE)), capture_output=True, text=True, check=True)
    assert done.stdout == "$A\n1\n"


@pytest.mark.parametrize("failure", ["false", "false | cat", "echo $NOT_SET"])
def test_first_failure_ends_the_page(failure: str) -> None:
    script = page.script(f"```sh\n{failure}\necho reached\n```\n")
    done = subprocess.run(("bash", "-c", script), capture_output=True, text=True, check=False)
    assert done.returncode
    assert done.stdout == ""


def test_quickstart_is_a_script() -> None:
    script = page.script((page.ROOT / "docs" / "quickstart-kind.md").read_text())
    subprocess.run(("bash", "-n"), input=script, text=True, check=True)
    assert script.index("kind create") < script.index("kubectl apply -k install/") < script.index("kind delete")
