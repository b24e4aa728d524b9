"""Training dynamics of in-context learning: tasks, models, exact training, theory.

The public names are loaded when they are first used, so that ``import iclcore`` is fast and never loads
torch.
"""

from importlib import import_module

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
_MODULES = ("heads", "moments", "published", "theory")

__all__ = [*_MODULE_OF, *_MODULES]


def __getattr__(name: str):
    if name in _MODULE_OF:
        return getattr(import_module(f"iclcore.{_MODULE_OF[name]}"), name)
    if name in _MODULES:
        return import_module(f"iclcore.{name}")
    raise AttributeError(f"module 'iclcore' has no attribute {name!r}")
