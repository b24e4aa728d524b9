"""How a gradient moves the weights: the rules of torch.optim, each under the names of its numbers there.

Both take g, the gradient plus ``weight_decay`` times the weight: decay pulls at every weight, also at those
that no prediction depends on. A weight whose g has always been zero stays where it is.
"""

from dataclasses import dataclass

from iclcore.checks import SINGLE, least, positive


def _below_one(name: str, value: float) -> None:
    if not least(name, value) < 1:
        raise ValueError(f"{name} takes a number of at least 0 and below 1, not {value!r}")


@dataclass(frozen=True)
class GradientDescent:
    """θ ← θ − lr u with u ← momentum · u + g: as torch.optim.SGD, and with neither number plain descent."""

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _below_one("momentum", self.momentum)
        least("weight_decay", self.weight_decay, 0, SINGLE)

    @property
    def rule(self) -> tuple[float, ...]:
        """For the compiled step: Adam or not, β₁, β₂, ε, decay."""
        return 0.0, float(self.momentum), 0.0, 0.0, float(self.weight_decay)


@dataclass(frozen=True)
class Adam:
    """θ ← θ − lr m̂/(√ŝ + eps), m̂ and ŝ the running means of g and g² without their bias towards zero."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _below_one("beta1", self.beta1)
        _below_one("beta2", self.beta2)
        positive("eps", self.eps)  # where g is zero it is what keeps 0/0 from being taken
        least("weight_decay", self.weight_decay, 0, SINGLE)

    @property
    def rule(self) -> tuple[float, ...]:
        """As that of GradientDescent."""
        numbers = self.beta1, self.beta2, self.eps, self.weight_decay
        return 1.0, *map(float, numbers)


Optimizer = GradientDescent | Adam
PLAIN = GradientDescent()
OPTIMIZERS = {kind.__name__: kind for kind in (GradientDescent, Adam)}
