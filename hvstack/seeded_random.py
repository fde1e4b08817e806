# SPDX-License-Identifier: Apache-2.0
"""Random choices that a seed repeats; never for secrets."""

import random


def build_generator(seed: int | str) -> random.Random:
    """Return a generator whose numbers follow from a seed."""
    return random.Random(seed)  # noqa: S311, no secret follows from it
