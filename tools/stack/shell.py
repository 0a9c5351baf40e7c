"""PATH and variables of the shell that `make e2e-shell` opens."""

import os
import sys
from pathlib import Path

from tools import programs
from tools.stack.layout import Home


def environment(home: Home) -> dict[str, str]:
    """Return kubectl and modelplane on PATH, the hub's kubeconfig, and that with which a cluster may be reached."""
    folders = (str(programs.path("kubectl").parent), str(Path(sys.executable).parent), os.environ["PATH"])
    return {
        "PATH": os.pathsep.join(folders),
        "KUBECONFIG": str(home.kubeconfig("hub")),
        "REMOTE_KUBECONFIG": str(home.kubeconfig("executor")),
    }
