#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A perceptron in PyTorch on made-up images: start, batches and losses to DIR.

Writes init.npz (state_dict names), x.npy, y.npy and loss.json. Every layer but
the last is masked with --sparsity, the way sparsity is simulated on dense
kernels.
"""
import argparse
import json
import os

import numpy as np
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mlp:512,512")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sparsity", type=float, default=0)
    parser.add_argument("--dump", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    sizes = [784] + [int(n) for n in options.model.split(":")[1].split(",")]
    layers = [torch.nn.Flatten()]
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 10))
    masked = [m for m in net if isinstance(m, torch.nn.Linear)][:-1]
    masks = [(torch.rand(m.weight.shape) >= options.sparsity).float()
             for m in masked]

    def apply_masks():
        with torch.no_grad():
            for module, mask in zip(masked, masks):
                module.weight.mul_(mask)

    apply_masks()
    os.makedirs(options.dump, exist_ok=True)
    np.savez(os.path.join(options.dump, "init.npz"),
             **{k: v.numpy() for k, v in net.state_dict().items()})
    # Ten blurred prototypes with noise: something that can be learnt.
    count = options.batch * options.steps
    y = torch.randint(0, 10, (count,))
    x = torch.randn(10, 784)[y] * 0.1 + torch.randn(count, 784)
    x = x.reshape(count, 1, 28, 28)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9,
                                weight_decay=5e-4)
    losses = []
    for step in range(options.steps):
        part = slice(step * options.batch, (step + 1) * options.batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[part]), y[part])
        loss.backward()
        optimizer.step()
        apply_masks()
        losses.append(float(loss.detach()))
    np.save(os.path.join(options.dump, "x.npy"), x.numpy())
    np.save(os.path.join(options.dump, "y.npy"), y.numpy())
    with open(os.path.join(options.dump, "loss.json"), "w",
              encoding="utf-8") as file:
        json.dump(losses, file)


if __name__ == "__main__":
    main()
