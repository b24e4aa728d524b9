"""The optimisers: how a gradient moves the weights, as in torch.optim and with its names.

Both use g, the gradient plus ``weight_decay`` times the weight. In torch, decay acts on every weight. The
compiled engines move only the weights that enter the prediction, because the others change no result.
"""

from dataclasses import dataclass

from iclcore.checks import BadValue, least, positive


def _below_one(name: str, value: float) -> None:
    if not least(name, value) < 1:
        raise BadValue(name, f"takes a number of at least 0 and below 1, not {value!r}")


@dataclass(frozen=True)
class GradientDescent:
    """Gradient descent as in torch.optim.SGD: θ ← θ − lr u with u ← momentum · u + g.

    - ``momentum``: the part of the last update u that is kept, at least 0 and below 1.
    - ``weight_decay``: g is the gradient plus this number times the weight.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _below_one("momentum", self.momentum)
        least("weight_decay", self.weight_decay)

    @property
    def rule(self) -> tuple[float, ...]:
        """The parameters of the compiled step: 1 for Adam, else 0; β₁ or momentum; β₂; ε; weight decay."""
        return 0.0, float(self.momentum), 0.0, 0.0, float(self.weight_decay)


@dataclass(frozen=True)
class Adam:
    """Adam: θ ← θ − lr m̂/(√ŝ + eps), with m̂ and ŝ the running means of g and g², bias-corrected.

    - ``beta1`` and ``beta2``: the parts of the two running means that are kept, at least 0 and below 1.
    - ``eps``: the number added to √ŝ, above 0.
    - ``weight_decay``: g is the gradient plus this number times the weight.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _below_one("beta1", self.beta1)
        _below_one("beta2", self.beta2)
        positive("eps", self.eps)  # not 0, because a weight whose g is always zero would become 0/0
        least("weight_decay", self.weight_decay)

    @property
    def rule(self) -> tuple[float, ...]:
        """The parameters of the compiled step, in the same order as those of GradientDescent."""
        numbers = self.beta1, self.beta2, self.eps, self.weight_decay
        return 1.0, *map(float, numbers)


Optimizer = GradientDescent | Adam
PLAIN = GradientDescent()
OPTIMIZERS = {optimizer.__name__: optimizer for optimizer in (GradientDescent, Adam)}
