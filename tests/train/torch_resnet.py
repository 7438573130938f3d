#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A residual network in PyTorch on made-up images: start, batches, losses.

Layout and names are torchvision's (which is not needed): stem of a 7x7
convolution and pooling, then one basic block per stage. Writes to --dump
init.npz, after1.npz (the state after the first step), x.npy, y.npy and
loss.json. --sparsity masks every weight but the first and the last.
"""
import argparse
import json
import os

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Block(width, width, 1))
        self.layer2 = nn.Sequential(Block(width, 2 * width, 2))
        self.fc = nn.Linear(2 * width, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        x = self.layer2(self.layer1(x))
        return self.fc(x.mean((2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--sparsity", type=float, default=0)
    parser.add_argument("--dump", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = Net(options.width)
    weights = [m.weight for m in net.modules()
               if isinstance(m, (nn.Conv2d, nn.Linear))][1:-1]
    masks = [(torch.rand(w.shape) >= options.sparsity).float()
             for w in weights]

    def apply_masks():
        with torch.no_grad():
            for weight, mask in zip(weights, masks):
                weight.mul_(mask)

    def write(name):
        np.savez(os.path.join(options.dump, name),
                 **{k: v.numpy() for k, v in net.state_dict().items()})

    apply_masks()
    os.makedirs(options.dump, exist_ok=True)
    write("init.npz")
    count = options.batch * options.steps
    y = torch.randint(0, 10, (count,))
    x = torch.randn(10, 3, 32, 32)[y] + torch.randn(count, 3, 32, 32)
    optimizer = torch.optim.SGD(net.parameters(), lr=options.lr, momentum=0.9,
                                weight_decay=5e-4)
    losses = []
    for step in range(options.steps):
        part = slice(step * options.batch, (step + 1) * options.batch)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[part]), y[part])
        loss.backward()
        optimizer.step()
        apply_masks()
        losses.append(float(loss.detach()))
        if step == 0:
            write("after1.npz")
    np.save(os.path.join(options.dump, "x.npy"), x.numpy())
    np.save(os.path.join(options.dump, "y.npy"), y.numpy())
    with open(os.path.join(options.dump, "loss.json"), "w",
              encoding="utf-8") as file:
        json.dump(losses, file)


if __name__ == "__main__":
    main()
