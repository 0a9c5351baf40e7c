"""What the pods of a replica must be to SGLang: arithmetic of the shape, compared with what its parser made of it."""

from function.domain.model import Shape
from function.kube.manifests import Manifest
from tests.engines.pods import LEADER
from tests.engines.replica import CERTIFICATES, Group, Replica


def check_replica(group: Group, replica: Replica) -> None:
    """Every pod has its place in the replica and serves the model."""
    assert len(group) == replica.shape.nodes
    for index, (_, answer) in enumerate(group):
        assert answer is not None
        assert answer.error == ""
        _check_serving(answer.args, replica)
        _check_sizes(answer.args, replica.shape)
        assert (answer.args["nnodes"], answer.args["node_rank"]) == (replica.shape.nodes, index)
        if replica.shape.nodes > 1:
            assert answer.args["dist_init_addr"] == f"{LEADER}:20000"
            assert answer.args["dist_timeout"] == 1800, "half an hour for nodes that scale from zero"


def _check_serving(args: Manifest, replica: Replica) -> None:
    assert (args["model_path"], args["served_model_name"]) == (replica.weights, replica.names[0])
    assert (args["host"], args["port"]) == ("0.0.0.0", 8000)
    files = (f"{CERTIFICATES}/tls.crt", f"{CERTIFICATES}/tls.key") if replica.tls else (None, None)
    assert (args.get("ssl_certfile"), args.get("ssl_keyfile")) == files


def _check_sizes(args: Manifest, shape: Shape) -> None:
    split = shape.parallelism
    expected = [split.tensor, split.pipeline, split.data or 1, split.tensor if split.expert else 1]
    assert [args[f"{part}_size"] for part in ("tp", "pp", "dp", "ep")] == expected
    assert split.tensor * split.pipeline * (split.data or 1) == shape.nodes * shape.gpus_per_node
