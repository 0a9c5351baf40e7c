"""What requests take of GPU memory besides the weights: keys and values of every token, from a model's config.json.

For each token and layer a GPU keeps two vectors for each of its key-value heads (grouped attention, split by tensor
parallelism, one head at least), or one compressed vector (latent attention, which every GPU of the group keeps whole);
layers split by pipeline stages. Sliding layers keep no more than their window. An engine plans with 0.9 of the memory
and needs some of it for itself. The formula was checked against what was published of DeepSeek-V3, Llama 3.1 405B and
Qwen3 235B (tests/cli/test_size.py). It is not true of attention that keeps a state instead of tokens.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from function.cli.files import whole
from function.cli.options import CliError
from function.domain.model import Shape
from function.kube.manifests import JSON, Manifest, get, integer, mapping
from function.kube.quantity import GIB

USED = 0.9
# Activations, graphs and buffers of communication: 4 to 8 GiB a GPU were seen.
OVERHEAD = 8 * GIB
_BYTES = 2
_ATTENTION = frozenset({"full_attention", "sliding_attention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What a model keeps of a token. `vector` are the numbers of one head and layer, keys and values together.

    `heads` 0: one compressed vector, whole on each GPU. `sliding` layers of all `layers` keep `window` tokens.
    """

    layers: int
    heads: int
    vector: int
    sliding: int = 0
    window: int = 0

    def per_token(self, tensor: int, stages: int) -> int:
        """Return the bytes of one token on one GPU, were all layers full."""
        return self._of_layer(tensor) * -(-self.layers // stages)

    def bytes(self, tokens: int, tensor: int, stages: int) -> int:
        """Return the bytes of a sequence of so many tokens on one GPU."""
        kept = (self.layers - self.sliding) * tokens + self.sliding * min(tokens, self.window)
        return self._of_layer(tensor) * -(-kept // stages)

    def _of_layer(self, tensor: int) -> int:
        return max(1, self.heads // tensor) * self.vector * _BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many requests at once, each of so many tokens."""

    attention: Attention
    tokens: int
    requests: int

    def bytes(self, tensor: int = 1, stages: int = 1) -> int:
        """Return what it takes of one GPU; as it is, of all together where there is one copy."""
        return self.requests * self.attention.bytes(self.tokens, tensor, stages)

    def on(self, shape: Shape) -> int:
        """Return what it takes of each GPU of a replica."""
        return self.bytes(shape.parallelism.tensor or shape.gpus_per_node, shape.parallelism.pipeline or shape.nodes)


def read_attention(config: JSON, name: str) -> Attention:
    """Return what a config.json says of a model's attention.

    Raises:
        CliError: It does not say enough, or keeps something else than tokens.
    """
    said: Manifest = mapping(config, "text_config") or (config if isinstance(config, dict) else {})
    layers, latent = integer(said, "num_hidden_layers"), integer(said, "kv_lora_rank")
    listed = get(said, "layer_types")
    types = [str(kind) for kind in listed] if isinstance(listed, list) else []
    if not set(types) <= _ATTENTION or "linear_attn_config" in said:
        raise CliError(
            f"{name} keeps a state instead of tokens, which is not computed here. Leave out --context-length"
        )
    sliding = types.count("sliding_attention")
    window = integer(said, "sliding_window")
    if layers and latent:
        return Attention(layers=layers, heads=0, vector=latent + integer(said, "qk_rope_head_dim"))
    heads = integer(said, "num_attention_heads")
    size = integer(said, "head_dim") or (integer(said, "hidden_size") // heads if heads else 0)
    if not layers or not size:
        raise CliError(f"{name} does not say num_hidden_layers and head_dim. Give the config.json of a language model")
    groups = integer(said, "num_key_value_heads") or heads
    return Attention(layers=layers, heads=groups, vector=2 * size, sliding=sliding if window else 0, window=window)


def read_file(file: str) -> JSON:
    """Return the content of a config.json."""
    try:
        return whole(json.loads(Path(file).read_text()))
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}. Name a model's config.json") from error
    except ValueError as error:
        raise CliError(f"{file} is not JSON ({error}). Name a model's config.json") from error
