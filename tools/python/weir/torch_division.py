# A device's share of a model under tensor parallelism.
# SPDX-License-Identifier: Apache-2.0
import copy

import weir
from weir.torch_layers import Block, make_layer


def divided(config, tp):
    """The configuration of one device's share under tensor parallelism: heads, the feed-forward
    width and the vocabulary by tp."""
    if tp == 1:
        return config
    kv_heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    inner = "n_inner" if config.model_type == "gpt2" else "intermediate_size"
    width = getattr(config, inner) or 4 * config.hidden_size
    for what, number in (("heads", config.num_attention_heads), ("key-value heads", kv_heads),
                         ("feed-forward numbers", width), ("words", config.vocab_size)):
        if number % tp:
            raise weir.InputError(f"--tp {tp}: does not divide {number} {what}")
    share = copy.deepcopy(config)
    setattr(share, inner, width // tp)
    share.vocab_size //= tp
    if config.model_type == "llama":
        share.head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads)
        share.num_attention_heads //= tp
        share.num_key_value_heads = kv_heads // tp
    return share


def make_share(config, index, beside, tp):
    """Layer `index` of the divided configuration."""
    return divide_heads(make_layer(config, index, beside, 1), tp)


def divide_heads(layer, tp):
    """GPT-2's attention takes its head count from its width: its products are made anew."""
    if tp == 1 or not isinstance(layer, Block) or not hasattr(layer.block, "attn"):
        return layer
    attention = layer.block.attn
    kind, width = type(attention.c_attn), attention.embed_dim
    attention.c_attn = kind(3 * width // tp, width)
    attention.c_proj = kind(width, width // tp)
    attention.split_size = width // tp
    attention.num_heads //= tp
    return layer
