"""Writes LoRA adapters of random weights for the small Llama, and what it answers with each of them merged.

Runs in the environment of vLLM. Arguments: the folder of the model, and the folder for the adapters. The adapters that
nothing can serve are made of a sound one. Standard output: for each sound adapter what `tiny_model.answer` returns.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tiny_model import answer
from transformers import LlamaForCausalLM

TARGETS = ("q_proj", "v_proj", "up_proj", "down_proj")
RANK, ALPHA, SIZE = 8, 16, 0.3
SOUND = {"sql": 3, "Org/Law.v1": 8}  # with their seeds, whose answers are far from a tie


def write(base, folder, seed, rank=RANK, hidden=None):
    """Writes an adapter as peft does, and returns the changed weights of the model by their names."""
    torch.manual_seed(seed)
    tensors, merged = {}, {}
    for name, weight in base.state_dict().items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in TARGETS:
            rows, columns = (hidden or size for size in weight.shape)
            first, second = torch.randn(rank, columns) * SIZE, torch.randn(rows, rank) * SIZE
            tensors[f"base_model.model.{module}.lora_A.weight"] = first
            tensors[f"base_model.model.{module}.lora_B.weight"] = second
            merged[name] = weight if hidden else weight + ALPHA / rank * (second @ first)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": ALPHA, "bias": "none"}
    config |= {"target_modules": [*TARGETS], "base_model_name_or_path": "owner/model", "use_dora": False}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


def main():
    """Writes all of them."""
    source, folder = map(Path, sys.argv[1:])
    messages = json.load(sys.stdin)
    answers = {}
    for name, seed in SOUND.items():
        model = LlamaForCausalLM.from_pretrained(source, dtype=torch.float32)
        merged = write(model, folder / name, seed)
        model.load_state_dict({**model.state_dict(), **merged})
        together = folder.parent / f"merged-{seed}"
        shutil.copytree(source, together)
        model.save_pretrained(together)
        answers[name] = answer(together, messages)
    model = LlamaForCausalLM.from_pretrained(source, dtype=torch.float32)
    write(model, folder / "high", 1, rank=64)
    write(model, folder / "other", 2, hidden=64)
    for broken in ("undescribed", "truncated"):
        shutil.copytree(folder / "sql", folder / broken)
    (folder / "undescribed" / "adapter_config.json").unlink()
    cut = folder / "truncated" / "adapter_model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1000])
    assert load_file(folder / "sql" / "adapter_model.safetensors")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
