"""Stands in for the image's entry point: pairs of URI and directory, handed to the real storage program."""

import sys

from kserve_storage import Storage, configure_logging  # type: ignore[import-untyped]  # ships no types

configure_logging()
if len(sys.argv) < 3 or len(sys.argv) % 2 != 1:
    sys.exit("usage: initializer uri directory ...")
Storage.download_files(sys.argv[1::2], sys.argv[2::2])
