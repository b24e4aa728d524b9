"""Type hints for arrays and their shapes, as in ``Float[np.ndarray, "P D"]``.

The hints are jaxtyping's, and the tests check the shapes with them. Where jaxtyping is not installed, the
shape is only a note beside the class of the array, so NumPy alone is enough to import the core. Type checkers
always see it so.
"""

try:
    from jaxtyping import Float, Int
except ModuleNotFoundError:
    from typing import Annotated as Float
    from typing import Annotated as Int

__all__ = ["Float", "Int"]
