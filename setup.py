"""The one thing about the build that pyproject.toml cannot say.

Setuptools keeps the files of a build in ``build/`` and puts all that it finds there into the next wheel, so a
module that was removed would come back.
"""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class FreshBuild(build_py):
    """Build from the sources alone."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": FreshBuild})
