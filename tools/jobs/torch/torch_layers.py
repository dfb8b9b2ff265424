# The layers of a GPT-2 or a Llama as PyTorch modules, one for each layer of Weir's model of it,
# made from the classes of transformers: embedding, blocks, norm, head. Each takes what the one
# before returns. The exporter writes this text into its script, and the package `weir` has it as a
# module.
# SPDX-License-Identifier: Apache-2.0
import torch

FAMILIES = ("gpt2", "llama")


def model_config(settings, attention):
    """transformers' configuration of a config.json's keys. attention: "unfused" keeps the
    probabilities, "fused" is one kernel."""
    from transformers import AutoConfig

    settings = dict(settings)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    config._attn_implementation = "sdpa" if attention == "fused" else "eager"
    return config


def count_layers(config):
    return config.num_hidden_layers + 3


def is_tied(config):
    """The head's weight is the embedding's."""
    return bool(config.tie_word_embeddings)


class Embedding(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = self.dropout = None
        if config.model_type == "gpt2":
            self.positions = torch.nn.Embedding(config.max_position_embeddings, config.hidden_size)
            self.dropout = torch.nn.Dropout(config.embd_pdrop)

    def forward(self, tokens):
        x = self.tokens(tokens)
        if self.positions is None:
            return x
        return self.dropout(x + self.positions.weight[: tokens.shape[1]])


class Beside:
    """What a block takes beside its input, the same for all blocks: made once for each length."""

    def __init__(self, config):
        self.config, self.made = config, {}

    def __call__(self, x):
        key = (x.shape[1], x.device, x.dtype)
        if key not in self.made:
            self.made[key] = self.make(x)
        return self.made[key]

    def make(self, x):
        length, inputs = x.shape[1], {}
        if self.config._attn_implementation == "eager":  # the fused one masks by itself
            mask = torch.full((length, length), torch.finfo(x.dtype).min, device=x.device)
            inputs["attention_mask"] = mask.triu(1).to(x.dtype)[None, None]
        if self.config.model_type == "llama":
            from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

            places = torch.arange(length, device=x.device)[None]
            inputs["position_embeddings"] = LlamaRotaryEmbedding(self.config).to(x.device)(
                x.detach(), places)
        return inputs


class Block(torch.nn.Module):
    def __init__(self, config, index, beside):
        super().__init__()
        if config.model_type == "gpt2":
            from transformers.models.gpt2.modeling_gpt2 import GPT2Block as Kind
        else:
            from transformers.models.llama.modeling_llama import LlamaDecoderLayer as Kind
        self.block, self.beside = Kind(config, layer_idx=index), beside

    def forward(self, x):
        result = self.block(x, **self.beside(x))
        return result if isinstance(result, torch.Tensor) else result[0]


def norm_of(config):
    if config.model_type == "gpt2":
        return torch.nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)


def bare_layer(config, index, beside):
    last = count_layers(config) - 1
    if index == 0:
        return Embedding(config)
    if index == last:
        return torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    return norm_of(config) if index == last - 1 else Block(config, index - 1, beside)


def make_layer(config, index, beside, seed):
    """Layer `index`, its weights drawn from seed and index alone: the same in every partition."""
    tied_head = is_tied(config) and index == count_layers(config) - 1
    torch.manual_seed(seed * 1_000_003 + (0 if tied_head else index))
    layer = bare_layer(config, index, beside)
    for name, parameter in layer.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=config.initializer_range)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    if tied_head:  # the draws that the embedding begins with
        torch.manual_seed(seed * 1_000_003)
        twin = Embedding(config)
        torch.nn.init.normal_(twin.tokens.weight, std=config.initializer_range)
        layer.weight.data.copy_(twin.tokens.weight.data)
    return layer
