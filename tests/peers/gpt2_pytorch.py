#!/usr/bin/env python3
"""GPT-2 124M trained by PyTorch on one GPU, as a measure of Weir's speed: torch.compile, its fused
causal attention, its fused AdamW, bf16 by autocast over fp32 weights, no dropout; fresh random
tokens every step. The same shapes, micro-batches and tokens a step as the run it is held against:
loss is the mean over the mini-batch, gradients of its micro-batches add up, one update a step.
After a warm-up, every line on stdin is answered by one of JSON on stdout: a round of --steps steps,
their median. Exit code 77 with the reason where PyTorch or a GPU is missing."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import statistics
import sys

WIDTH, HEADS, LAYERS, VOCABULARY, LONGEST = 768, 12, 12, 50257, 1024


def skip(reason):
    print(f"gpt2_pytorch.py: {reason}", file=sys.stderr)
    sys.exit(77)


try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    skip("needs PyTorch, which is not installed")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_qkv, self.from_heads = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        qkv = self.to_qkv(self.first_norm(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.from_heads(heads.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.narrow(functional.gelu(self.widen(self.second_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        """tokens: [batch, length + 1], inputs and targets one further on. The mean loss."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = self.words(inputs) + self.places.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        # the head's weight is the embedding's
        logits = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def serve(options, model, vocabulary):
    """Trains on random tokens, and answers each line of stdin with a round of steps."""
    o = options
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)

    def step():
        tokens = torch.randint(
            vocabulary, (o.microbatches, o.batch, o.seq_length + 1), device="cuda"
        )
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for microbatch in tokens:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = compiled(microbatch) / o.microbatches
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end.record()
        return begin, end, loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    for _ in sys.stdin:
        rounds = [step() for _ in range(o.steps)]
        torch.cuda.synchronize()
        seconds = statistics.median(begin.elapsed_time(end) for begin, end, _ in rounds) / 1e3
        print(
            json.dumps(
                {
                    "schema": "weir.peer/1",
                    "torch": torch.__version__,
                    "device": torch.cuda.get_device_name(),
                    "step_time_s": seconds,
                    "tokens_per_s": o.microbatches * o.batch * o.seq_length / seconds,
                    "loss": rounds[-1][2].item() * o.microbatches,
                }
            ),
            flush=True,
        )


def asked(about, batch, microbatches, longest):
    """The options of a peer, which has these defaults."""
    options = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--batch", type=int, default=batch, help="samples a micro-batch")
    options.add_argument(
        "--microbatches", type=int, default=microbatches, help="micro-batches a step"
    )
    options.add_argument("--seq-length", type=int, default=longest)
    options.add_argument("--steps", type=int, default=10, help="steps a round")
    return options


def main():
    o = asked(__doc__, 8, 4, LONGEST).parse_args()
    if not torch.cuda.is_available():
        skip("PyTorch finds no GPU")
    model = Gpt2().cuda()
    assert sum(p.numel() for p in model.parameters()) == 124_439_808
    serve(o, model, VOCABULARY)


if __name__ == "__main__":
    main()
