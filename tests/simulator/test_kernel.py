"""Simulated time: what is due at one moment keeps its order, servers are shared, nothing waits for lazy events."""

from bench.simulator.kernel import Kernel, Process, Servers


def test_one_moment_keeps_the_order_of_asking() -> None:
    kernel, seen = Kernel(), list[str]()
    kernel.at(1, lambda: seen.append("first"))
    kernel.at(0.5, lambda: kernel.at(0.5, lambda: seen.append("third")))
    kernel.at(1, lambda: seen.append("second"))
    assert kernel.run(10)
    assert seen == ["first", "second", "third"]


def test_who_finds_no_server_waits_for_one() -> None:
    kernel, done, servers = Kernel(), list[tuple[str, float]](), Servers(2)

    def work(name: str) -> "Process[None]":
        yield from kernel.busy(servers, 1.0)
        done.append((name, kernel.now))

    for name in "abc":
        kernel.spawn(work(name))
    assert kernel.run(10)
    assert done == [("a", 1.0), ("b", 1.0), ("c", 2.0)]


def test_nobody_waits_for_what_is_lazy() -> None:
    kernel, seen = Kernel(), list[str]()
    kernel.at(5, lambda: seen.append("lazy"), lazy=True)
    kernel.at(1, lambda: seen.append("due"))
    assert kernel.run(10)
    assert (seen, kernel.now) == (["due"], 1)
    kernel.pass_time(10)
    assert (seen, kernel.now) == (["due", "lazy"], 11)


def test_what_never_ends_is_told() -> None:
    kernel = Kernel()

    def again() -> None:
        kernel.at(1, again)

    again()
    assert not kernel.run(10)
