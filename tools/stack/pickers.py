"""The endpoint pickers of a GPU cluster as real processes, one for each of their fake pods.

A picker is `epp` of Gateway API Inference Extension with the command that KServe composes, and ports of its own, as all
pickers share one network. What the kubelet would do is done here: the pod is ready as its probes say, and a container
that has ended starts again, at once at first and then ever later. Runs as a process of its own:
`python -m tools.stack.pickers HOME`.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from function.kube.manifests import Manifest, integer, list_texts, listing, mapping, text
from tools import programs
from tools.stack import layout
from tools.stack.api import Api
from tools.stack.kubelet.probes import Health
from tools.stack.kubelet.status import Observed, build_status
from tools.stack.layout import Home
from tools.stack.processes import Program

NAME = "pickers"
LABELS = "app.kubernetes.io/component=llminferenceservice-router-scheduler"
# A scorer of llm-d that the picker of Gateway API Inference Extension does not have.
_UNKNOWN = "no-hit-lru-scorer"
_GRPC, _HEALTH, _METRICS = 9002, 9003, 9090
_STEP = 100  # between the ports of two pickers
_ROUND_SECONDS = 0.25
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 10, 300


def program(home: Home) -> Program:
    """Return the pickers of a stack."""
    return Program(name=NAME, argv=(sys.executable, "-m", "tools.stack.pickers", str(home.root)))


def find_ports(home: Home) -> dict[str, int]:
    """Return the port of each picker, by the address of its pod."""
    return {text(each, "address"): integer(each, "port") for each in read_pickers(home).values()}


def read_pickers(home: Home) -> Manifest:
    """Return the address, the port and the process id of each picker that runs, by the name of its pod."""
    path = _record(home)
    found: Manifest = json.loads(path.read_text()) if path.exists() else {}
    return found


def build_command(container: Manifest, number: int) -> list[str]:
    """Return the command that KServe composed, with the ports of this picker and without what `epp` does not know."""
    words = [*list_texts(container, "command"), *list_texts(container, "args")][1:]
    for flag, port in (("--grpc-port", _GRPC), ("--grpc-health-port", _HEALTH)):
        words[words.index(flag) + 1] = str(port + _STEP * number)
    config = words.index("--config-text") + 1
    words[config] = _without_unknown(words[config])
    return [str(programs.path("epp")), *words, f"--metrics-port={_METRICS + _STEP * number}"]


def _without_unknown(config: str) -> str:
    parsed: Manifest = yaml.safe_load(config)
    parsed["plugins"] = [each for each in listing(parsed, "plugins") if text(each, "type") != _UNKNOWN]
    for profile in listing(parsed, "schedulingProfiles"):
        profile["plugins"] = [each for each in listing(profile, "plugins") if text(each, "pluginRef") != _UNKNOWN]
    return json.dumps(parsed)


def _shift_probes(container: Manifest, number: int) -> Manifest:
    shifted = {**container}
    for key in ("readinessProbe", "livenessProbe"):
        probe = mapping(container, key)
        shifted[key] = {**probe, "grpc": {**mapping(probe, "grpc"), "port": _HEALTH + _STEP * number}}
    return shifted


class Picker:
    """One pod."""

    def __init__(self, home: Home, pod: Manifest, number: int) -> None:
        self.pod, self.number = pod, number
        self._home = home
        self._container = next(c for c in listing(pod, "spec.containers") if text(c, "name") == "main")
        self._observed = Observed(spec=self._container)
        self._starts_at = 0.0
        self._written = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._health: Health | None = None

    @property
    def name(self) -> str:
        """The name of the pod."""
        return text(self.pod, "metadata.name")

    def describe(self) -> Manifest:
        """Return what others need to know of it."""
        pid = self._process.pid if self._process else 0
        return {"address": text(self.pod, "status.podIP"), "port": _GRPC + _STEP * self.number, "pid": pid}

    def look(self, remote: Api) -> None:
        """Do what is due, and write the status if it has changed."""
        if self._process is not None and self._process.poll() is not None:
            self._note_end()
        if self._process is None and time.monotonic() >= self._starts_at:
            self._start()
        if self._health is not None:
            self._health.run(is_ending=False)
            self._observed.started, self._observed.ready = self._health.started, self._health.ready
            if self._health.must_restart:
                self.end()
        self._write_status(remote)

    def end(self) -> None:
        """End the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        log = (self._home.logs / f"picker-{self.name}.log").open("ab")
        environment = {"KUBECONFIG": str(self._home.kubeconfig(layout.EAST.name)), "HOME": str(self._home.root)}
        with log:
            self._process = subprocess.Popen(
                build_command(self._container, self.number), env=environment, stdout=log, stderr=log
            )
        now = time.time()
        self._observed.started_at, self._observed.is_running = now, True
        self._health = Health(_shift_probes(self._container, self.number), "127.0.0.1", now)

    def _note_end(self) -> None:
        observed = self._observed
        doublings = observed.restarts - 1
        delay = min(_BACKOFF_SECONDS * 2.0**doublings, _LONGEST_BACKOFF_SECONDS) if observed.restarts else 0.0
        self._starts_at = time.monotonic() + delay
        self._process = self._health = None
        observed.is_running = observed.started = observed.ready = False
        observed.waits = "CrashLoopBackOff"
        observed.restarts += 1

    def _write_status(self, remote: Api) -> None:
        addresses = (text(self.pod, "status.podIP"), text(self.pod, "status.hostIP"))
        status = build_status(self.pod, addresses, "Running", ((), (self._observed,)))
        key = f"{self._observed.ready} {self._observed.restarts} {self._observed.is_running}"
        if key != self._written:
            remote.patch("Pod", self.name, {"status": status}, text(self.pod, "metadata.namespace"), part="status")
            self._written = key


class Pickers:
    """The pickers of a GPU cluster."""

    def __init__(self, home: Home) -> None:
        self._home, self._remote = home, Api(home, layout.EAST.name)
        self._pickers: dict[str, Picker] = {}
        self._recorded: Manifest = {}

    def look(self) -> None:
        """Do one round."""
        pods = {text(pod, "metadata.uid"): pod for pod in self._remote.find("Pod", labels=LABELS) if _has_started(pod)}
        for uid in self._pickers.keys() - pods.keys():
            self._pickers.pop(uid).end()
        for uid, pod in pods.items():
            if uid not in self._pickers:
                self._pickers[uid] = Picker(self._home, pod, _find_free([p.number for p in self._pickers.values()]))
            self._pickers[uid].pod = pod
            self._pickers[uid].look(self._remote)
        self._record()

    def end(self) -> None:
        """End all of them."""
        for picker in self._pickers.values():
            picker.end()

    def _record(self) -> None:
        found: Manifest = {each.name: each.describe() for each in self._pickers.values()}
        if found != self._recorded:
            partial = _record(self._home).with_suffix(".partial")
            partial.write_text(json.dumps(found))
            partial.rename(_record(self._home))
            self._recorded = found


def _record(home: Home) -> Path:
    return home.root / "pickers.json"


def _has_started(pod: Manifest) -> bool:
    return text(pod, "status.phase") == "Running" and bool(text(pod, "status.podIP"))


def _find_free(taken: Sequence[int]) -> int:
    """Return the lowest number that is not taken; none is 0, whose ports are those of the pods themselves."""
    return next(number for number in range(1, len(taken) + 2) if number not in taken)


def main() -> None:
    """Run them until ended; an API server that is away is waited for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    pickers = Pickers(Home(Path(sys.argv[1])))
    try:
        while True:
            try:
                pickers.look()
            except OSError as error:
                print(error, flush=True)
            time.sleep(_ROUND_SECONDS)
    finally:
        pickers.end()


if __name__ == "__main__":
    main()
