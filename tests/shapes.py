"""Check type hints and shapes in the first calls of each function in each test.

To check them in all calls would take a quarter of the time of all tests. An int may be given for a float.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from itertools import count

import jaxtyping
from beartype import BeartypeConf, beartype

FIRST = 20  # number of calls that are checked
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
always = jaxtyping.jaxtyped
# The key is a name, because a function inside another one is a new object at each call of the outer one.
calls: dict[object, count] = defaultdict(count)


def at_first(typechecker: Callable) -> Callable:
    """Replace ``jaxtyping.jaxtyped``, the decorator that the import hook adds to functions and classes."""

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
