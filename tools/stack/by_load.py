"""What docs/scale.md adds to a stack: KEDA, the autoscaler of Kubernetes, and a Prometheus that reads the engines."""

import json
from functools import partial

from tools import debian
from tools import keda as keda_programs
from tools.stack import keda, layout, targets
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

_PROMETHEUS = "prometheus-by-load"


def prepare() -> None:
    """Build and fetch what is missing; everything after this needs no network."""
    keda_programs.prepare()
    debian.path("prometheus")


def up(home: Home, processes: Processes) -> None:
    """Start everything; runs inside the stack's network namespace."""
    keda.up(home, processes)
    processes.start(targets.program(home))
    processes.start(_prometheus(home))
    for name, port in (("the list of engines", layout.TARGETS), ("Prometheus", layout.PROMETHEUS)):
        until(name, partial(listens, port))


def down(home: Home, processes: Processes) -> None:
    """Stop everything."""
    for name in (_PROMETHEUS, targets.NAME):
        processes.stop(name)
    keda.down(home, processes)


def runs(processes: Processes) -> bool:
    """Return whether it was started."""
    return any(record.program.name == _PROMETHEUS for record in processes.records())


def _prometheus(home: Home) -> Program:
    folder = home.root / _PROMETHEUS
    folder.mkdir(exist_ok=True)
    engines = {
        "job_name": "engines",
        "scrape_interval": "5s",
        "http_sd_configs": [{"url": f"http://127.0.0.1:{layout.TARGETS}/", "refresh_interval": "5s"}],
    }
    # JSON is YAML, too.
    (folder / "prometheus.yaml").write_text(json.dumps({"scrape_configs": [engines]}))
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{layout.PROMETHEUS}",
    }
    argv = (str(debian.path("prometheus")), *(f"--{name}={value}" for name, value in options.items()))
    return Program(name=_PROMETHEUS, argv=argv)
