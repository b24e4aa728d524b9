"""Type hints for arrays and their shapes, as in ``Float[np.ndarray, "P D"]``.

The hints come from jaxtyping, and the tests use them to check shapes. If jaxtyping is not installed, the
shape is only a comment on the class of the array, so NumPy alone is enough to import the core. Type checkers
always treat the shape as such a comment.
"""

try:
    from jaxtyping import Float, Int
except ModuleNotFoundError:
    from typing import Annotated as Float
    from typing import Annotated as Int

__all__ = ["Float", "Int"]
