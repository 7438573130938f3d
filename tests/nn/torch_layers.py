#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes layers with inputs and what PyTorch makes of them, in double.

usage: torch_layers.py FILE.json

A case has the keys of a layer of the spec, its parameters and statistics, x and
dy by sample, and what is expected: y, dx, gradients, next_statistics. Exit code
77 when there is no PyTorch.
"""

import json
import sys

try:
    import torch
except ImportError as error:
    print(f"no PyTorch: {error}")
    sys.exit(77)


def flat(tensor):
    return tensor.detach().double().flatten().tolist()


def as_float(tensor):
    """Values that fp32 holds, in double."""
    return tensor.float().double()


def case(layer_type, keys, module, shape, samples, x=None):
    """Runs a module once; statistics are those of a batch_norm, if any."""
    module = module.double()
    for parameter in module.parameters():
        parameter.data = as_float(torch.randn_like(parameter))
    statistics = [module.running_mean, module.running_var] if hasattr(
        module, "running_mean") else []
    for tensor in statistics:
        tensor.copy_(as_float(torch.rand_like(tensor) + 0.5))
    result = {
        "type": layer_type,
        "keys": json.dumps(keys)[1:-1],
        "shape": list(shape),
        "samples": samples,
        "training": module.training,
        "parameters": [flat(p) for p in module.parameters()],
        "statistics": [v for s in statistics for v in flat(s)],
    }
    if x is None:
        x = torch.randn(samples, *shape)
    x = as_float(x).requires_grad_()
    y = module(x)
    dy = as_float(torch.randn_like(y))
    y.backward(dy)
    result.update(x=flat(x), dy=flat(dy), y=flat(y), dx=flat(x.grad),
                  gradients=[flat(p.grad) for p in module.parameters()],
                  next_statistics=[v for s in statistics for v in flat(s)])
    return result


def conv_cases():
    for inputs, outputs, size, shape, options in [
            (3, 4, 3, (6, 5), {}),
            (3, 4, 3, (6, 5), {"padding": 1, "bias": True}),
            (4, 6, 1, (5, 4), {"stride": 2}),
            (2, 5, (3, 2), (7, 6), {"stride": (2, 3), "padding": (1, 0)}),
            (2, 3, 3, (9, 8), {"dilation": (2, 3), "padding": (2, 3)}),
            (3, 2, 3, (8, 9), {"dilation": 2, "stride": 2, "padding": 1}),
            (4, 8, 3, (5, 5), {"groups": 2, "padding": 1, "bias": True}),
            (6, 6, 3, (5, 6), {"groups": 6, "stride": 2, "padding": 1}),
            (3, 8, 7, (17, 16), {"stride": 2, "padding": 3}),
            (2, 2, 4, (1, 1), {"padding": 2})]:
        keys = {"channels": outputs, "window": numbers(size)}
        for key, value in options.items():
            keys[key] = numbers(value) if key in ("stride", "padding",
                                                  "dilation") else value
        module = torch.nn.Conv2d(inputs, outputs, size,
                                 **{"bias": False, **options})
        yield case("conv2d", keys, module, (inputs, *shape), 18)


def numbers(value):
    return list(value) if isinstance(value, tuple) else [value]


def norm_cases():
    for channels, shape, samples in [(3, (4, 5), 32), (5, (1, 1), 17),
                                     (1, (9, 9), 2)]:
        for training in (True, False):
            module = torch.nn.BatchNorm2d(channels, eps=1e-3, momentum=0.2)
            module.train(training)
            yield case("batch_norm", {"epsilon": 1e-3, "momentum": 0.2}, module,
                       (channels, *shape), samples)
    for channels, groups, shape in [(6, 3, (4, 5)), (4, 1, (3, 3)),
                                    (5, 5, (2, 7)), (32, 8, (1, 1))]:
        yield case("group_norm", {"groups": groups},
                   torch.nn.GroupNorm(groups, channels), (channels, *shape), 17)


def pool_cases():
    for size, options, shape in [(2, {}, (6, 7)),
                                 (3, {"stride": 2, "padding": 1}, (8, 7)),
                                 ((3, 2), {"stride": (1, 3)}, (5, 8)),
                                 ((2, 5), {"padding": (1, 2)}, (4, 6)),
                                 (3, {"stride": 4}, (9, 11)),
                                 (1, {}, (1, 1))]:
        keys = {"window": numbers(size),
                **{k: numbers(v) for k, v in options.items()}}
        # Many equal values: which of them gets the gradient?
        few = torch.randint(-2, 2, (17, 3, *shape))
        yield case("max_pool", keys, torch.nn.MaxPool2d(size, **options),
                   (3, *shape), 17, few)
        yield case("avg_pool", keys, torch.nn.AvgPool2d(size, **options),
                   (3, *shape), 17)
    for shape in [(7, 7), (1, 1), (3, 20)]:
        yield case("global_pool", {}, torch.nn.AdaptiveAvgPool2d(1),
                   (3, *shape), 17)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    cases = [*conv_cases(), *norm_cases(), *pool_cases()]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(cases, file)


if __name__ == "__main__":
    main()
