"""Probes, variables, caches and the end of an engine's container."""

from dataclasses import dataclass, replace
from unittest.mock import ANY

import pytest

from function.domain.model import Engine, Parallelism, Shape
from function.domain.pods import PodAdditions
from function.kube.manifests import JSON, Manifest, get, listing, text
from function.serving.digest import ServingRequest
from tests.support.builders import GIB, HUB, shape
from tests.support.serving_requests import (
    DATA,
    FRONTIER,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    VLLM_DRAINS,
    VLLM_NEW,
    VLLM_OLD,
    VLLM_RANKS,
    build_pods,
    engine,
    get_main,
    request,
)

RANKS = shape(1, 8, Parallelism(tensor=1, data=8, data_local=8))
HUB_URI = "hf://org/kimi:main"
DRAINS = engine(image=VLLM_DRAINS)


def variables(pod: Manifest) -> dict[str, JSON]:
    return {text(entry, "name"): entry.get("value") for entry in listing(get_main(pod), "env")}


@dataclass(frozen=True)
class Ending:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    pauses: tuple[int | None, ...]
    grace: int | None


ENDINGS = [
    Ending("preset", "the preset has a preStop hook and a grace period", ONE_NODE, DRAINS, (None,), None),
    Ending("preset-data",
        "the preset has preStop hooks and grace periods for both pods",
        DATA, DRAINS, (None, None), None),
    Ending("sglang-one-node",
        "SGLang on one node keeps the hook and grace period of the preset",
        ONE_NODE, engine(image=SGLANG), (None,), None),
    Ending("aborts",
        "vLLM before 0.18 finishes no requests, so that the workers need not wait for it",
        PIPELINE, engine(), (15, 15), 60),
    Ending("drains", "workers wait 55 s, which is 15 s plus the 40 s for requests", PIPELINE, DRAINS, (15, 55), 60),
    Ending("said",
        "the grace period is 15 s plus the author's 300 s plus 5 s",
        PIPELINE, engine("--shutdown-timeout=300", image=VLLM_DRAINS),
           (15, 315), 320),
    Ending("none-wanted",
        "the author's --shutdown-timeout=0 means that the workers need not wait",
        PIPELINE, engine("--shutdown-timeout=0", image=VLLM_DRAINS),
           (15, 15), 60),
    Ending("unreadable", "an invalid --shutdown-timeout is left to the engine to report", PIPELINE,
           engine("--shutdown-timeout=long", image=VLLM_DRAINS), (15, 55), 60),
    Ending("ray", "vLLM before 0.11.1 finishes no requests", PIPELINE, engine(image=VLLM_OLD), (15, 15), 60),
    Ending("ranks", "the function's own command waits for requests", DATA, engine(image=VLLM_RANKS), (15, 55), 60),
    Ending("sglang",
        "the other ranks of SGLang wait for the first one without a hook",
        PIPELINE, engine(image=SGLANG), (15, 15), 60),
]  # fmt: skip


@pytest.mark.parametrize("case", ENDINGS, ids=lambda c: c.id)
def test_pre_stop_and_grace_period(case: Ending) -> None:
    found = build_pods(request(case.shape, case.engine))
    stops = [get(listing(pod, "containers")[0], "lifecycle.preStop.exec.command") for pod in found]
    assert stops == [pause and ["/bin/sleep", str(pause)] for pause in case.pauses], case.reason
    assert {pod.get("terminationGracePeriodSeconds") for pod in found} == {case.grace}, case.reason


@pytest.mark.parametrize("shape", [ONE_GPU, PIPELINE, DATA])
@pytest.mark.parametrize("image", [VLLM_NEW, VLLM_RANKS])
def test_pods_have_no_service_links(shape: Shape, image: str) -> None:
    assert all(pod["enableServiceLinks"] is False for pod in build_pods(request(shape, engine(image=image))))


READY = "VLLM_ENGINE_READY_TIMEOUT_S"


@pytest.mark.parametrize(
    ("reason", "asked", "want"),
    [
        ("a single API server waits without a limit", request(ONE_NODE, uri=HUB_URI), [None]),
        ("the API server of each rank waits 1400 s, which is 600 s + 100 x 8 s", request(RANKS, uri=HUB_URI), ["1400"]),
        (
            "the API server waits 600 s + 100 x 8 s + 1800 s, and workers have no server",
            request(DATA, uri=HUB_URI),
            ["3200", None],
        ),
        (
            "the API server waits as long if the function sets the command",
            request(DATA, engine(image=VLLM_RANKS), uri=HUB_URI),
            ["3200", None],
        ),
        (
            "the author's value of the variable takes precedence",
            request(RANKS, engine(env=({"name": READY, "value": "7"},)), uri=HUB_URI),
            ["7"],
        ),
        ("SGLang does not have the variable", request(RANKS, engine(image=SGLANG), uri=HUB_URI), [None]),
    ],
)
def test_api_servers_wait_as_long_as_startup_probe(reason: str, asked: ServingRequest, want: list[str | None]) -> None:
    found = build_pods(replace(asked, weights_bytes=100 * GIB))
    assert [variables(pod).get(READY) for pod in found] == want, reason
    if "7" not in want and want[0]:
        assert get(get_main(found[0]), "startupProbe.failureThreshold") == int(want[0]) // 10


CACHES = {
    "VLLM_CACHE_ROOT": "/var/cache/engine/vllm",
    "TRITON_CACHE_DIR": "/var/cache/engine/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/var/cache/engine/inductor",
}


USER = {"USER": "engine"}
# The presets of KServe would have their home directory there.
HOME = {
    "HOME": "/var/cache/engine",
    "HF_HOME": "/var/cache/engine/huggingface",
    "XDG_CACHE_HOME": "/var/cache/engine/cache",
    "XDG_CONFIG_HOME": "/var/cache/engine/config",
}


@pytest.mark.parametrize(
    ("asked", "home"),
    [
        (request(), {}),
        (request(PIPELINE), HOME),
        (request(PIPELINE, engine(image=SGLANG)), HOME),
        (request(PIPELINE, engine(image=VLLM_OLD)), HOME),
        (request(ONE_GPU, engine(image=SGLANG)), {}),
        (request(DATA, engine(image=VLLM_RANKS)), {"VLLM_ENGINE_READY_TIMEOUT_S": ANY}),
    ],
    ids=["preset", "nodes", "sglang-nodes", "ray", "sglang", "ranks"],
)
def test_engine_on_claim_is_offline_with_writable_cache(asked: ServingRequest, home: dict[str, JSON]) -> None:
    leader, *workers = build_pods(asked)
    for pod in (leader, *workers):
        is_served = pod is leader or READY not in home
        assert variables(pod) == {"HF_HUB_OFFLINE": "1", **CACHES, **USER, **(home if is_served else {})}
        assert {"name": "engine-cache", "emptyDir": {}} in listing(pod, "volumes")
        assert {"name": "engine-cache", "mountPath": "/var/cache/engine"} in listing(get_main(pod), "volumeMounts")


def test_adds_no_caches_without_claim() -> None:
    (pod,) = build_pods(request(uri=HUB_URI))
    assert variables(pod) == USER
    assert "volumes" not in pod
    assert "volumeMounts" not in listing(pod, "containers")[0]


def mounts(pod: Manifest) -> dict[str, str]:
    """Returns the volumes of the engine's container that are empty at its start, by their paths."""
    empty = {text(volume, "name") for volume in listing(pod, "volumes") if "emptyDir" in volume}
    found = listing(get_main(pod), "volumeMounts")
    return {text(mount, "mountPath"): text(mount, "name") for mount in found if text(mount, "name") in empty}


@pytest.mark.parametrize("run", [engine(), engine(image=VLLM_OLD), engine(image=SGLANG)], ids=["vllm", "ray", "sglang"])
@pytest.mark.parametrize("uri", ["pvc://weights/models/0123", HUB_URI])
def test_pods_without_preset_have_what_presets_give_a_user_without_a_home(run: Engine, uri: str) -> None:
    """KServe's presets have a home and a folder for temporary files, also where nothing else can be written."""
    for pod in build_pods(request(PIPELINE, run, uri=uri)):
        assert mounts(pod) == {"/dev/shm": "dshm", "/tmp": "tmp-dir", "/var/cache/engine": "engine-cache"}
        assert variables(pod).items() >= {**USER, **HOME, **CACHES}.items()
        assert all(str(path).startswith("/var/cache/engine") for path in HOME.values())


def test_variables_of_author_and_mounts_of_pool_take_precedence() -> None:
    own: tuple[Manifest, ...] = ({"name": "HOME", "value": "/home/me"}, {"name": "USER", "value": "me"})
    scratch: Manifest = {"name": "scratch", "mountPath": "/tmp/"}
    additions = PodAdditions(volumes=({"name": "scratch", "emptyDir": {}},), volume_mounts=(scratch,))
    leader, _ = build_pods(request(PIPELINE, engine(env=own), pool=replace(FRONTIER, pod=additions)))
    assert variables(leader).items() >= {"HOME": "/home/me", "USER": "me"}.items()
    assert mounts(leader) == {"/dev/shm": "dshm", "/tmp/": "scratch", "/var/cache/engine": "engine-cache"}


# Arguments that name another repository than the model's, or let the engine look for one, in each spelling.
VLLM_REPOSITORIES = (
    ("--tokenizer=org/other",),
    ("--hf-config-path", "org/other"),
    ('--speculative_config={"model": "org/draft"}',),
    ("--speculative-config.model=org/draft",),
    ("--speculative_config.model", "org/draft"),
    ('-sc={"model": "org/draft"}',),
    ("-sc.model", "org/draft"),
    ("--spec-model=org/draft",),
    ("--speculative-model=org/draft",),
    ("--speculative-conf.model=org/draft",),
    ("--lora-modules", "sql=org/adapter"),
    ("--default-mm-loras", '{"audio": "org/adapter"}'),
    ("--generation-config=org/other",),
    ("--trust-remote-code",),
)
SGLANG_REPOSITORIES = (
    ("--tokenizer-path=org/other",),
    ("--speculative-draft-model-path=org/draft",),
    ("--speculative-draft-model", "org/draft"),
    ("--speculative-token-map=org/draft/map.pt",),
    ("--lora-paths", "sql=org/adapter"),
    ("--trust-remote-code",),
)


@pytest.mark.parametrize(
    "run",
    [
        *(engine(*args) for args in VLLM_REPOSITORIES),
        *(engine(*args, image=SGLANG) for args in SGLANG_REPOSITORIES),
        engine(env=({"name": "HF_TOKEN", "value": "x"},)),
        engine(env=({"name": "HF_HUB_OFFLINE", "value": "0"},)),
    ],
    ids=lambda run: " ".join((*run.args, *(entry["name"] for entry in run.env))),
)
def test_engine_with_hub_settings_is_not_offline(run: Engine) -> None:
    (pod,) = build_pods(request(run=run, source=HUB))
    assert variables(pod).get("HF_HUB_OFFLINE") in {None, "0"}
    assert variables(pod).keys() >= CACHES.keys()


@pytest.mark.parametrize(
    "run",
    [
        engine("--tokenizer-mode=mistral", "--speculative-disable-by-batch-size=4", "--max-model-len", "4096"),
        engine("--speculative-num-steps=3", "--trust-remote-code-of-nobody", image=SGLANG),
    ],
    ids=["vllm", "sglang"],
)
def test_flags_that_only_begin_like_those_of_repositories_leave_the_engine_offline(run: Engine) -> None:
    (pod,) = build_pods(request(run=run, source=HUB))
    assert variables(pod)["HF_HUB_OFFLINE"] == "1"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    weights: int | None
    nodes: int
    want: int
    bandwidth: int | None = None


CASES = [
    Case("nothing-to-load", "the probe allows 600 s for the engine, with one attempt every 10 s", 0, 1, 60),
    Case("one-byte", "one byte of weights counts as 1Gi, which allows 608 s", 1, 1, 61),
    Case("gemma", "55Gi of weights allow 600 s + 55 x 8 s = 1040 s", 55 * GIB, 1, 104),
    Case("unknown", "weights of unknown size allow one hour", None, 1, 360),
    Case("unknown-group", "weights of unknown size allow one and a half hours for a group", None, 2, 540),
    Case("kimi", "960Gi of weights allow a group 600 s + 960 x 8 s + 1800 s = 10080 s", 960 * GIB, 2, 1008),
    Case(
        "measured",
        "a declared bandwidth allows 600 s + 4 x 960 x 2^30 / 2e9, which is 600 s + 4 x 516 s = 2664 s",
        960 * GIB,
        1,
        267,
        2 * 10**9,
    ),
    Case("slow", "a low bandwidth allows a group 600 s + 4 x 10e9 / 10e6 + 1800 s = 6400 s", 10**10, 2, 640, 10**7),
    Case("speed-of-nothing", "the bandwidth does not count without a size of the weights", None, 1, 360, 2 * 10**9),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_startup_budget_grows_with_weights(case: Case) -> None:
    shape = ONE_GPU if case.nodes == 1 else PIPELINE
    asked = request(shape, weights=case.weights, bandwidth=case.bandwidth)
    assert get(get_main(build_pods(asked)[0]), "startupProbe.failureThreshold") == case.want, case.reason


def times(container: Manifest) -> dict[str, list[JSON]]:
    """Returns period, timeout and failures of each probe."""
    fields = ("periodSeconds", "timeoutSeconds", "failureThreshold")
    return {key: [get(container, f"{key}.{field}") for field in fields] for key in container if key.endswith("Probe")}


@pytest.mark.parametrize("shape", [ONE_GPU, ONE_NODE, DATA, PIPELINE])
@pytest.mark.parametrize("image", [VLLM_NEW, VLLM_RANKS])
def test_every_start_of_vllm_is_probed_alike(shape: Shape, image: str) -> None:
    """A saturated engine answers after more than a second, and KServe's presets would remove its only endpoint."""
    leader, *workers = build_pods(request(shape, engine(image=image), weights=0))
    assert times(get_main(leader)) == {
        "startupProbe": [10, 5, 60 if shape.nodes == 1 else 240],
        "readinessProbe": [10, 5, 3],
        "livenessProbe": [10, 5, 30],
    }
    assert all(times(get_main(worker)) == {} for worker in workers)


def test_preset_container_gets_only_the_times_of_probes() -> None:
    """The path, the port and the scheme stay the preset's, which knows whether KServe serves TLS."""
    (pod,) = build_pods(request(weights=0))
    assert get_main(pod)["readinessProbe"] == {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3}
    assert "ports" not in get_main(pod)


@pytest.mark.parametrize(
    ("image", "path", "seconds", "reason"),
    [
        (VLLM_OLD, "/health", 5, "vLLM's /health answers at once, with 503 when the engine is dead"),
        (SGLANG, "/health_generate", 25, "SGLang's /health_generate generates a token, which takes up to 20 s"),
    ],
)
def test_own_server_is_probed_in_plain_http(image: str, path: str, seconds: int, reason: str) -> None:
    check = {"httpGet": {"path": path, "port": 8000, "scheme": "HTTP"}, "timeoutSeconds": seconds, "periodSeconds": 10}
    main = get_main(build_pods(request(PIPELINE, engine(image=image), weights=0))[0])
    assert {key: main[key] for key in main if key == "ports" or key.endswith("Probe")} == {
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "startupProbe": {**check, "failureThreshold": 240},
        "readinessProbe": {**check, "failureThreshold": 3},
        "livenessProbe": {**check, "failureThreshold": 30},
    }, reason
