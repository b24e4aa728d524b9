"""Training dynamics of in-context learning: tasks, models, exact training, theory.

Names are loaded when first used, so that ``import iclcore`` is cheap and never loads torch.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
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
_ROOMS = ("heads", "moments", "published", "theory")

__all__ = [name for name in (*_HOMES, *_ROOMS) if name != "published"]  # which loads torch


def __getattr__(name: str):
    if name in _HOMES:
        value = getattr(import_module(f"iclcore.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return import_module(f"iclcore.{name}")
    raise AttributeError(f"module 'iclcore' has no attribute {name!r}")
