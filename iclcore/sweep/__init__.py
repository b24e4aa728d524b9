"""Many runs: what a run depends on (``plan``), its training, workers here or on a cluster, and the folder
that keeps what is done."""

from iclcore.sweep.folder import FolderInUse, Swept, distinct, sweep
from iclcore.sweep.plan import Plan, grid

__all__ = ["FolderInUse", "Plan", "Swept", "distinct", "grid", "sweep"]
