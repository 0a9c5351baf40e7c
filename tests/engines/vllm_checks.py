"""What the pods of a replica must be to vLLM: arithmetic of the shape, compared with the configuration that it made."""

from collections.abc import Sequence

from function.domain.model import Mode, Shape
from tests.engines.asking import Answer
from tests.engines.pods import ADDRESS, LEADER
from tests.engines.replica import CERTIFICATES, Group, Replica

_DRAINS = (0, 18)  # the first version with --shutdown-timeout
_RANKS_CONFIGURED = (0, 11)  # 0.9.1 starts its ranks from the argument, past its configuration
_OWN_RANKS = (0, 28)  # the first version that KServe's preset for data parallelism cannot start


def check_replica(group: Group, replica: Replica) -> None:
    """Every pod has its place in the replica, and the leader serves the model under both names."""
    assert len(group) == replica.shape.nodes
    started = [answer for _, answer in group if answer]
    for answer in started:
        assert (answer.error, answer.refused) == ("", "")
        _check_serving(answer, replica)
        _check_sizes(answer, replica.shape)
    assert [answer.role in {"server", "servers"} for answer in started] == [True] + [False] * (len(started) - 1)
    if replica.shape.mode is Mode.DATA:
        _check_ranks(started, replica)
        if replica.version >= _OWN_RANKS:
            assert started[0].config["api_servers"] == replica.shape.parallelism.data, "one for each rank"
    elif len(started) > 1:
        _check_nodes(started, replica.shape)
    elif replica.shape.nodes > 1:
        _check_ray(group)


def _check_serving(answer: Answer, replica: Replica) -> None:
    args = answer.args
    assert (args["model"], args["served_model_name"]) == (replica.weights, [*replica.names])
    assert args["port"] == 8000
    assert args["host"] in {None, "0.0.0.0"}, "every address"  # what vLLM was told
    files = (f"{CERTIFICATES}/tls.crt", f"{CERTIFICATES}/tls.key") if replica.tls else (None, None)
    assert (args["ssl_certfile"], args["ssl_keyfile"]) == files
    if replica.version >= _DRAINS:
        assert args["shutdown_timeout"] == 40, "a minute of grace, less a pause of 15 s and 5 s"


def _check_sizes(answer: Answer, shape: Shape) -> None:
    """The split is the same on every pod, and the leader alone balances among ranks."""
    config, split = answer.config, shape.parallelism
    sizes = [config[f"{part}_parallel_size"] for part in ("tensor", "pipeline", "data")]
    assert sizes == [split.tensor, split.pipeline, split.data or 1]
    assert config["enable_expert_parallel"] is split.expert
    assert not config.get("data_parallel_external_lb")
    assert not config.get("data_parallel_hybrid_lb")


def _check_ranks(started: Sequence[Answer], replica: Replica) -> None:
    """Each data rank is on one pod, and each pod has as many as its GPUs hold."""
    shape = replica.shape
    assert len(started) == shape.nodes
    first = [_first_rank(answer, replica) for answer in started]
    local = [_number(answer, "data_parallel_size_local") for answer in started]
    assert [count * shape.parallelism.tensor for count in local] == [shape.gpus_per_node] * shape.nodes
    ranks = [rank for start, count in zip(first, local, strict=True) for rank in range(start, start + count)]
    assert ranks == [*range(shape.parallelism.data or 1)]
    assert {answer.config["data_parallel_master_ip"] for answer in started} == {ADDRESS}
    assert len({answer.config["data_parallel_rpc_port"] for answer in started}) == 1


def _first_rank(answer: Answer, replica: Replica) -> int:
    if replica.version >= _RANKS_CONFIGURED:
        return _number(answer, "data_parallel_rank")
    rank = answer.args["data_parallel_start_rank"]
    assert isinstance(rank, int)
    return rank


def _check_nodes(started: Sequence[Answer], shape: Shape) -> None:
    """Each pod has its own rank and the leader's address."""
    assert [answer.config["node_rank"] for answer in started] == [*range(shape.nodes)]
    assert {answer.config["nnodes"] for answer in started} == {shape.nodes}
    assert {answer.config["master_addr"] for answer in started} == {LEADER}
    assert len({answer.config["master_port"] for answer in started}) == 1
    assert {answer.config["distributed_executor_backend"] for answer in started} == {"mp"}
    assert {_number(answer, "local_world_size") for answer in started} == {shape.gpus_per_node}


def _check_ray(group: Group) -> None:
    """The leader is the head of a Ray cluster, which every worker joins."""
    (leader, answer), *workers = group
    assert answer is not None
    assert answer.config["distributed_executor_backend"] == "ray"
    assert leader.calls[0] == ("ray", "start", "--head", "--port=6379")
    join = ("ray", "start", f"--address={LEADER}:6379", "--block")
    assert [pod.calls for pod, _ in workers] == [(join,)] * len(workers)


def _number(answer: Answer, name: str) -> int:
    found = answer.config[name]
    assert isinstance(found, int), f"{name} is {found!r}"
    return found
