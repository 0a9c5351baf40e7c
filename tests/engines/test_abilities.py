"""The tables of `function/domain/engines.py` against the engines, row by row and version by version.

Not checked here, as it needs the image or a running engine: whether the image has the package of `runai_streamer`,
health checks, and whether SGLang loads GGUF files in several parts.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from function.domain.engine_flags import DTYPE, DTYPES, find_meant_flag, find_missing_number, list_common_flags
from function.domain.engines import ENGINES, SERVED_NAME, Ability, EngineSpec, has_ability, parse_flags
from function.domain.model import Engine, EngineName
from function.kube.manifests import list_texts
from function.serving.service import build_service
from tests.engines.asking import Answers, ask
from tests.engines.known_flags import TARGET, format_module
from tests.engines.pods import Cluster
from tests.engines.replica import Group
from tests.engines.shapes import CASES, IMAGES, name_engine
from tools import engines
from tools.engines import Release, list_releases

pytestmark = pytest.mark.engines
Matrix = Callable[[Release], tuple[dict[str, Group], Answers]]
VLLM, SGLANG = list_releases("vllm"), list_releases("sglang")
FLAGS = {
    (EngineName.VLLM, Ability.NODES): ("--nnodes", "--node-rank", "--master-addr"),
    (EngineName.VLLM, Ability.RANKS_OVER_NODES): (
        "--data-parallel-address",
        "--data-parallel-start-rank",
        "--headless",
        "--api-server-count",
    ),
    (EngineName.VLLM, Ability.JOIN_TIMEOUT): ("--distributed-timeout-seconds",),
    (EngineName.VLLM, Ability.DRAIN): ("--shutdown-timeout",),
    (EngineName.VLLM, Ability.TLS): ("--ssl-certfile", "--ssl-keyfile", "--enable-ssl-refresh"),
    (EngineName.SGLANG, Ability.NODES): ("--nnodes", "--node-rank", "--dist-init-addr"),
    (EngineName.SGLANG, Ability.JOIN_TIMEOUT): ("--dist-timeout",),
    (EngineName.SGLANG, Ability.TLS): ("--ssl-certfile", "--ssl-keyfile"),
}
GONE = {  # of releases before the oldest that is asked
    *("--enable-ep-moe", "--speculative-model", "--prompt-adapters", "--qlora-adapter-name-or-path")
}
LOAD_FORMATS = {Ability.GGUF: "gguf"}  # of SGLang


def name_release(release: Release) -> str:
    return f"{release.package}-{release.version}"


def believes(release: Release, ability: Ability) -> bool:
    """Tells whether this function believes that the stock image of a version has an ability."""
    name = name_engine(release)
    return has_ability(Engine(name=name, image=f"{IMAGES[name]}:v{release.version}"), ability)


@pytest.mark.parametrize(
    ("release", "ability"),
    [
        pytest.param(release, ability, id=f"{name_release(release)}-{ability.name}")
        for name, ability in FLAGS
        for release in list_releases(name.lower())
    ],
)
def test_has_the_flags_of_its_abilities(matrix: Matrix, release: Release, ability: Ability) -> None:
    options = matrix(release)[1].options
    assert options.issuperset(FLAGS[name_engine(release), ability]) is believes(release, ability)


@pytest.mark.parametrize("release", VLLM, ids=name_release)
def test_vllm_brings_what_its_image_has(release: Release) -> None:
    folder = engines.install(release)
    requirements = (folder / "requirements" / "cuda.txt").read_text()
    assert ("\nray" in requirements) is believes(release, Ability.RAY)
    executor = folder / "vllm" / "model_executor"
    assert (executor / "layers" / "quantization" / "gguf.py").exists() is believes(release, Ability.GGUF)


@pytest.mark.parametrize("release", VLLM, ids=name_release)
def test_vllm_has_the_loaders_of_its_abilities(release: Release) -> None:
    loaders = engines.install(release) / "vllm" / "model_executor" / "model_loader"
    if believes(release, Ability.GGUF):
        assert _mentions(loaders, "-of-(\\d+)\\.gguf") is believes(release, Ability.GGUF_PARTS)


@pytest.mark.parametrize("ability", LOAD_FORMATS, ids=lambda ability: ability.name)
@pytest.mark.parametrize("release", SGLANG, ids=name_release)
def test_sglang_has_the_load_formats_of_its_abilities(matrix: Matrix, release: Release, ability: Ability) -> None:
    formats = list_texts(matrix(release)[1].choices, "--load-format")
    assert (LOAD_FORMATS[ability] in formats) is believes(release, ability)


@pytest.mark.parametrize("release", [r for r in VLLM if believes(r, Ability.RANKS_OVER_NODES)], ids=name_release)
def test_kserves_preset_starts_ranks_where_the_table_says_so(release: Release, cluster: Cluster, model: Path) -> None:
    """With a start rank on the leader, the balancer must still be the one that headless workers join."""
    (case,) = (case for case in CASES if case.id == "data-two-ranks")
    asked = case.ask(EngineName.VLLM, "0.27.1")
    leader, *_ = cluster.run(build_service(asked), release.version)
    (answer,) = ask(release, [leader.engine], model, gpus=8).answers
    starts = not (answer.error or answer.refused) and not answer.config.get("data_parallel_hybrid_lb")
    assert starts is believes(release, Ability.KSERVE_RANKS)


@pytest.mark.parametrize("name", EngineName)
def test_knows_no_flag_that_no_version_has(matrix: Matrix, name: EngineName) -> None:
    options = frozenset[str]().union(*(matrix(release)[1].options for release in list_releases(name.lower())))
    unknown = {flag for flag in _list_flags(ENGINES[name]) if not any(_matches(flag, option) for option in options)}
    assert unknown <= GONE


@pytest.mark.parametrize("release", [*VLLM, *SGLANG], ids=name_release)
def test_no_flag_of_an_engine_counts_as_misspelt(matrix: Matrix, release: Release) -> None:
    answers = matrix(release)[1]
    known = list_common_flags(ENGINES[name_engine(release)])
    assert {flag: meant for flag in answers.options if (meant := find_meant_flag(flag, known))} == {}
    assert set(list_texts(answers.choices, DTYPE)) <= set(DTYPES)


def test_known_flags_are_those_of_all_versions(matrix: Matrix) -> None:
    """`python -m tests.engines.known_flags` writes them again."""
    assert TARGET.read_text() == format_module(lambda release: matrix(release)[1].options)


@pytest.mark.parametrize("release", [VLLM[0], VLLM[-1], SGLANG[0], SGLANG[-1]], ids=name_release)
def test_numbers_are_what_the_parsers_take(model: Path, release: Release) -> None:
    spec = ENGINES[name_engine(release)]
    start = ("serve", "/mnt/models") if release in VLLM else ("-m", "sglang.launch_server", "--model-path=/mnt/models")
    flags = (*spec.whole_number_flags, *spec.rounded_number_flags)
    args = [f"{flag}={value}" for flag in flags for value in ("16", "many", "")]
    answers = ask(release, [(*start, arg) for arg in args], model, gpus=8).answers
    refused = [arg for arg, answer in zip(args, answers, strict=True) if answer.error]
    assert refused == [f"{flag}={value}" for flag in flags for value in ("many", "")]
    ours = [arg for arg in args for flag in parse_flags((arg,)) if find_missing_number(spec, flag)]
    assert refused == ours


def _list_flags(spec: EngineSpec) -> list[str]:
    managed = [name for flags in spec.managed_flags for name in flags.names]
    single = [spec.expert_flag.partition("=")[0], spec.join_timeout_flag, spec.tokenizer_flag, spec.context_flag]
    single += [spec.memory_share_flag, DTYPE]
    sizes = (flag for flags in spec.size_flags.values() for flag in flags)
    several = (
        *spec.whole_number_flags,
        *spec.rounded_number_flags,
        *sizes,
        *spec.switch_flags,
        *spec.weights_flags,
        *spec.tls_flags,
        *spec.author_flags,
        *spec.common_flags,
        *spec.repository_flags,
    )
    shared = [spec.shared_ranks_flag] if spec.shared_ranks_flag else []
    return [*managed, *single, *several, *shared, SERVED_NAME]


def _matches(flag: str, option: str) -> bool:
    """Tells whether a flag or its abbreviation, such as SGLang's `--tp`, is an option; `*` stands for any end."""
    is_prefix = flag.startswith("--") or flag.endswith("*")
    return option == flag or (is_prefix and option.startswith(flag.removesuffix("*")))


def _mentions(folder: Path, words: str) -> bool:
    return any(words in path.read_text() for path in folder.rglob("*.py"))
