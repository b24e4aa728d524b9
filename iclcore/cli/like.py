"""The flag ``--like``, which makes the settings of a saved run the defaults of the flags of ``train``."""

import argparse
import math

from iclcore.checks import BadValue
from iclcore.cli.flags import TASK_FLAGS, model_of, optimizer_of, task_of
from iclcore.history import History, describe

MODELS = {"MergedAttention": "attnM", "SeparateAttention": "attnS", "CubicMLP": "mlp"}


def like(options: argparse.Namespace) -> argparse.Namespace:
    """Return the flags of the run in the file of --like, with those on the command line in their place.

    If the saved run was on the user's own arrays, the command line must name arrays with --data, because a
    saved run does not hold its arrays. The arrays may differ from those of the saved run.
    """
    read = History.from_npz if options.like.endswith(".npz") else History.from_csv
    try:
        settings = read(options.like).settings
    except (OSError, ValueError) as error:
        raise BadValue("like", f"takes the file of a run: {error}") from None
    parser, own = options.parser, "data" in settings
    try:
        flags = flags_of(settings)
        saved = argparse.Namespace(**vars(parser.parse_args([])) | flags)
        parts = [model_of(saved), optimizer_of(saved)] + ([] if own else [task_of(saved)])
        complete = describe(*parts).items() <= settings.items()
    except (KeyError, BadValue):
        complete = False
    if not complete:
        takes = "takes a run of train, without --model multihead, or of sweep"
        raise BadValue("like", f"{takes}; no flags describe the run in {options.like}")
    if own and not options.data:
        raise BadValue("data", f"is needed, as the run in {options.like} was on arrays of your own")
    if own and settings["tests"] and not options.test:
        raise BadValue("test", f"is needed, as the run in {options.like} had held-out arrays")
    if options.data:
        flags |= dict.fromkeys(TASK_FLAGS)
    parser.set_defaults(**flags)
    return parser.parse_args(options.words)


def flags_of(settings: dict) -> dict:
    """Return the flags that describe a run with these settings. Raise KeyError if a setting is missing.

    Most flags are stored under the names of the parameters.
    """
    (name,) = MODELS.keys() & settings.keys() or [""]
    flags = {"model": MODELS[name], "cubic_feat": name == "CubicMLP"}
    for each, value in settings.items():
        flags |= value if isinstance(value, dict) else {each: value}
    flags["every_length"] = flags["divisor"] == "tokens"
    flags["optimizer"] = "adam" if "Adam" in settings else "sgd"
    if flags["sequences"] is None:
        flags["sequences"] = math.inf
    flags.pop("data", None)
    return flags
