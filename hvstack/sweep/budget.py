# SPDX-License-Identifier: Apache-2.0
"""Budget of a sweep: runs or hours, with its confirmation."""

import re
from dataclasses import dataclass

from hvstack import errors

#: Maximum number of runs, and of hours.
_MAX = 10_000
_FORMAT = re.compile(r'([0-9]{1,5}(?:\.[0-9]{1,3})?)(h?)', re.ASCII)


@dataclass(frozen=True)
class Budget:
    """Budget of a sweep.

    :param runs: maximum number of runs; None without a limit.
    :param hours: maximum number of hours; None without a limit.
    """

    runs: int | None = None
    hours: float | None = None

    def count_runs(self, seconds: float | None) -> int | None:
        """Return the maximum number of runs of the sweep.

        :param seconds: seconds of a run with its new cluster; None if no run
            is known.
        :returns: None without a limit, or if the time of a run is not known
            yet.
        """
        if self.hours is not None and seconds:
            return int(3600 * self.hours / seconds)
        return self.runs

    def count_clusters(
        self,
        confirmation_runs: int,
        runs_per_cluster: int,
        seconds: float | None,
    ) -> int | None:
        """Return the maximum number of clusters of the search.

        :param confirmation_runs: number of runs of the confirmation.
        :param runs_per_cluster: number of runs on a cluster.
        :param seconds: seconds of a run with its new cluster; None if no run
            is known.
        :returns: at least 1; None without a limit, or if the time of a run is
            not known yet.
        """
        runs = self.count_runs(seconds)
        if runs is None:
            return None
        return max(1, (runs - confirmation_runs) // runs_per_cluster)

    def check(
        self, confirmation_runs: int, seconds: float | None = None
    ) -> None:
        """Check that the budget suffices for the confirmation.

        :param confirmation_runs: number of runs of the confirmation.
        :param seconds: seconds of a run with its new cluster; None if no run
            is known, so that hours are not checked.
        :raises hvstack.errors.InputError: it is too small.
        """
        runs = self.count_runs(seconds)
        if runs is None or runs > confirmation_runs:
            return
        if self.hours is None:
            raise errors.InputError(
                f'Cannot use --budget {runs}: the confirmation alone needs '
                f'{confirmation_runs} runs. Use a larger budget, or fewer '
                'passes with --runs.'
            )
        assert seconds
        raise errors.InputError(
            f'Cannot use --budget {self.hours:g}h: {runs} runs of '
            f'{seconds:.0f} s fit into it, and the confirmation alone needs '
            f'{confirmation_runs} runs. Use a larger budget, fewer passes '
            'with --runs, or a number of runs if they will take less time.'
        )


def parse_budget(text: str) -> Budget:
    """Return the budget that a text such as 40 or 2.5h describes.

    :param text: number of runs, or number of hours with an h; empty for no
        limit.
    :raises hvstack.errors.InputError: the text is not valid.
    """
    if not text:
        return Budget()
    match = _FORMAT.fullmatch(text)
    if match:
        value = float(match[1])
        if 0 < value <= _MAX and match[2]:
            return Budget(hours=value)
        if 0 < value <= _MAX and value == int(value):
            return Budget(runs=int(value))
    raise errors.InputError(
        f"Cannot use --budget '{text[:40]}': it is not a number of runs or of "
        f'hours. Use a number of runs such as 40, or of hours such as 2.5h, '
        f'up to {_MAX}.'
    )
