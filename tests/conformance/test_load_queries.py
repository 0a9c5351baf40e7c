"""What the queries of a ScaledObject answer, by Prometheus' own promtool."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import JSON, Manifest, listing, text
from tests.support.plane import change, only, plane
from tools import debian

pytestmark = pytest.mark.conformance
_INTERVAL = 15  # seconds
_END = 5 * 60


@dataclass(frozen=True)
class Engine:
    """An engine that reports its load every 15 seconds, for five minutes."""

    pod: str
    environment: str = "east"
    kind: str = "vllm"
    running: int = 0
    waiting: int = 0
    tokens: int = 0  # in 15 seconds
    first_tokens: int = 0  # in 15 seconds, each after 1 to 2 seconds
    starts: int = 0  # seconds after which its requests are there

    def series(self) -> list[JSON]:
        """Returns its series."""
        waiting, tokens = {
            "vllm": ("num_requests_waiting", "generation_tokens_total"),
            "sglang": ("num_queue_reqs", "inter_token_latency_seconds_count"),
        }[self.kind]
        running = {"vllm": "num_requests_running", "sglang": "num_running_reqs"}[self.kind]
        idle = self.starts // _INTERVAL
        count = _END // _INTERVAL - idle

        def gauge(name: str, number: int) -> JSON:
            before = f"0+0x{idle - 1} " if idle else ""
            return {"series": self._name(name), "values": f"{before}{number}+0x{count}"}

        def counter(name: str, number: int, **labels: str) -> JSON:
            return {"series": self._name(name, **labels), "values": f"0+{number}x{_END // _INTERVAL}"}

        return [
            gauge(running, self.running),
            gauge(waiting, self.waiting),
            counter(tokens, self.tokens),
            *(
                counter("time_to_first_token_seconds_bucket", number, le=bound)
                for bound, number in (("1", 0), ("2", self.first_tokens), ("+Inf", self.first_tokens))
            ),
        ]

    def _name(self, name: str, **labels: str) -> str:
        own = {"namespace": _NAMESPACE, "deployment": "gemma", "environment": self.environment, "pod": self.pod}
        shown = ", ".join(f'{label}="{value}"' for label, value in (own | labels).items())
        return f"{self.kind}:{name}{{{shown}}}"


def _ask(scheduling: str) -> tuple[str, str]:
    """Returns the namespace of a deployment, and the query for its time to first token."""
    control = plane("gemma-one-gpu", None, {"autoscaling": {"prometheus": {"url": "http://prometheus:9090"}}})
    deployment = only(control, "ModelDeployment")
    load: Manifest = {"maxReplicas": 4, "target": {"timeToFirstToken": "2s"}}
    change(control, deployment, "spec.scaling", {"signal": "Load", "load": load, "replicaScheduling": scheduling})
    control.settle()
    owned = control.store.owned(deployment).values()
    (scaled,) = (m for m in owned if m["kind"] == "ScaledObject")
    (trigger,) = listing(scaled, "spec.triggers")
    return text(scaled, "metadata.namespace"), text(trigger, "metadata.query")


_NAMESPACE, _ = _ask("Divided")


def evaluate(query: str, engines: list[Engine], expected: float | None, folder: Path) -> None:
    """Compares what Prometheus answers after five minutes; None: it must answer nothing."""
    samples: list[JSON] = [] if expected is None else [{"labels": "{}", "value": expected}]
    asked: Manifest = {"expr": query, "eval_time": f"{_END}s", "exp_samples": samples}
    series: list[JSON] = [one for engine in engines for one in engine.series()]
    case: Manifest = {"interval": f"{_INTERVAL}s", "input_series": series, "promql_expr_test": [asked]}
    (folder / "cases.yaml").write_text(yaml.safe_dump({"tests": [case]}))
    program = debian.path("prometheus").with_name("promtool")
    argv = (str(program), "test", "rules", str(folder / "cases.yaml"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


BUSY = Engine("a", running=8, waiting=2, tokens=900, first_tokens=10)
IDLE = Engine("a")
LONG_ANSWER = Engine("a", running=1, tokens=300)
ONLY_FIRST_TOKENS = Engine("a", running=1, first_tokens=10)
HANGS = Engine("a", running=8, waiting=2)
HANGS_WITH_A_QUEUE = Engine("a", waiting=2)
JUST_ASKED = Engine("a", running=1, starts=_END)
ELSEWHERE = Engine("b", environment="west")


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("scheduling", ["Divided", "Duplicated"])
@pytest.mark.parametrize(
    ("engine", "want"),
    [
        # 95 of 100 are interpolated to 1.95 s; KEDA divides by the replicas.
        pytest.param(BUSY, 1.95, id="busy"),
        pytest.param(IDLE, 0, id="idle"),
        pytest.param(LONG_ANSWER, 0, id="a long answer, and no new request"),
        pytest.param(ONLY_FIRST_TOKENS, 1.95, id="answers of one token"),
        pytest.param(HANGS, None, id="hangs"),
        pytest.param(HANGS_WITH_A_QUEUE, None, id="hangs with a queue"),
        pytest.param(JUST_ASKED, 0, id="a request that has just come"),
    ],
)
def test_time_to_first_token_is_unknown_while_engines_hang(
    kind: str, scheduling: str, engine: Engine, want: float | None, tmp_path: Path
) -> None:
    """It must never be 0 then: the deployment would shrink to its minimum under full load."""
    _, query = _ask(scheduling)
    evaluate(query, [replace(engine, kind=kind)], want, tmp_path)


@pytest.mark.parametrize(
    ("scheduling", "engines", "want"),
    [
        # Two replicas of one deployment: the time counts for each.
        ("Divided", [BUSY, ELSEWHERE], 3.9),
        ("Duplicated", [BUSY, ELSEWHERE], 1.95),
        # The engines that answer tell the time, unless each environment must tell its own.
        ("Divided", [HANGS, replace(BUSY, pod="b", environment="west")], 3.9),
        ("Duplicated", [HANGS, replace(BUSY, pod="b", environment="west")], None),
        ("Divided", [replace(HANGS, kind="sglang"), replace(BUSY, pod="b")], 3.9),
        ("Divided", [HANGS, replace(HANGS, pod="b", environment="west")], None),
    ],
)
def test_two_engines(scheduling: str, engines: list[Engine], want: float | None, tmp_path: Path) -> None:
    _, query = _ask(scheduling)
    evaluate(query, engines, want, tmp_path)
