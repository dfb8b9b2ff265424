#!/usr/bin/env python3
"""BERT and ViT of `transformers`, loaded from their files: the same logits, gradients, and losses
of twenty steps, and back. encoders_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

WEIR = pathlib.Path(sys.argv[2]).resolve()
SAMPLES, STEPS, RATE = 8, 20, 0.1
SEEDS = (3, 4, 5, 6)
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
         "num_attention_heads": 4, "initializer_range": 0.1, "hidden_dropout_prob": 0.0,
         "attention_probs_dropout_prob": 0.0}
TOKENS, VOCABULARY = 16, 300


class Bert:
    """Masked tokens, of two types, in a file of its own."""
    of_sample = TOKENS
    config_class, model_class = transformers.BertConfig, transformers.BertForMaskedLM

    def __init__(self, tied, activation):
        self.config = self.config_class(
            vocab_size=VOCABULARY, max_position_embeddings=TOKENS, tie_word_embeddings=tied,
            hidden_act=activation, **SIZES)

    @staticmethod
    def write(folder):
        """Two mini-batches' worth; of each sample some tokens have labels, of one none. No token
        is 0, the padding, whose embedding transformers does not train."""
        torch.manual_seed(7)
        shape = (2 * SAMPLES, TOKENS)
        labels = torch.randint(VOCABULARY, shape)
        labels[torch.rand(shape) > 0.2] = -100
        labels[3] = -100
        save_file({"input_ids": torch.randint(1, VOCABULARY, shape), "labels": labels,
                   "token_type_ids": torch.randint(2, shape)}, folder / "data.safetensors")
        return ["--data", folder / "data.safetensors"]

    @staticmethod
    def arguments(dump):
        words = dump["tokens"].reshape(SAMPLES, 3, TOKENS).long()
        tokens, types, labels = (words[:, part].contiguous() for part in range(3))
        return {"input_ids": tokens, "token_type_ids": types, "labels": labels}


class Vit:
    """Images drawn by the seed."""
    config_class, model_class = transformers.ViTConfig, transformers.ViTForImageClassification
    side, patch, of_sample = 18, 4, 17  # two rows and two columns are no whole patch

    def __init__(self, activation):
        self.config = self.config_class(image_size=self.side, patch_size=self.patch, num_labels=10,
                                        hidden_act=activation, **SIZES)

    @staticmethod
    def write(folder):
        return []

    @classmethod
    def arguments(cls, dump):
        numbers = 3 * cls.side ** 2
        images = dump["images"][:, :numbers].reshape(SAMPLES, cls.side, cls.side, 3)
        return {"pixel_values": images.permute(0, 3, 1, 2).contiguous(),
                "labels": dump["images"][:, numbers].long()}


def weir(folder, *arguments):
    done = subprocess.run([WEIR, "--json", "-q", *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def relative(ours, theirs, scale=None):
    """The largest difference over the largest number, of `scale` where that is given."""
    largest = (theirs if scale is None else scale).abs().max()
    return ((ours.double() - theirs.double()).abs().max() / largest).item()


def gradients(model, family, folder):
    """By the names of files, which are not always the model's own."""
    copy = family.model_class(family.config)
    with torch.no_grad():
        for to, of in zip(copy.parameters(), model.parameters()):
            to.copy_(torch.zeros_like(of) if of.grad is None else of.grad)
    copy.save_pretrained(folder / "gradients")
    return load_file(folder / "gradients" / "model.safetensors")


def check_step(family, folder, data):
    """One step: logits, loss and gradients; what we saved is a model of theirs."""
    model = family.model_class.from_pretrained(folder / "theirs").train()
    printed = weir(folder, "run", "plan.json", "--init", "theirs", "--warmup", 0, "--steps", 1,
                   *data, "--dump", "dump.safetensors", "--save",
                   "ours/model.safetensors")
    dump = load_file(folder / "dump.safetensors")
    arguments = family.arguments(dump)
    output = model(**arguments)
    output.loss.backward()
    theirs = output.logits
    assert relative(dump["logits"].reshape(theirs.shape), theirs) < 2e-6, relative(
        dump["logits"].reshape(theirs.shape), theirs)
    loss = json.loads(printed)["steps"][0]["loss"]
    assert abs(loss - output.loss.item()) < 1e-6 * loss, (loss, output.loss.item())
    grads = gradients(model, family, folder)
    compared = 0
    for name, gradient in grads.items():
        if name not in dump:  # a bias that the model has and does not use
            assert gradient.abs().max() == 0, name
            continue
        # A bias of keys moves all scores of a query alike: its gradient is 0 but for rounding,
        # which is the size of its matrix' gradient's.
        zero = name.endswith("key.bias")
        scale = grads[name.removesuffix("bias") + "weight"] if zero else None
        difference = relative(dump[name].reshape(gradient.shape), gradient, scale)
        assert difference < 1e-5, (name, difference)
        compared += 1
    words = {"logits", "tokens", "images"}
    assert compared == len(set(dump) - words), set(dump) - set(grads)
    (folder / "ours" / "config.json").write_text((folder / "theirs" / "config.json").read_text())
    with torch.no_grad():
        for weight in model.parameters():
            if weight.grad is not None:
                weight -= RATE * weight.grad
    ours = family.model_class.from_pretrained(folder / "ours")
    with torch.no_grad():
        moved, expected = (m(**arguments).logits for m in (ours, model))
    assert relative(moved, expected) < 2e-6, relative(moved, expected)


def check_losses(family, folder, data):
    """Twenty steps of plain descent, beside double and beside PyTorch's own fp32."""
    common = ["run", "plan.json", "--init", "theirs", "--warmup", 0, *data]
    run = json.loads(weir(folder, *common, "--steps", STEPS))
    ours = [step["loss"] for step in run["steps"]]
    batches = []  # a dump is of the last step
    for steps in range(1, STEPS + 1):
        weir(folder, *common, "--steps", steps, "--dump", "dump.safetensors")
        batches.append(family.arguments(load_file(folder / "dump.safetensors")))
    losses = {}
    for dtype in (torch.float32, torch.float64):
        model = family.model_class.from_pretrained(folder / "theirs", dtype=dtype).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        losses[dtype] = []
        for batch in batches:
            optimizer.zero_grad()
            batch = {name: numbers.to(dtype) if numbers.is_floating_point() else numbers
                     for name, numbers in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses[dtype].append(loss.item())
    exact = losses[torch.float64]
    assert min(exact) > 0 and max(exact) < 2 * exact[0] and exact[-1] < exact[0], exact
    return [max(abs(a - b) for a, b in zip(one, exact)) for one in (ours, losses[torch.float32])]


def distances(family, attention, seed):
    """Of our losses, and of PyTorch's in fp32, from double precision."""
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        model = family.model_class(family.config)
        with torch.no_grad():  # what begins as zeros and ones would hide what is mixed up
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(folder / "theirs")
        data = family.write(folder)
        weir(folder, "plan", "theirs/config.json", "-K", 2, "-M", 4, "-b", SAMPLES // 4,
             "--seq-length", family.of_sample, "--attention", attention, "--optimizer", "sgd",
             "--learning-rate", RATE, "-o", "plan.json")
        check_step(family, folder, data)
        return check_losses(family, folder, data)


def check(name, family, attention):
    """One seed's distance is an accident of its last bits, up to ten times another's; means of
    several are compared."""
    ours, theirs = (statistics.mean(of_all) for of_all in
                    zip(*(distances(family, attention, seed) for seed in SEEDS)))
    print(f"{name}, attention {attention}: {ours:.1e} from double, PyTorch in fp32 {theirs:.1e}, "
          f"means of the seeds {SEEDS}")
    assert ours <= 2 * theirs, (ours, theirs)


check("BERT, tied", Bert(True, "gelu"), "unfused")
check("BERT, a head of its own", Bert(False, "gelu_new"), "fused")
check("ViT", Vit("gelu"), "unfused")
check("ViT", Vit("gelu"), "fused")
