"""Builds a small Llama of random weights in a folder, and prints what it answers. Runs in the environment of vLLM.

The files are the same bytes on every run. Standard output: the tokens that transformers generates greedily for a
conversation, and by how much the least certain one is ahead of the next: sums in another order, as over several nodes,
must not change the answer.
"""

import json
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT = "the quick brown fox jumps over the lazy dog "
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
VOCABULARY, SEED, TOKENS = 320, 0, 8


def build(folder):
    """Writes configuration, tokenizer and weights in several shards."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator([TEXT * 3], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=16384,
        initializer_range=0.1,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(torch.float32)
    model.save_pretrained(folder, max_shard_size="4MB")


def answer(folder, messages):
    """Returns what the model says, from the files alone."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    said = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)["input_ids"]
    done = model.generate(
        said, max_new_tokens=TOKENS, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    tokens = done.sequences[0, said.shape[1] :].tolist()
    best = [logits[0].topk(2).values for logits in done.logits]
    margin = min(float(first - second) for first, second in best)
    return {"tokens": tokens, "margin": margin}


def main():
    """Builds the model, and answers the conversation on standard input."""
    (folder,) = sys.argv[1:]
    build(folder)
    json.dump(answer(folder, json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
