"""Type hints for arrays and their shapes, as in ``Float[np.ndarray, "P D"]``.

The hints are jaxtyping's, and the tests check the shapes with them. Where jaxtyping is not installed, only
the class of the array remains, so NumPy alone is enough to import the core.
"""

try:
    from jaxtyping import Float, Int
except ModuleNotFoundError:

    class Float:
        """Stands in for the hints of jaxtyping: ``Float[np.ndarray, "P D"]`` is ``np.ndarray``."""

        def __class_getitem__(cls, item):
            return item[0]

    Int = Float

__all__ = ["Float", "Int"]
