#!/usr/bin/env python3
"""A Llama trained by PyTorch on one GPU, as gpt2_pytorch.py does it: the shapes of a Hugging Face
config, RMS norms and rotary positions of torch.compile's making, its fused causal attention with
shared keys, a head of its own. Exit code 77 with the reason where PyTorch or a GPU is missing."""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

from gpt2_pytorch import asked, functional, nn, serve, skip, torch


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, ffn = c["hidden_size"], c["intermediate_size"]
        self.heads, self.keys = c["num_attention_heads"], c["num_key_value_heads"]
        self.each = width // self.heads
        self.first_norm, self.second_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.to_qkv = nn.Linear(width, (self.heads + 2 * self.keys) * self.each, bias=False)
        self.from_heads = nn.Linear(width, width, bias=False)
        self.widen, self.narrow = nn.Linear(width, 2 * ffn, bias=False), nn.Linear(
            ffn, width, bias=False
        )

    def forward(self, x, cosine, sine):
        batch, tokens, width = x.shape
        qkv = self.to_qkv(self.first_norm(x)).view(batch, tokens, -1, self.each).transpose(1, 2)
        turned, value = qkv.split([self.heads + self.keys, self.keys], 1)
        first, second = turned.chunk(2, -1)
        turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
        query, key = turned.to(value.dtype).split([self.heads, self.keys], 1)
        heads = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        x = x + self.from_heads(heads.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.widen(self.second_norm(x)).chunk(2, -1)
        return x + self.narrow(functional.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, each = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]
        self.words = nn.Embedding(c["vocab_size"], width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, c["vocab_size"], bias=False)
        turns = c["rope_theta"] ** (-torch.arange(0, each, 2) / each)
        angles = torch.arange(c["max_position_embeddings"])[:, None] * turns
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        """tokens: [batch, length + 1], inputs and targets one further on. The mean loss."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        length = inputs.shape[1]
        x = self.words(inputs)
        for block in self.blocks:
            x = block(x, self.cosine[:length], self.sine[:length])
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def main():
    options = asked(__doc__, 2, 1, 4096)
    options.add_argument("--config", required=True, help="the model's, as Hugging Face writes it")
    o = options.parse_args()
    if not torch.cuda.is_available():
        skip("PyTorch finds no GPU")
    config = json.loads(pathlib.Path(o.config).read_text())
    serve(o, Llama(config).cuda(), config["vocab_size"])


if __name__ == "__main__":
    main()
