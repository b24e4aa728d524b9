"""The engines train a model on data step by step. The table ENGINES says what each of them accepts.

If two engines accept the same run, their results agree to round-off (to float32 precision for "softmax" and
"published"), as long as the learning rate is small enough; see ``stability``.
"""

from importlib import import_module
from typing import NamedTuple

from iclcore.checks import BadValue, choice, instance
from iclcore.models import Model
from iclcore.moments import Moments, features
from iclcore.optimisers import PLAIN, Adam, GradientDescent, Optimizer
from iclcore.task import RegressionTask, Sequences

MOST_FEATURES = 8000  # at D = 24; the gram matrix of this many features takes 0.5 GB


class Accepts(NamedTuple):
    """An engine: its ``path`` "module.class", and the models, data and optimizers that it accepts."""

    path: str
    models: str  # "linear", "softmax" or "any"
    data: tuple[type, ...]
    any_optimizer: bool = True

    def engine(self) -> type:
        """Return the engine's class, imported only now because torch, for autograd, may not be installed."""
        module, name = self.path.split(".")
        return getattr(import_module(f"iclcore.engines.{module}"), name)


ENGINES = {
    "moments": Accepts("linear.MomentEngine", "linear", (Sequences, RegressionTask, Moments)),
    "population": Accepts("population.PopulationEngine", "linear", (RegressionTask,), False),
    "softmax": Accepts("softmax.SoftmaxEngine", "softmax", (Sequences,), False),
    "autograd": Accepts("autograd.AutogradEngine", "any", (Sequences,)),
    "published": Accepts("autograd.PublishedEngine", "any", (Sequences,)),
}


def choose(
    model: Model,
    engine: str,
    sizes: tuple[int, int] | None,
    task: RegressionTask | None = None,
    optimizer: Optimizer = PLAIN,
) -> str:
    """Return the name of the engine for a run; "auto" chooses the fastest one that is exact.

    ``sizes`` are D and O, or None if the data are moments, which are already computed. ``task`` is given only
    if the data are infinitely many sequences of it. Moments hold F² numbers, and the number F of features
    grows as D³. With more features than MOST_FEATURES, "auto" chooses "population" for a task and "autograd"
    for sequences.
    """
    choice("engine", engine, ("auto", *ENGINES))
    instance("optimizer", optimizer, GradientDescent, Adam)
    size = features(model, *sizes).size if sizes and model.linear else 0
    if engine == "auto" and model.linear:
        engine = "moments" if size <= MOST_FEATURES else "population" if task else "autograd"
    elif engine == "auto":
        engine = "softmax" if model.softmax and optimizer == PLAIN else "autograd"
    accepts = ENGINES[engine]
    if accepts.models != "any" and not getattr(model, accepts.models):
        raise BadValue("engine", f"{engine} takes {accepts.models} models, not {model}")
    if optimizer != PLAIN and not accepts.any_optimizer:
        raise BadValue("optimizer", f"takes plain gradient descent with engine {engine}")
    if engine == "moments" and size > MOST_FEATURES:
        takes = f"moments takes at most {MOST_FEATURES:,} features, not {size:,} (D = {sizes[0]})"
        raise BadValue("engine", f"{takes}; {'population' if task else 'autograd'} takes more")
    if engine == "population" and not (task and task.outputs == task.in_context == 1):
        takes = "population takes infinitely many sequences of a task with one output, in_context 1"
        raise BadValue("engine", takes)
    return engine
