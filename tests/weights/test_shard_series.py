"""A file whose name says that it is one part of several promises the others."""

from pathlib import Path

import pytest

from function.weights.scripts import download_script as script
from tests.hub import weights
from tests.weights.directories import fill
from tests.weights.test_download_faults import NO_MODEL, Files

FILES = (
    Files(
        "series-without-index",
        "engines load every shard that exists, and the names tell how many must exist",
        {"config.json": b"{}", weights.FIRST: weights.safetensors()},
        {weights.SECOND: f"is missing, {weights.FIRST} promises it"},
    ),
    Files(
        "series-of-six-digits",
        "DeepSeek's numbers have five digits before and six behind",
        {"config.json": b"{}", "model-00002-of-000002.safetensors": weights.safetensors()},
        {"model-00001-of-000002.safetensors": "is missing, model-00002-of-000002.safetensors promises it"},
    ),
    Files(
        "series-of-short-numbers",
        "a name such as model-1-of-2 promises the other part whatever the width of its numbers",
        {"config.json": b"{}", "model-1-of-2.safetensors": weights.safetensors()},
        {"model-2-of-2.safetensors": "is missing, model-1-of-2.safetensors promises it"},
    ),
    Files(
        "series-of-short-numbers-without-description",
        "one part of a series is no complete model",
        {"model-1-of-2.safetensors": weights.safetensors()},
        {"": NO_MODEL, "model-2-of-2.safetensors": "is missing, model-1-of-2.safetensors promises it"},
    ),
    Files(
        "series-of-torch",
        "the rule is the same for every format of weights",
        {"config.json": b"{}", "pytorch_model_00002-of-00002.bin": b"x"},
        {"pytorch_model_00001-of-00002.bin": "is missing, pytorch_model_00002-of-00002.bin promises it"},
    ),
    Files(
        "series-of-more-than-nine",
        "Kimi's numbers have no leading zeros, so that their width grows",
        {"config.json": b"{}", **{f"model-{n}-of-11.safetensors": weights.safetensors() for n in range(1, 12)}},
        {},
    ),
    Files(
        "series-of-more-than-nine-incomplete",
        "each of the others promises the part that is missing",
        {"config.json": b"{}", **{f"model-{n}-of-11.safetensors": weights.safetensors() for n in (*range(1, 10), 11)}},
        {"model-10-of-11.safetensors": "is missing, model-9-of-11.safetensors promises it"},
    ),
    Files(
        "series-with-leading-zeros",
        "ten numbers of two digits",
        {"config.json": b"{}", **{f"model-{n:02}-of-10.safetensors": weights.safetensors() for n in range(1, 11)}},
        {},
    ),
    Files(
        "series-from-zero",
        "some repositories count from 0",
        {"config.json": b"{}", **{f"model-{n:05}-of-00002.safetensors": weights.safetensors() for n in (0, 1)}},
        {},
    ),
    Files(
        "series-from-zero-incomplete",
        "the last of them is one less than their number",
        {"config.json": b"{}", **{f"model-{n:05}-of-00003.safetensors": weights.safetensors() for n in (0, 1)}},
        {"model-00002-of-00003.safetensors": "is missing, model-00001-of-00003.safetensors promises it"},
    ),
    Files(
        "series-of-other-files",
        "engines open weights alone",
        {**weights.SINGLE, "figure-1-of-3.png": b"x", "train-00000-of-00009.parquet": b"x"},
        {},
    ),
)


@pytest.mark.parametrize("case", FILES, ids=lambda c: c.id)
def test_reports_missing_parts_of_a_series(root: Path, case: Files) -> None:
    fill(root, case.files)
    assert script.faults(root) == {root / name: fault for name, fault in case.want.items()}, case.reason
