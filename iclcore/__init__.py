"""Training dynamics of in-context learning: tasks, models, exact training, theory.

The public names are loaded when they are first used, so that ``import iclcore`` is fast and never loads
torch. Editors and type checkers read this module but do not run it. For them, the names are imported under
TYPE_CHECKING.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Where each public name is defined. ``train`` is the function, so its module cannot be named train too.
_MODULE_OF = {
    "RegressionTask": "task",
    "Sequences": "task",
    "MergedAttention": "models",
    "SeparateAttention": "models",
    "CubicMLP": "models",
    "Moments": "moments",
    "History": "history",
    "GradientDescent": "optimisers",
    "Adam": "optimisers",
    "train": "trainer",
}
_MODULES = ("moments", "published", "stability", "sweep", "theory")

__all__ = [*_MODULE_OF, *_MODULES]

if TYPE_CHECKING:
    from iclcore import moments as moments
    from iclcore import published as published
    from iclcore import stability as stability
    from iclcore import sweep as sweep
    from iclcore import theory as theory
    from iclcore.history import History as History
    from iclcore.models import CubicMLP as CubicMLP
    from iclcore.models import MergedAttention as MergedAttention
    from iclcore.models import SeparateAttention as SeparateAttention
    from iclcore.moments import Moments as Moments
    from iclcore.optimisers import Adam as Adam
    from iclcore.optimisers import GradientDescent as GradientDescent
    from iclcore.task import RegressionTask as RegressionTask
    from iclcore.task import Sequences as Sequences
    from iclcore.trainer import train as train
else:  # hidden from type checkers, so that they report a name that does not exist

    def __getattr__(name: str):
        if name in _MODULE_OF:
            return getattr(import_module(f"iclcore.{_MODULE_OF[name]}"), name)
        if name in _MODULES:
            return import_module(f"iclcore.{name}")
        raise AttributeError(f"module 'iclcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
