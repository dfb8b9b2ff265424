# The layers of a GPT-2 or a Llama from Megatron-Core's own modules, one for each layer of Weir's
# model of it, as torch_layers.py has them from transformers. Activations are [token, sample, width]
# there. Each process is a tensor-parallel group of its own: a device's share is a smaller layer.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import functools

import megatron.core
import torch
from megatron.core import parallel_state
from megatron.core.models.common.embeddings.language_model_embedding import LanguageModelEmbedding
from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel import ColumnParallelLinear, random
from megatron.core.transformer.spec_utils import build_module
from megatron.core.transformer.torch_norm import WrappedTorchNorm
from megatron.core.transformer.transformer_config import TransformerConfig

from weir.torch_layers import count_layers

# One autograd function of theirs computes the gradients of a product's input and weight.
SPLITS = False


def version():
    return f"megatron-core {megatron.core.__version__}"


class HostDraws:
    """In place of the tracker of a GPU's random states: on a host there is one."""

    def fork(self, *_):
        return contextlib.nullcontext()


class HostBuffer:
    """In place of the buffer for attention scores, which is a GPU's."""

    def get_tensor(self, shape, dtype, *_):
        return torch.empty(shape, dtype=dtype)


def prepare(device):
    """Groups of this process alone, and on a host what stands in for a GPU's."""
    parallel_state.initialize_model_parallel()
    if device.type == "cuda":
        random.model_parallel_cuda_manual_seed(1)
        return
    random._CUDA_RNG_STATE_TRACKER = HostDraws()
    random._CUDA_RNG_STATE_TRACKER_INITIALIZED = True
    parallel_state._GLOBAL_MEMORY_BUFFER = HostBuffer()


def is_gpt2(config):
    return config.model_type == "gpt2"


def transformer_config(config, tp):
    """Megatron's configuration of what transformers' says, heads and the feed-forward width of one
    of tp devices."""
    width = config.hidden_size // config.num_attention_heads
    common = {"num_layers": config.num_hidden_layers, "hidden_size": config.hidden_size,
              "num_attention_heads": config.num_attention_heads // tp,
              "kv_channels": getattr(config, "head_dim", None) or width,
              "init_method_std": config.initializer_range, "use_cpu_initialization": True,
              "bias_dropout_fusion": False, "masked_softmax_fusion": False,
              "gradient_accumulation_fusion": False}
    if is_gpt2(config):
        return TransformerConfig(
            **common, add_bias_linear=True,
            ffn_hidden_size=(config.n_inner or 4 * config.hidden_size) // tp,
            activation_func=functools.partial(torch.nn.functional.gelu, approximate="tanh"),
            attention_dropout=config.attn_pdrop, hidden_dropout=config.resid_pdrop,
            layernorm_epsilon=config.layer_norm_epsilon)
    return TransformerConfig(
        **common, num_query_groups=config.num_key_value_heads // tp, add_bias_linear=False,
        gated_linear_unit=True, ffn_hidden_size=config.intermediate_size // tp,
        activation_func=torch.nn.functional.silu, attention_dropout=config.attention_dropout,
        hidden_dropout=0.0, normalization="RMSNorm", layernorm_epsilon=config.rms_norm_eps)


class Embedding(torch.nn.Module):
    def __init__(self, config, theirs, words):
        super().__init__()
        kind = "learned_absolute" if is_gpt2(config) else "rope"
        self.tokens = LanguageModelEmbedding(theirs, words, config.max_position_embeddings, kind)

    def forward(self, tokens):
        return self.tokens(tokens, torch.arange(tokens.shape[1], device=tokens.device)[None])


class Block(torch.nn.Module):
    def __init__(self, config, theirs, index):
        super().__init__()
        spec = get_gpt_layer_local_spec(normalization=theirs.normalization)
        self.block = build_module(spec, config=theirs, layer_number=index)
        self.rotary = None
        if not is_gpt2(config):
            self.rotary = RotaryEmbedding(theirs.kv_channels, 1.0, use_cpu_initialization=True)
        self.beside = {}

    def forward(self, x):
        length = x.shape[0]
        if length not in self.beside:
            mask = torch.ones(1, 1, length, length, device=x.device).triu(1).bool()
            self.beside[length] = {"attention_mask": mask}
            if self.rotary is not None:
                angles = self.rotary.get_freqs_non_repeated(length)
                self.beside[length]["rotary_pos_emb"] = torch.cat((angles, angles), -1).to(
                    x.device)[:, None, None]
        return self.block(x, **self.beside[length])[0]


class Head(torch.nn.Module):
    def __init__(self, config, theirs, words):
        super().__init__()
        self.product = ColumnParallelLinear(config.hidden_size, words, config=theirs,
                                            init_method=theirs.init_method, bias=False)

    def forward(self, x):
        return self.product(x)[0]


def make_layer(config, index, tp=1):
    """One of tp devices' share of layer `index` of Weir's model, with new weights."""
    theirs, last = transformer_config(config, tp), count_layers(config) - 1
    if index == 0:
        return Embedding(config, theirs, config.vocab_size // tp)
    if index == last:
        return Head(config, theirs, config.vocab_size // tp)
    if index == last - 1:
        return WrappedTorchNorm(theirs, config.hidden_size, eps=theirs.layernorm_epsilon)
    return Block(config, theirs, index)
