"""How type hints are checked: as Python means them, where an int is a float, and in each test at the first
calls of a function. At all of its calls that would be a quarter of the time of all tests.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from itertools import count

import jaxtyping
from beartype import BeartypeConf, beartype

FIRST = 20  # calls
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
always = jaxtyping.jaxtyped
# by what was defined: a function within another is made anew at each of its calls
calls: dict[object, count] = defaultdict(count)


def at_first(typechecker: Callable) -> Callable:
    """As ``jaxtyping.jaxtyped``, which the import hook puts before every function and class."""

    def decorate(it):
        if not isfunction(it):
            return always(it, typechecker=typechecker)
        checked, name = None, (it.__module__, it.__qualname__)

        @wraps(it)
        def call(*args, **kwargs):
            nonlocal checked
            if next(calls[name]) >= FIRST:
                return it(*args, **kwargs)
            checked = checked or always(it, typechecker=typechecker)
            return checked(*args, **kwargs)

        return call

    return decorate


jaxtyping.jaxtyped = at_first
