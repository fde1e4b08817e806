# SPDX-License-Identifier: Apache-2.0
"""Tests of the statistics and of the state of benchmarks."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

_BENCHMARKS = Path(__file__).parents[3] / 'benchmarks'


def load(name: str) -> ModuleType:
    """Return a benchmark, which is not part of a package.

    Other benchmarks have the names of packages, so that their directory does
    not stay in the search path.
    """
    sys.path.insert(0, str(_BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(_BENCHMARKS))
