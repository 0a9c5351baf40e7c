"""Parses command lines as `python3 -m sglang.launch_server` does, with the SGLang on the path; see vllm_parser.py.

No configuration is made, as that asks SGLang's kernels: the answers have what the parser makes of the arguments.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import sys
import types
from argparse import ArgumentParser

START = ["-m", "sglang.launch_server"]
# Names of versions before 0.5.23.
NAMES = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "ep_size": "expert_parallel_size",
}


STAND_INS = {"IPython", "torchvision"}  # notebooks and pictures


class Module(types.ModuleType):
    """A module with every name that is imported from it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules in the place of packages that only other parts of SGLang use."""

    def find_spec(self, name, path=None, target=None):
        known = name.partition(".")[0] in STAND_INS
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


def run(server_args, arguments):
    """Returns what one command line means."""
    if arguments[:2] != START:
        return {"error": f"{arguments[:2]} is not SGLang's server"}
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            values = vars(server_args.prepare_server_args(arguments[2:]))
    except SystemExit:
        return {"error": errors.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # noqa: BLE001  # whatever SGLang refuses is an answer
        return {"error": f"{type(error).__name__}: {error}"}
    values |= {name: values[earlier] for name, earlier in NAMES.items() if name not in values}
    said = {key: value for key, value in values.items() if isinstance(value, str | int | float | None)}
    return {"args": said, "role": "headless" if said["node_rank"] else "server"}


def is_text(action):
    """Tells whether the value of a flag may be any text."""
    return action.nargs != 0 and not action.choices and action.type not in (int, float)


def main():
    """Answer one request."""
    asked = json.load(sys.stdin)
    answers = os.dup(1)
    os.dup2(2, 1)  # SGLang logs on standard output
    # Before the stand-ins, as transformers asks whether torchvision is there.
    assert importlib.import_module("transformers").AutoProcessor
    sys.meta_path.insert(0, StandIns())
    server_args = importlib.import_module("sglang.srt.server_args")
    server_args.ServerArgs.from_cli_args = classmethod(lambda _, args: args)
    parser = ArgumentParser()
    server_args.ServerArgs.add_cli_args(parser)
    said = [run(server_args, arguments) for arguments in asked["commands"]]
    options = sorted({option for action in parser._actions for option in action.option_strings})
    choices = {option: [*a.choices] for a in parser._actions if a.choices for option in a.option_strings}
    texts = {option: a.help or "" for a in parser._actions if is_text(a) for option in a.option_strings}
    with os.fdopen(answers, "w") as out:
        json.dump({"options": options, "choices": choices, "texts": texts, "answers": said}, out)


if __name__ == "__main__":
    main()
