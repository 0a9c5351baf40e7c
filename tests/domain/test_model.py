"""Values derived from the fields of a model: the GPUs of a replica, the list of its problems."""

from function.domain.environment import Environment, Pool
from function.domain.model import BrokenEntry, HuggingFaceSource, Model, Parallelism, Problem, Shape, add_disk_headroom


def test_counts_the_gpus_of_a_replica() -> None:
    assert Shape(nodes=4, gpus_per_node=4, parallelism=Parallelism(tensor=4, pipeline=4)).gpus == 16


def test_problems_of_all_profiles_are_sorted() -> None:
    first, second = (Problem("spec.serving[0].name", "is required"), Problem("spec.serving[1].name", "is required"))
    model = Model(
        kind="ClusterModel",
        name="m",
        served_name="m",
        source=HuggingFaceSource(repo="a/b"),
        profiles=(),
        broken=(BrokenEntry(name="b", problems=(second,)), BrokenEntry(name="a", problems=(first,))),
    )
    assert model.problems == (first, second)


def test_problem_is_shown_as_path_and_sentence() -> None:
    assert str(Problem("spec.serving[0].name", "is required")) == "spec.serving[0].name: is required"


def test_finds_a_pool_by_name() -> None:
    pool = Pool(name="h100", gpus_per_node=8, max_nodes=2)
    environment = Environment(name="east", pools=(pool,))
    assert environment.pool("h100") is pool
    assert environment.pool("h200") is None


def test_disk_is_a_tenth_more_than_the_files_rounded_up() -> None:
    assert (add_disk_headroom(100), add_disk_headroom(101), add_disk_headroom(0)) == (110, 112, 0)
