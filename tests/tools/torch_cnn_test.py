#!/usr/bin/env python3
"""ResNets written in PyTorch, loaded from a file of ours: the same logits, gradients, moving
averages and evaluation. torch_cnn_test.py SOURCES WEIR"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from torch import nn

WEIR = pathlib.Path(sys.argv[2]).resolve()
CLASSES, SIDE, SAMPLES = 10, 32, 8


class Block(nn.Module):
    """torchvision's BasicBlock and, with three convolutions, its Bottleneck."""

    def __init__(self, channels, planes, stride, bottleneck):
        super().__init__()
        outputs = 4 * planes if bottleneck else planes
        kernels = ((1, 1), (3, stride), (1, 1)) if bottleneck else ((3, stride), (3, 1))
        sizes = (planes, planes, outputs) if bottleneck else (planes, outputs)
        self.layers, inputs = len(sizes), channels
        for i, ((kernel, step), size) in enumerate(zip(kernels, sizes), 1):
            setattr(self, f"conv{i}", nn.Conv2d(inputs, size, kernel, step, kernel // 2,
                                                bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(size))
            inputs = size
        self.downsample = nn.Sequential()
        if stride != 1 or channels != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.layers + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.layers else torch.relu(y + self.downsample(x))
        return y


class ResNet(nn.Module):
    def __init__(self, blocks, width, bottleneck, small):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3 if small else 7, 1 if small else 2, 1 if small else 3,
                               bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        channels, self.groups = width, len(blocks)
        for group, count in enumerate(blocks):
            made = []
            for i in range(count):
                stride = 2 if i == 0 and group > 0 else 1
                made.append(Block(channels, width << group, stride, bottleneck))
                channels = (width << group) * (4 if bottleneck else 1)
            setattr(self, f"layer{group + 1}", nn.Sequential(*made))
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        for group in range(self.groups):
            x = getattr(self, f"layer{group + 1}")(x)
        return self.fc(x.mean((2, 3)))


def weir(folder, *arguments):
    done = subprocess.run([WEIR, "--json", "-q", *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def relative(ours, theirs):
    return ((ours.double() - theirs.double()).abs().max() / theirs.abs().max()).item()


def check(blocks, width, bottleneck, stem):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.json").write_text(json.dumps(
            {"schema": "weir.cnn/1", "network": "resnet", "layers": "blocks", "blocks": blocks,
             "width": width, "bottleneck": bottleneck, "stem": stem, "image": SIDE,
             "classes": CLASSES}))
        weir(folder, "plan", "model.json", "-K", 2, "-M", 1, "-b", SAMPLES, "--optimizer", "sgd",
             "--learning-rate", 0.1, "-o", "plan.json")
        run = weir(folder, "run", "plan.json", "--warmup", 0, "--steps", 1, "--save",
                   "first.safetensors")
        # One step on, from what the first one left: the averages of both have moved.
        run = weir(folder, "run", "plan.json", "--init", "first.safetensors", "--warmup", 0,
                   "--steps", 1, "--dump", "dump.safetensors", "--save", "second.safetensors")
        dump = load_file(folder / "dump.safetensors")
        model = ResNet(blocks, width, bottleneck, stem == "3x3").train()
        missing = model.load_state_dict(load_file(folder / "first.safetensors"), strict=False)
        assert not missing.unexpected_keys, missing
        assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys), missing
        numbers = 3 * SIDE * SIDE
        images = dump["images"][:, :numbers].reshape(SAMPLES, SIDE, SIDE, 3)
        images = images.permute(0, 3, 1, 2).contiguous()
        labels = dump["images"][:, numbers].long()
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        assert relative(dump["logits"][:, 0], logits) < 2e-6, relative(dump["logits"][:, 0], logits)
        assert abs(run["steps"][0]["loss"] - loss.item()) < 2e-6 * loss.item()
        for key, weight in model.named_parameters():
            assert relative(dump[key], weight.grad) < 1e-5, (key, relative(dump[key], weight.grad))
        second = load_file(folder / "second.safetensors")
        for key, value in model.named_buffers():
            if not key.endswith("num_batches_tracked"):
                assert relative(second[key], value) < 2e-6, (key, relative(second[key], value))


for case in (([1, 1], 16, False, "3x3"), ([1, 1, 1], 8, True, "7x7"), ([2, 2], 8, False, "7x7")):
    check(*case)
    print("blocks {}, width {}, bottleneck {}, stem {}: equal".format(*case))
