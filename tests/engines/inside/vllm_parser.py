"""Parses command lines as `vllm serve` does, with the vLLM on the path. Runs in the environment of the engines.

Standard input: `commands`, each a list of arguments, `model`, the folder that stands in for the weights, and `gpus`,
how many each pod seems to have. Standard output: every flag of the parser, and for each command what the parser says
and the parallelism that `create_engine_config` makes of it. Compiled extensions, the driver of the GPUs and the look
into the model's classes are stand-ins; all else is vLLM.
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
from dataclasses import fields

COMPILED = (
    "vllm._C",
    "vllm._moe_C",
    "vllm._C_stable_libtorch",
    "vllm.cumem_allocator",
    "vllm._flashmla_C",
    "vllm._qutlass_C",
)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in the place of compiled ones."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in COMPILED else None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        pass


class Operators:
    """The compiled operators: none is there, and none supports anything."""

    def __getattr__(self, name):
        if "support" not in name:
            raise AttributeError(name)
        return lambda *_: False


class ConfiguredError(Exception):
    """Ends a start where the configuration is made."""


def find(*places):
    """Returns the first attribute that this version has: `module:name`."""
    for place in places:
        module, _, name = place.partition(":")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f"none of {places}")


def pretend_gpus(count):
    """Makes vLLM see this many GPUs of the Hopper generation."""
    torch = importlib.import_module("torch")
    platforms = importlib.import_module("vllm.platforms")
    cuda = importlib.import_module("vllm.platforms.cuda")
    interface = importlib.import_module("vllm.platforms.interface")

    class Gpus(cuda.NvmlCudaPlatform):
        @classmethod
        def get_device_capability(cls, device_id=0):
            return interface.DeviceCapability(major=9, minor=0)

        @classmethod
        def has_device_capability(cls, capability, device_id=0):
            return capability <= ((9, 0) if isinstance(capability, tuple) else 90)

        @classmethod
        def get_device_name(cls, device_id=0):
            return "NVIDIA H200"

        @classmethod
        def get_device_total_memory(cls, device_id=0):
            return 141 << 30

        @classmethod
        def is_fully_connected(cls, device_ids):
            return True

        @classmethod
        def device_count(cls):
            return count

        @classmethod
        def log_warnings(cls):
            pass

    platforms._current_platform = Gpus()
    torch.ops._C = Operators()
    torch.cuda.device_count = lambda: count
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm") and hasattr(module, "cuda_device_count_stateless"):
            module.cuda_device_count_stateless = lambda: count


def accept_known_configurations():
    """Lets vLLM register configurations that transformers has brought, too, since that version."""
    auto = importlib.import_module("transformers").AutoConfig
    register = auto.register
    auto.register = lambda name, config, **_: register(name, config, exist_ok=True)


def skip_models():
    """Answers for every architecture that it generates text, without importing its kernels."""
    registry = importlib.import_module("vllm.model_executor.models.registry")
    able = ("is_text_generation_model", "supports_pp")
    defaults = {"str": "auto", "bool": False}

    def inspect(architecture, _model):
        facts = {f.name: defaults.get(str(getattr(f.type, "__name__", f.type))) for f in fields(registry._ModelInfo)}
        return registry._ModelInfo(**facts | {"architecture": architecture} | dict.fromkeys(able, True))

    registry._try_inspect_model_cls = inspect


def make_parser():
    """Returns vLLM's own parser with its `serve` command, and that command."""
    flexible = find("vllm.utils.argparse_utils:FlexibleArgumentParser", "vllm.utils:FlexibleArgumentParser")
    (serve,) = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    parser = flexible(description="vLLM CLI")
    serve.subparser_init(parser.add_subparsers(required=False, dest="subparser"))
    return parser, serve


def run(parser, serve, arguments, model):
    """Returns what one command line means."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            args = parser.parse_args(arguments)
            serve.validate(args)
    except SystemExit:
        return {"error": errors.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # noqa: BLE001  # whatever vLLM refuses is an answer
        return {"error": f"{type(error).__name__}: {error}"}
    values = vars(args)
    said = {"args": {key: value for key, value in values.items() if isinstance(value, str | int | float | list | None)}}
    said["args"]["model"] = values.get("model_tag") or values["model"]
    if values.get("distributed_executor_backend") == "ray":  # not installed here, so that no configuration can be made
        return said | {"role": "server", "config": {name: values[name] for name in PARALLEL if name in values}}
    return said | start(serve, args, model)


def start(serve, args, model):
    """Runs the command until its configuration is made; says which of vLLM's ways to start it takes."""
    module = importlib.import_module("vllm.entrypoints.cli.serve")
    arg_utils = importlib.import_module("vllm.engine.arg_utils")
    role, made = [], {}

    def record(**parts):
        made.update(describe(parts["parallel_config"]))
        raise ConfiguredError

    def serve_with(name):
        def start_servers(args):
            role.append(name)
            made["api_servers"] = args.api_server_count if name == "servers" else 1
            arg_utils.AsyncEngineArgs.from_cli_args(args).create_engine_config(usage_context=USAGE)

        return start_servers

    def run_loop(coroutine, **_):
        coroutine.close()
        serve_with("server")(args)

    arg_utils.VllmConfig = record
    module.run_multi_api_server = serve_with("servers")
    importlib.import_module("uvloop").run = run_loop
    if hasattr(args, "model_tag"):
        args.model_tag = model
    args.model = model
    if args.tokenizer:  # of another repository, of which nothing is here
        args.tokenizer = model
    try:
        serve.cmd(args)
    except ConfiguredError:
        return {"role": (role or ["headless"])[0], "config": made}
    except Exception as error:  # noqa: BLE001  # whatever vLLM refuses is an answer
        return {"role": (role or ["headless"])[0], "refused": f"{type(error).__name__}: {error}"}
    return {"role": (role or ["headless"])[0], "refused": "no configuration was made"}


PARALLEL = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local"),
    *("data_parallel_rank", "data_parallel_rank_local", "data_parallel_master_ip", "data_parallel_rpc_port"),
    *("data_parallel_external_lb", "data_parallel_hybrid_lb", "distributed_executor_backend", "world_size"),
    *("enable_expert_parallel", "nnodes", "node_rank", "master_addr", "master_port", "local_world_size"),
    *("node_rank_within_dp", "nnodes_within_dp", "distributed_timeout_seconds"),
)


def describe(parallel):
    """Returns what a configuration says of the place of this pod."""
    found = {name: getattr(parallel, name) for name in PARALLEL if hasattr(parallel, name)}
    return {key: value if isinstance(value, str | int | float | None) else str(value) for key, value in found.items()}


def main():
    """Answer one request."""
    asked = json.load(sys.stdin)
    answers = os.dup(1)
    os.dup2(2, 1)  # vLLM logs on standard output
    sys.meta_path.insert(0, StandIns())
    accept_known_configurations()
    pretend_gpus(asked["gpus"])
    skip_models()
    parser, serve = make_parser()
    actions = [*_actions(parser)]
    options = sorted({option for action in actions for option in action.option_strings})
    choices = {option: [*a.choices] for a in actions if a.choices for option in a.option_strings}
    texts = {option: a.help or "" for a in actions if is_text(a) for option in a.option_strings}
    said = [run(parser, serve, arguments, asked["model"]) for arguments in asked["commands"]]
    with os.fdopen(answers, "w") as out:
        json.dump({"options": options, "choices": choices, "texts": texts, "answers": said}, out, default=str)


def is_text(action):
    """Tells whether the value of a flag may be any text."""
    return action.nargs != 0 and not action.choices and action.type not in (int, float)


def _actions(parser):
    for action in parser._actions:
        if hasattr(action, "choices") and isinstance(action.choices, dict):
            for choice in action.choices.values():
                yield from choice._actions
        yield action


USAGE = None

if __name__ == "__main__":
    main()
