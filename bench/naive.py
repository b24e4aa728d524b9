"""What is measured against: attention of every token on every token, trained by autograd.

This is how the published code computes a step: all N + 1 rows of attention for every head, although
the loss reads the last row only. float32, as there.
"""

import time
from collections.abc import Callable

import torch

from iclcore.models import Model, Weights
from iclcore.task import Sequences


def step_seconds(
    model: Model, weights: Weights, data: Sequences, lr: float, times: int = 3
) -> float:
    """Seconds of one full-batch step, the best of ``times`` after a first one."""
    ((tokens, target),) = data.prefixes()
    tokens, target = torch.tensor(tokens).float(), torch.tensor(target).float()
    parameters = [
        [torch.nn.Parameter(torch.tensor(matrix).float()) for matrix in stack]
        for stack in weights.values()
    ]
    every = [parameter for stack in parameters for parameter in stack]

    def step() -> None:
        output = 0
        for head in zip(*parameters, strict=True):
            *scoring, value = head
            if len(scoring) == 1:
                scores = tokens @ scoring[0] @ tokens.transpose(1, 2)
            else:
                key, query = scoring
                scores = (tokens @ query.T) @ (tokens @ key.T).transpose(1, 2)
            if model.softmax:
                scores = scores.softmax(dim=2)
            output = output + scores @ (tokens @ value.T)
        prediction = output[:, -1, -target.shape[1] :]
        loss = (prediction - target).square().mean()
        for parameter, slope in zip(every, torch.autograd.grad(loss, every), strict=True):
            with torch.no_grad():
                parameter -= lr * slope

    return best_seconds(step, times)


def best_seconds(action: Callable, times: int) -> float:
    """The shortest time of an action, after one that is not counted: what the machine can do."""
    taken = []
    for _ in range(times + 1):
        clock = time.perf_counter()
        action()
        taken.append(time.perf_counter() - clock)
    return min(taken[1:])
