"""Records survive the status: the values read back equal the values written."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from function.domain.allocation import Grant, Release, Share
from function.domain.model_service import Gateway
from function.domain.records.admission import build_released, build_revoked, parse_admission
from function.domain.records.rollout import PendingUpdate, RolloutRecord, build_rollout, parse_rollout
from function.domain.records.service import ServiceRecord, build_service_record, parse_service
from function.domain.records.weights import DownloadRecord, WeightsRecord, build_weights, parse_weights
from function.kube.urls import Origin

words = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
counts = st.integers(0, 99)
pairs = st.dictionaries(names, names, max_size=3).map(lambda items: tuple(sorted(items.items())))
shares = st.builds(
    Share, pool=names, nodes=counts, gpus_per_node=counts, replicas=counts, exclusive_replica_nodes=st.booleans()
)
origins = st.builds(Origin, st.sampled_from(["http", "https"]), names, st.integers(1, 65535))
gateways = st.builds(
    Gateway, origin=origins, name=names, namespace=names, provider_config=names, tls_hostname=words, ca_config_map=words
)


@given(
    st.builds(
        ServiceRecord,
        name=words,
        namespace=words,
        url=words,
        serving_uri=words,
        applied_uri=words,
        allocated=st.none() | shares,
        backend_service_name=words,
        traits=pairs,
        gateway=st.none() | gateways,
    )
)
def test_service(record: ServiceRecord) -> None:
    is_exclusive = record.allocated is not None and record.allocated.exclusive_replica_nodes
    assert parse_service(build_service_record(record), exclusive_replica_nodes=is_exclusive) == record


@given(
    words,
    words,
    st.builds(DownloadRecord, claim=words, path=words, claim_uid=words),
    st.none() | st.tuples(names, words),
)
def test_weights(uri: str, access_mode: str, hydration: DownloadRecord, completed: tuple[str, str] | None) -> None:
    """The location of a download is recorded once the download is complete."""
    if completed:
        hydration = replace(hydration, completed_at=completed[0], namespace=completed[1], retry=completed[1])
    record = WeightsRecord(planned_uri=uri, access_mode=access_mode, download=hydration)
    assert parse_weights(build_weights(record)) == record


@given(
    st.builds(
        RolloutRecord,
        served_digest=words,
        requested_digest=words,
        update=st.none() | st.builds(PendingUpdate, words, stalled=st.booleans()),
        model_generation=st.integers(0, 9),
    )
)
def test_rollout(record: RolloutRecord) -> None:
    assert parse_rollout(build_rollout(record)) == record


@given(st.integers(1, 9), st.integers(0, 9), shares, st.sets(names, max_size=3))
def test_admission(generation: int, later: int, share: Share, versions: set[str]) -> None:
    share = replace(share, exclusive_replica_nodes=False)
    released = Release(generation=generation, request=share)
    grants = [Grant(uid="a", namespace="b", name="c", share=share, revoked=version) for version in versions]
    status = build_released(released) | build_revoked(grants)
    found = parse_admission({"metadata": {"generation": generation + later}, "status": status})
    assert (found.released, {*found.revoked}) == (released, versions)
    restored = parse_admission({"metadata": {"generation": generation - 1}, "status": status})
    assert restored.released is None, "a restored backup counts generations from 1, so the release is dropped"
