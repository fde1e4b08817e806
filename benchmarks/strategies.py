#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many runs each strategy needs, and what its choice loses.

Surfaces are random: an effect of each value and of each pair of values of
two parameters, on log rates. Noise is resampled from runs that were
recorded, as distances from their rows' means. Every strategy sees the same
surfaces. Regret is how much slower the configuration that is taken is than
the best one of the surface, in percent. Runs count those on bare metal too.

Run it with the Python of the virtual environment:
.venv/bin/python benchmarks/strategies.py FOLDER-OF-RECORDS [SEEDS]
"""

import math
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from hvstack import host_profiles
from hvstack.model.target import BareMetal, Target, parse_target
from hvstack.results import record
from hvstack.results.record_data import RunRecord
from hvstack.sweep import search_space, strategies
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import MeasuredRates, Strategy

VALUES = ('instances=1,2,4,10', 'cpu_ratio=1,2', 'ram_ratio=1,1.2')
#: Runs of each configuration; a race spends as many in all, at most.
RUNS = (2, 3, 4)
#: Standard deviations of effects on the log rate: the deck's steps are 2 to
#: 22 %, its memory over-subscription apart.
EFFECT, INTERACTION = 0.08, 0.05
SEEDS = 1000
QUANTILES = (10, 50, 90, 99)


def noise(records: Iterable[RunRecord]) -> list[float]:
    """Return distances of log rates from their rows' means.

    Stretched by what the mean of few runs hides of the scatter.
    """
    rows: dict[tuple[Any, ...], list[float]] = {}
    for run_record in records:
        if run_record.valid:
            key = (
                run_record.sweep,
                run_record.configuration,
                run_record.size_bytes,
            )
            rows.setdefault(key, []).append(math.log(run_record.rate))
    return [
        (log - statistics.fmean(row)) * math.sqrt(len(row) / (len(row) - 1))
        for row in rows.values()
        if len(row) > 1
        for log in row
    ]


def surface(area: Space, source: random.Random) -> dict[Target, float]:
    """Return the true log rate of every configuration."""
    effects: dict[tuple[Any, ...], float] = {}

    def effect(scale: float, *key: Any) -> float:
        return effects.setdefault(key, source.gauss(0, scale))

    log_rates: dict[Target, float] = {}
    for configuration in area.possible:
        values = [(name, getattr(configuration, name)) for name in area.values]
        log_rates[configuration] = math.fsum(
            [effect(EFFECT, value) for value in values]
            + [effect(INTERACTION, *two) for two in combinations(values, 2)]
        )
    return log_rates


def sweep(
    strategy: Strategy,
    truth: dict[Target, float],
    errors: Sequence[float],
    source: random.Random,
) -> tuple[int, float]:
    """Return the runs and the regret in percent of one sweep."""
    rates: dict[Target, list[float]] = {BareMetal(): []}

    def run(target: Target) -> None:
        log = truth.get(target, 0.0) + source.choice(errors)
        rates.setdefault(target, []).append(math.exp(log))

    while asks := strategy.request_runs(MeasuredRates(rates)):
        for ask in asks:
            run(BareMetal())
            for _ in range(ask.runs):
                run(ask.configuration)
    run(BareMetal())
    choice = strategy.choose(MeasuredRates(rates))
    assert choice
    best = max(truth.values())
    return (
        sum(map(len, rates.values())),
        abs(100 * math.expm1(truth[parse_target(choice.selected)] - best)),
    )


def quantiles(values: Sequence[float]) -> list[float]:
    """Return the quantiles that are printed."""
    cuts = statistics.quantiles(values, n=100, method='inclusive')
    return [cuts[percent - 1] for percent in QUANTILES]


def main() -> int:
    """Print the table; status 1 if a race is not worth it."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    errors = noise(record.load_all(Path(sys.argv[1])))
    if not errors:
        print('no configuration was run twice there', file=sys.stderr)
        return 2
    seeds = int(sys.argv[2]) if len(sys.argv) == 3 else SEEDS
    area = search_space.explore_space(
        search_space.parse_space(VALUES), host_profiles.load('vsphere6'), 'kvm'
    )
    deviation = math.sqrt(statistics.fmean(e * e for e in errors))
    print(
        f'{len(area.possible)} configurations, {seeds} surfaces, noise of '
        f'{len(errors)} recorded runs (SD {deviation:.1%})'
    )
    head = ''.join(f'{f"{q} %":>7}' for q in QUANTILES)
    print(f'{"runs each, strategy":24}{"runs:":>7}{head}  regret %:{head}')
    good = True
    for runs in RUNS:
        medians = {}
        for name in strategies.STRATEGIES:
            strategy = strategies.create_strategy(name, area, runs)
            results = []
            for seed in range(seeds):
                truth = surface(area, random.Random(seed))  # noqa: S311
                source = random.Random(seeds + seed)  # noqa: S311
                results.append(sweep(strategy, truth, errors, source))
            counts, regrets = zip(*results, strict=True)
            needed, losses = quantiles(counts), quantiles(regrets)
            middle = QUANTILES.index(50)
            medians[name] = (needed[middle], losses[middle])
            print(
                f'{f"{runs}, {name}":31}'
                + ''.join(f'{value:7.0f}' for value in needed)
                + ' ' * 11
                + ''.join(f'{value:7.2f}' for value in losses),
                flush=True,
            )
        race, full = medians['racing'], medians['full-factorial']
        good = good and race[0] < full[0] and race[1] <= full[1]
    print(f'racing needs fewer runs at no more regret: {good}')
    return int(not good)


if __name__ == '__main__':
    sys.exit(main())
