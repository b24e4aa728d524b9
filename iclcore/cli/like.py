"""The flag ``--like``: the settings of a saved run become the defaults of the flags of ``train``."""

import argparse
import math

from iclcore.checks import BadValue
from iclcore.cli.flags import TASK_FLAGS, model_of, optimizer_of, task_of
from iclcore.history import History, describe

MODELS = {"MergedAttention": "attnM", "SeparateAttention": "attnS", "CubicMLP": "mlp"}


def like(options: argparse.Namespace) -> argparse.Namespace:
    """Return the flags of the run in the file of --like, changed by the flags that were given.

    If the run was on arrays of the user's own, --data is needed, because a saved run does not hold them.
    Other arrays than before are allowed.
    """
    parser, read = options.parser, History.from_csv
    if options.like.endswith(".npz"):
        read = History.from_npz
    try:
        settings = read(options.like).settings
    except (OSError, ValueError) as error:
        raise BadValue("like", f"takes the file of a run: {error}") from None
    own = "data" in settings
    try:
        flags = flags_of(settings)
        saved = argparse.Namespace(**vars(parser.parse_args([])) | flags)
        parts = [model_of(saved), optimizer_of(saved)] + ([] if own else [task_of(saved)])
        complete = describe(*parts).items() <= settings.items()
    except (KeyError, BadValue):
        complete = False
    if not complete:
        takes = "takes a run that train (but not --model multihead) or sweep saved"
        raise BadValue("like", f"{takes}, as flags can describe it; {options.like} holds another")
    if own and not options.data:
        raise BadValue("data", f"is needed, because the run in {options.like} was on own arrays")
    if options.data:
        flags |= dict.fromkeys(TASK_FLAGS)
    parser.set_defaults(**flags)
    return parser.parse_args(options.words)


def flags_of(settings: dict) -> dict:
    """Return the flags that describe a run with these settings, or raise KeyError if they are not enough."""
    (name,) = MODELS.keys() & settings.keys() or [""]
    flags = {each: settings[each] for each in ("steps", "lr", "seed", "values", "engine")}
    flags |= settings[name] | {"model": MODELS[name], "cubic_feat": name == "CubicMLP"}
    flags |= {"every_length": settings[name]["divisor"] == "tokens"}
    if "Adam" in settings:
        flags |= {"optimizer": "adam", "weight_decay": settings["Adam"]["weight_decay"]}
    else:
        flags |= {"optimizer": "sgd"} | settings["GradientDescent"]
    if "data" not in settings:
        flags |= {each: settings["RegressionTask"][each] for each in TASK_FLAGS[:5]}
        sequences = settings["sequences"]
        flags |= {"sequences": math.inf if sequences is None else sequences}
        flags |= {"tests": settings["tests"]}
    return flags
