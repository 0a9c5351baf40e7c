"""Proposes serving profiles for a latency and a load, computed by aiconfigurator (the extra `planner`).

aiconfigurator predicts from measurements of GPUs and engines that it comes with. Nothing is measured here, and this
project adds nothing to the numbers: it chooses the GPUs that a pool has, and leaves out what misses the latency.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from function.cli.options import import_extra
from function.domain.allocation import format_replica
from function.domain.environment import Pool
from function.domain.model import EngineName
from function.kube.manifests import Manifest
from function.kube.messages import format_count

EXTRA = "planner"
# The GPUs that aiconfigurator has measured, by our accelerator types; where a type has two, by what connects the GPUs.
_SYSTEMS = {
    "nvidia-l4-24gb": "l4",
    "nvidia-a30-24gb": "a30",
    "nvidia-l40s-48gb": "l40s",
    "nvidia-b200-180gb": "b200_sxm",
    "nvidia-gb200-186gb": "gb200",
    "nvidia-h200-141gb": "h200_sxm",
    "nvidia-a100-80gb": "a100_sxm",
    "nvidia-h100-80gb": "h100_sxm",
}
_PCIE_SYSTEMS = {"nvidia-a100-80gb": "a100_pcie", "nvidia-h100-80gb": "h100_pcie"}
_BACKENDS = {EngineName.VLLM: "vllm", EngineName.SGLANG: "sglang"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What users are to get, and how much they ask for."""

    ttft: int  # milliseconds until the first token
    itl: int  # milliseconds between two tokens
    requests_per_second: float
    input_tokens: int  # of a request
    output_tokens: int  # of its answer

    @property
    def description(self) -> str:
        tokens = f"{self.input_tokens:,} input and {self.output_tokens:,} output tokens a request"
        load = f"{self.requests_per_second:g} requests per second"
        return f"{load} with {tokens}, TTFT at most {self.ttft} ms, ITL at most {self.itl} ms"


def find_system(pool: Pool) -> str:
    """Returns the name that aiconfigurator has for the GPUs of a pool; empty if it has measured none."""
    if pool.interconnect == "pcie":
        return _PCIE_SYSTEMS.get(pool.accelerator_type, _SYSTEMS.get(pool.accelerator_type, ""))
    return _SYSTEMS.get(pool.accelerator_type, "")


def propose_profiles(
    model: str, engine: EngineName, pools: Iterable[tuple[str, Pool]], target: Target
) -> Iterator[Manifest]:
    """Yields for each pool the proposal with the fewest GPUs, or why there is none.

    `model`: a repository on Hugging Face, or a folder with config.json. `pools` have the names of their environments.
    """
    planner = import_extra("aiconfigurator.cli.api", EXTRA)
    known: dict[tuple[str, int], Manifest] = {}
    for environment, pool in pools:
        system = find_system(pool)
        row: Manifest = {"environment": environment, "pool": pool.name, "system": system}
        key = system, pool.gpus_per_node
        if not system:
            yield {**row, "obstacle": f"aiconfigurator has not measured {pool.accelerator_type or 'this accelerator'}"}
            continue
        if key not in known:
            click.echo(f"computing {system}, which takes about half a minute", err=True)
            rows, reason = _ask(planner, model, system, _BACKENDS[engine], target)
            known[key] = _choose(rows, pool, target) if rows else {"obstacle": reason}
        proposal = known[key]
        yield {**row, **proposal, **_check_room(proposal, pool)}


def _ask(planner: Any, model: str, system: str, backend: str, target: Target) -> tuple[list[dict[str, Any]], str]:
    """Returns the configurations without separate prefill, the fewest GPUs first, or why there are none."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = planner.cli_recommend(
                model_path=model,
                system=system,
                backend=backend,
                target_request_rate=target.requests_per_second,
                isl=target.input_tokens,
                osl=target.output_tokens,
                ttft=float(target.ttft),
                tpot=float(target.itl),
            )
        found = result.best_configs.get("agg")
        return ([] if found is None else found.to_dict("records")), "aiconfigurator finds no configuration"
    except Exception as error:  # noqa: BLE001  # its own errors have no common class, and other pools may have an answer
        return [], f"aiconfigurator: {' '.join(str(error).split()) or type(error).__name__}"
    finally:
        logging.disable(level)


def _choose(rows: list[dict[str, Any]], pool: Pool, target: Target) -> Manifest:
    """Returns the configuration that keeps the latency with the fewest GPUs, in shapes that a pool can have."""
    nearest = min(rows, key=lambda row: row["tpot"])
    fitting = [row for row in rows if row["ttft"] <= target.ttft and row["tpot"] <= target.itl]
    if not fitting:
        return {"obstacle": f"at best TTFT {nearest['ttft']:.0f} ms and ITL {nearest['tpot']:.1f} ms"}
    shaped = [row for row in fitting if _is_a_shape(row, pool)]
    if not shaped:
        return {"obstacle": f"replicas of {fitting[0]['num_total_gpus']} GPUs have no shape on nodes of the pool"}
    row = min(shaped, key=lambda row: (row["total_gpus_needed"], row["num_total_gpus"]))
    nodes, per_node = _divide(int(row["num_total_gpus"]), pool.gpus_per_node) or (1, 1)
    data = int(row["dp"])
    parallelism: Manifest = {
        "tensor": int(row["tp"]),
        **({"data": data, "dataLocal": data // nodes} if data > 1 else {"pipeline": int(row["pp"])}),
        **({"expert": "enabled"} if int(row["moe_ep"]) > 1 else {}),
    }
    topology: Manifest = {"nodes": nodes, "gpusPerNode": per_node, "parallelism": parallelism}
    requires: Manifest = {"acceleratorType": pool.accelerator_type}
    return {
        "replicas": int(row["replicas_needed"]),
        "gpus": int(row["total_gpus_needed"]),
        "replica": format_replica(nodes, per_node),
        "ttft": round(float(row["ttft"])),
        "itl": round(float(row["tpot"]), 1),
        "requestsPerSecond": round(float(row["request_rate"]) * int(row["replicas_needed"]), 2),
        "concurrency": int(row["concurrency"]),
        "engineVersion": f"{row['backend']} {row['version']}",
        "profile": {"name": pool.name, "replicaTopology": {**topology, "requires": requires}},
    }


def _is_a_shape(row: Mapping[str, Any], pool: Pool) -> bool:
    """Tells whether replicaTopology can say how a configuration is spread over nodes (docs/concepts.md)."""
    divided = _divide(int(row["num_total_gpus"]), pool.gpus_per_node)
    if divided is None:
        return False
    nodes, _ = divided
    if nodes > 1 and not pool.multi_node:
        return False
    if row["dp"] > 1:
        return bool(row["pp"] == 1 and row["dp"] % nodes == 0)
    return bool(row["pp"] in (1, nodes))


def _divide(gpus: int, per_node: int) -> tuple[int, int] | None:
    """Returns nodes and GPUs on each of them; None if whole nodes do not make up the number."""
    if gpus <= per_node:
        return 1, gpus
    return (gpus // per_node, per_node) if gpus % per_node == 0 else None


def _check_room(proposal: Manifest, pool: Pool) -> Manifest:
    """Returns the obstacle that a pool is too small for a proposal, were it empty."""
    gpus = proposal.get("gpus")
    capacity = pool.max_nodes * pool.gpus_per_node
    if isinstance(gpus, int) and gpus > capacity:
        return {"obstacle": f"{format_count(gpus, 'GPU')} needed, the pool has {capacity}"}
    return {"obstacle": proposal.get("obstacle", "")}


def find_model_path(config: str | None, repo: str) -> str:
    """Returns what aiconfigurator reads a model's config from: the folder of a file, or a repository."""
    return str(Path(config).resolve().parent) if config else repo
