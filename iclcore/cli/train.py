"""``train``: the run that the flags say, on the published draw."""

import argparse
import sys
from collections.abc import Callable

from iclcore.cli.flags import task_and_model
from iclcore.cli.report import check_files, drawing, report
from iclcore.interrupts import noted


def run(options: argparse.Namespace, refuse: Callable) -> int:
    task, model = task_and_model(options, refuse)
    check_files(options, refuse)

    # only now, for they load compilers
    from iclcore.cli.runs import refuse_hopeless, run_of
    from iclcore.sweep.plan import carry_out, prepare

    asked = run_of(options, task, model, refuse)
    refuse_hopeless(asked, refuse)
    picture = drawing(options)
    starts = prepare([asked])
    with noted():  # a second Ctrl-C must not cost what the first one kept
        history = carry_out(starts, asked)
        if history.past_edge is not None:
            other = "; --engine published goes on as the authors' code does"
            print(
                f"from step {history.past_edge} learning rate × sharpness exceeds 2, and rounding "
                f"decides how the run goes on{other * (history.engine != 'published')}",
                file=sys.stderr,
            )
    return report(history, options, lambda: picture.run(history, task))
