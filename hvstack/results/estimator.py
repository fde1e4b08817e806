# SPDX-License-Identifier: Apache-2.0
"""Rows and passes of a sweep by least squares on log rates.

The logarithm of the rate of a cluster is the sum of an effect of its row (a
configuration or bare metal), an effect of its pass, and a random part. Passes
may be incomplete. The unit is the cluster: several runs on a cluster are one
value. The variance of the random part comes from the residuals, and from
those of earlier sweeps of the same workload on the same hosts
(:class:`History`), unless an F test shows that the two differ. The method is
that of a randomized block design (Montgomery, "Design and Analysis of
Experiments", chapter 4).
"""

import functools
import math
import operator
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hvstack.results import quantiles
from hvstack.results.design import Design, solve_design

#: Degrees of freedom that earlier sweeps may add at most.
MAX_HISTORY_DEGREES = 20
#: Probability that an F test reports a difference of equal variances.
F_TEST_LEVEL = 0.01


@dataclass(frozen=True)
class ClusterRate:
    """Result of one cluster.

    :param row: name of the configuration, or of bare metal.
    :param pass_id: pass of the cluster; None if it is not part of a pass.
    :param log_rate: logarithm of the geometric mean of the rates of its runs.
    :param hour: mean start time of its runs in hours.
    """

    row: str
    pass_id: Hashable
    log_rate: float
    hour: float = 0.0


@dataclass(frozen=True)
class Scatter:
    """Sum of squares of residuals, with its degrees of freedom."""

    squares: float = 0.0
    degrees: int = 0

    @property
    def variance(self) -> float:
        """Estimate of the variance; 0 without degrees of freedom."""
        return self.squares / self.degrees if self.degrees else 0.0

    def __add__(self, other: 'Scatter') -> 'Scatter':
        return Scatter(
            self.squares + other.squares, self.degrees + other.degrees
        )

    def limit(self, degrees: int) -> 'Scatter':
        """Return the same variance with fewer degrees of freedom.

        :param degrees: maximum number of degrees of freedom.
        """
        if self.degrees <= degrees:
            return self
        return Scatter(self.variance * degrees, degrees)

    def differs(self, other: 'Scatter') -> bool:
        """Return whether an F test distinguishes two variances."""
        if not self.degrees or not other.degrees:
            return False
        if not self.squares or not other.squares:
            return bool(self.squares or other.squares)
        probability = quantiles.compute_f_probability(
            self.variance / other.variance, self.degrees, other.degrees
        )
        return min(probability, 1 - probability) < F_TEST_LEVEL / 2


@dataclass(frozen=True)
class History:
    """Residuals of earlier sweeps.

    :param total: residuals of all their rows.
    :param guests: residuals of the rows of configurations alone.
    """

    total: Scatter = field(default_factory=Scatter)
    guests: Scatter = field(default_factory=Scatter)

    def __add__(self, other: 'History') -> 'History':
        return History(self.total + other.total, self.guests + other.guests)


@dataclass(frozen=True)
class Difference:
    """Difference of the effects of two rows.

    :param log_ratio: logarithm of the ratio of the rates.
    :param error: standard error of the logarithm; None without degrees of
        freedom.
    :param degrees: degrees of freedom of the standard error.
    """

    log_ratio: float
    error: float | None
    degrees: int


@dataclass(frozen=True)
class SweepFit:
    """Effects of the rows of a sweep, and the scatter around them.

    :param rows: names of the rows; that of bare metal is the first one, if
        it was measured.
    :param effects: difference of each row from the first one in log rate.
    :param design: linear algebra of the sweep.
    :param own: residuals of the sweep.
    :param history: residuals of earlier sweeps.
    :param baseline: name of the row of bare metal; None without it.
    :param pass_effects: mean of each pass in log rate, without the rows.
    :param is_merged: whether all clusters count as one pass, because rows had
        no pass in common.
    """

    rows: tuple[str, ...]
    effects: tuple[float, ...]
    design: Design
    own: History
    history: History
    baseline: str | None
    pass_effects: tuple[float, ...]
    is_merged: bool = False

    @property
    def passes(self) -> int:
        """Number of passes."""
        return len(self.design.counts[0])

    @functools.cached_property
    def pooled(self) -> Scatter:
        """Scatter of all rows, with that of earlier sweeps."""
        return pool_scatter(self.own.total, self.history.total)

    @property
    def history_degrees(self) -> int:
        """Degrees of freedom that come from earlier sweeps."""
        return self.pooled.degrees - self.own.total.degrees

    @functools.cached_property
    def pass_deviation(self) -> float:
        """Standard deviation of the passes, without the scatter in them."""
        excess = self._pass_variance - self.own.total.variance * self._noise
        return math.sqrt(max(0.0, excess))

    @property
    def wanders(self) -> bool:
        """Whether an F test distinguishes the passes: the pace drifted."""
        degrees = self.own.total.degrees
        if self.passes < 2 or not degrees or not self.own.total.squares:
            return False
        ratio = self._pass_variance / (self.own.total.variance * self._noise)
        return (
            quantiles.compute_f_probability(ratio, self.passes - 1, degrees)
            > 1 - F_TEST_LEVEL
        )

    @property
    def _pass_variance(self) -> float:
        if self.passes < 2:
            return 0.0
        return statistics.variance(self.pass_effects)

    @property
    def _noise(self) -> float:
        """Mean variance of a pass effect, in that of a cluster."""
        return statistics.fmean(
            1 / sum(column) for column in zip(*self.design.counts, strict=True)
        )

    @functools.cached_property
    def has_history(self) -> bool:
        """Whether an F test does not tell earlier sweeps from this one."""
        return bool(self.history.total.degrees) and not self.own.total.differs(
            self.history.total
        )

    @functools.cached_property
    def is_split(self) -> bool:
        """Whether guests and bare metal scatter differently."""
        return self.baseline is not None and self.own.guests.differs(
            self._remainder
        )

    @functools.cached_property
    def correlation(self) -> float:
        """Mean correlation of the differences of two rows from the first."""
        count = len(self.rows) - 1
        if count < 2:
            return 0.5
        guests, bare_metal = self._variances
        squares = guests * self.design.row_scales[0] + (
            bare_metal * self.design.row_scales[1]
        )
        square = guests * self.design.sum_scales[0] + (
            bare_metal * self.design.sum_scales[1]
        )
        if squares <= 0:
            return 0.5
        # The square of a sum has all products of two rows.
        correlation = (square - squares) / squares / (count - 1)
        return max(0.0, min(0.99, correlation))

    @property
    def _remainder(self) -> Scatter:
        """Residuals that the rows of the guests alone do not have."""
        total, guests = self.own.total, self.own.guests
        return Scatter(
            max(0.0, total.squares - guests.squares),
            total.degrees - guests.degrees,
        )

    @functools.cached_property
    def _variances(self) -> tuple[float, float]:
        """Variances of a cluster of guests and of one on bare metal."""
        if not self.is_split:
            variance = self.pooled.variance
            return variance, variance
        guests = pool_scatter(self.own.guests, self.history.guests).variance
        share = self.design.baseline_share
        squares = self.own.total.squares - guests * (
            self.design.degrees - share
        )
        return guests, max(0.0, squares / share)

    def compare(self, name: str, other: str | None = None) -> Difference:
        """Return the difference of two rows.

        :param name: name of a row.
        :param other: name of the reference row; None uses bare metal.
        """
        row = self.rows.index(name)
        reference = self.rows.index(other or self.baseline or self.rows[0])
        log_ratio = self.effects[row] - self.effects[reference]
        if not self.own.total.degrees:
            return Difference(log_ratio, None, 0)
        in_guests, in_bare_metal = self.design.split_scale(row, reference)
        guests, bare_metal = self._variances
        variance = guests * in_guests + bare_metal * in_bare_metal
        return Difference(
            log_ratio,
            math.sqrt(variance),
            self._count_degrees(in_guests, in_bare_metal),
        )

    def estimate_baseline(self) -> Difference:
        """Return the standard error of the mean of bare metal alone.

        It has the variance of bare metal if that is the larger side. If guests
        scatter more, the pooled variance is the safe one: that of bare metal
        is then a small difference of two large scatters, which is often
        negative.

        :returns: a difference of 0.
        """
        assert self.baseline is not None
        if not self.own.total.degrees:
            return Difference(0.0, None, 0)
        scale = 1 / sum(self.design.counts[0])
        bare_metal = self._variances[1]
        # The two are equal if the sides are not apart.
        if bare_metal <= self.pooled.variance:
            return Difference(
                *(0.0, math.sqrt(self.pooled.variance * scale)),
                self.pooled.degrees,
            )
        return Difference(
            *(0.0, math.sqrt(bare_metal * scale)),
            self._count_degrees(0.0, scale),
        )

    def _count_degrees(self, in_guests: float, in_bare_metal: float) -> int:
        """Return the degrees of freedom of the variance of a difference.

        Guests and bare metal apart, they are those of Welch and
        Satterthwaite.

        :param in_guests: multiple of the variance of guests.
        :param in_bare_metal: multiple of the variance of bare metal.
        """
        if not self.is_split:
            return self.pooled.degrees
        guests = pool_scatter(self.own.guests, self.history.guests)
        share = self.design.baseline_share
        factor = in_bare_metal / share
        # Both parts are independent: residuals of guests, and the others.
        parts = (
            (
                in_guests
                - factor
                * (self.design.degrees - share - self.own.guests.degrees),
                guests,
            ),
            (factor * self._remainder.degrees, self._remainder),
        )
        square = math.fsum(
            (multiple * part.variance) ** 2 / part.degrees
            for multiple, part in parts
            if part.degrees
        )
        total = math.fsum(multiple * part.variance for multiple, part in parts)
        if not square:
            return 1
        return max(1, int(total**2 / square))


def pool_scatter(own: Scatter, history: Scatter) -> Scatter:
    """Return the scatter of a sweep with that of earlier sweeps.

    Earlier sweeps have at most :data:`MAX_HISTORY_DEGREES` degrees of
    freedom, not more than the sweep, and none if an F test
    distinguishes their variance from that of the sweep. They never reduce the
    variance. If earlier sweeps scattered less than this one, an F test seldom
    detects it with so few clusters, and the interval would be too narrow.

    :param own: residuals of the sweep.
    :param history: residuals of earlier sweeps.
    """
    if not own.degrees or own.differs(history):
        return own
    pooled = own + history.limit(min(MAX_HISTORY_DEGREES, own.degrees))
    return pooled if pooled.variance >= own.variance else own


def fit_sweep(
    clusters: Sequence[ClusterRate],
    baseline: str | None = None,
    history: History | None = None,
) -> SweepFit:
    """Fit the effects of rows and passes to the rates of clusters.

    Without a connection between the passes of all rows, for example if bare
    metal was measured by another sweep, all clusters count as one pass.

    :param clusters: clusters of the sweep, at least one.
    :param baseline: name of the row of bare metal; None without it.
    :param history: residuals of earlier sweeps; None without them.
    """
    names = dict.fromkeys(cluster.row for cluster in clusters)
    rows = tuple(sorted(names, key=lambda name: name != baseline))
    if baseline not in names:
        baseline = None
    passes = tuple(dict.fromkeys(cluster.pass_id for cluster in clusters))
    design = _build_design(clusters, rows, passes)
    is_merged = design is None
    if design is None:
        clusters = [replace(cluster, pass_id=None) for cluster in clusters]
        passes = (None,)
        design = _build_design(clusters, rows, passes)
        assert design is not None
    effects, pass_effects, squares = _solve(clusters, rows, passes, design)
    guests = [cluster for cluster in clusters if cluster.row != baseline]
    total = Scatter(squares, design.degrees)
    return SweepFit(
        rows,
        effects,
        design,
        History(
            total,
            total if baseline is None else _compute_scatter(guests),
        ),
        history or History(),
        baseline,
        pass_effects,
        is_merged,
    )


def _compute_scatter(clusters: Sequence[ClusterRate]) -> Scatter:
    """Return the residuals of some rows alone; none if not connected."""
    rows = tuple(dict.fromkeys(cluster.row for cluster in clusters))
    passes = tuple(dict.fromkeys(cluster.pass_id for cluster in clusters))
    design = _build_design(clusters, rows, passes) if clusters else None
    if design is None or not design.degrees:
        return Scatter()
    squares = _solve(clusters, rows, passes, design)[2]
    return Scatter(squares, design.degrees)


def _build_design(
    clusters: Iterable[ClusterRate],
    rows: Sequence[str],
    passes: Sequence[Hashable],
) -> Design | None:
    counts = Counter((cluster.row, cluster.pass_id) for cluster in clusters)
    return solve_design(
        tuple(
            tuple(counts[row, pass_id] for pass_id in passes) for row in rows
        )
    )


def _solve(
    clusters: Sequence[ClusterRate],
    rows: Sequence[str],
    passes: Sequence[Hashable],
    design: Design,
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return the effects of rows and of passes, and the sum of squares.

    :param clusters: clusters with log rates.
    :param rows: names of the rows of the design.
    :param passes: passes of the design.
    :param design: linear algebra.
    """
    # Sums of squares of differences are exact only near zero.
    origin = clusters[0].log_rate
    row_index = {name: index for index, name in enumerate(rows)}
    pass_index = {name: index for index, name in enumerate(passes)}
    cells = [
        (
            row_index[cluster.row],
            pass_index[cluster.pass_id],
            cluster.log_rate - origin,
        )
        for cluster in clusters
    ]
    sums = [0.0] * (len(rows) * len(passes))
    for row, number, log in cells:
        sums[row * len(passes) + number] += log
    effects = [
        sum(map(operator.mul, line, sums)) for line in design.coefficients
    ]
    pass_effects = [
        math.fsum(
            sums[row * len(passes) + number] - count[number] * effects[row]
            for row, count in enumerate(design.counts)
        )
        / sum(count[number] for count in design.counts)
        for number in range(len(passes))
    ]
    squares = math.fsum(
        (log - effects[row] - pass_effects[number]) ** 2
        for row, number, log in cells
    )
    return (
        tuple(effects),
        tuple(effect + origin for effect in pass_effects),
        squares,
    )
