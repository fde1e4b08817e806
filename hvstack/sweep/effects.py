# SPDX-License-Identifier: Apache-2.0
"""Prior of the effects of parameters on the rates of a search space."""

import functools
import itertools
from collections.abc import Hashable, Sequence
from operator import eq, mul
from statistics import NormalDist

from hvstack.model.configuration import Configuration
from hvstack.sweep.search_space import PARAMETERS, Value

#: Prior standard deviations in log rate. The steps of the Dell presentation
#: are 2 to 22 %.
EFFECT, INTERACTION = 0.08, 0.05
#: Standard deviation of what neither effects nor interactions explain.
RESIDUAL = 0.003
#: Number of samples of the rates, of all hypotheses together.
SAMPLES = 512

_NORMAL = NormalDist()


#: Names and values of the varied parameters of a configuration.
_Values = tuple[tuple[str, Value], ...]


@functools.lru_cache(maxsize=4)
def _compute_covariances(rows: tuple[_Values, ...]) -> list[list[float]]:
    """Return the covariances of the log rates without the mean.

    A plan simulates several searches of the same space.

    :param rows: values of all configurations.
    """
    size = len(rows[0])
    # By the number of values that two configurations share.
    by_shared = [
        shared * EFFECT**2 + shared * (shared - 1) / 2 * INTERACTION**2
        for shared in range(size + 1)
    ]
    by_shared[size] += RESIDUAL**2
    return [
        [by_shared[sum(map(eq, values, others))] for others in rows]
        for values in rows
    ]


class Effects:
    """Prior of the effects in a search space.

    :param configurations: configurations of the search space.
    :param seed: seed of the random numbers.
    :param samples: number of samples of the rates.
    """

    def __init__(
        self,
        configurations: Sequence[Configuration],
        seed: str,
        samples: int = SAMPLES,
    ) -> None:
        self.count = len(configurations)
        self.seed = seed
        self.samples = samples
        self._noise: dict[int, list[float]] = {}
        names = [
            name
            for name in PARAMETERS
            if len({getattr(item, name) for item in configurations}) > 1
        ]
        self._values = tuple(
            tuple((name, getattr(item, name)) for name in names)
            for item in configurations
        )

    @functools.cached_property
    def covariances(self) -> list[list[float]]:
        """Covariances of the log rates without the mean, for a scale of 1."""
        return _compute_covariances(self._values)

    @functools.cached_property
    def prior_samples(self) -> list[list[float]]:
        """Samples of the log rates without the mean, for a scale of 1."""
        keys: dict[Hashable, int] = {}

        def find(key: Hashable) -> int:
            return keys.setdefault(key, len(keys))

        parts = [
            [(find(value), EFFECT) for value in values]
            + [
                (find(pair), INTERACTION)
                for pair in itertools.combinations(values, 2)
            ]
            + [(find(row), RESIDUAL)]
            for row, values in enumerate(self._values)
        ]
        deviations = dict(itertools.chain.from_iterable(parts))
        scales = [deviations[key] for key in range(len(keys))]
        indexes = [[key for key, _ in part] for part in parts]
        normals = self._draw('effects', len(keys) * self.samples)
        samples = []
        for first in range(0, len(normals), len(keys)):
            effects = list(map(mul, normals[first:], scales))
            samples.append(
                [sum(map(effects.__getitem__, part)) for part in indexes]
            )
        return samples

    def draw_noise(self, index: int) -> list[float]:
        """Return two random numbers of each sample for a run.

        :param index: index of the run in the search.
        """
        if index not in self._noise:
            self._noise[index] = self._draw(f'run{index}', 2 * self.samples)
        return self._noise[index]

    def draw_mean(self) -> list[float]:
        """Return random numbers of each sample for mean and slope."""
        return self.draw_noise(-1)

    def _draw(self, name: str, count: int) -> list[float]:
        return _NORMAL.samples(count, seed=f'{self.seed}:{name}')
