# SPDX-License-Identifier: Apache-2.0
"""Share of the time outside of the phases at other sizes of the data."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvstack.report.formats import format_size
from hvstack.report.growth import Growth, compute_growth
from hvstack.results import comparability
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.results.timeline import TimelineSummary
from hvstack.results.typed_json import JsonObject

#: Share of the time outside of the phases that a size is computed for, and
#: size of the data that a share is computed for, in bytes.
_SHARE = 0.15
_LARGE = 10**12


@dataclass(frozen=True)
class OutsideGrowth:
    """Formula of the share outside of the phases by the size of the data.

    :param size_bytes: size of the data of the runs.
    :param outside_seconds: time outside of the phases for each run.
    :param phase_seconds: mean time of the phases of a run.
    :param fixed_seconds: part of it that does not grow with the data.
    :param growth: runs on bare metal with two sizes, from which the part
        follows; None if the phases are taken to grow in proportion.
    """

    size_bytes: int
    outside_seconds: float
    phase_seconds: float
    fixed_seconds: float = 0.0
    growth: Growth | None = None

    @property
    def seconds_per_byte(self) -> float:
        """Time of the phases for each byte of the data."""
        return (self.phase_seconds - self.fixed_seconds) / self.size_bytes

    def compute_share(self, size_bytes: float) -> float:
        """Return the share outside of the phases, from 0 to 1.

        :param size_bytes: size of the data.
        """
        phases = self.fixed_seconds + self.seconds_per_byte * size_bytes
        return self.outside_seconds / (self.outside_seconds + phases)

    def find_size(self) -> float | None:
        """Return the size in bytes from which on the share is 15 %.

        :returns: 0 if it is less at any size; None if the phases do not grow.
        """
        if not self.seconds_per_byte:
            return None
        phases = self.outside_seconds * (1 / _SHARE - 1)
        return max(0.0, (phases - self.fixed_seconds) / self.seconds_per_byte)

    def to_mapping(self) -> JsonObject:
        """Return the formula and its results as plain data."""
        growth = self.growth
        return {
            'size_bytes': self.size_bytes,
            'outside_seconds': self.outside_seconds,
            'phase_seconds': self.phase_seconds,
            'fixed_seconds': self.fixed_seconds,
            'measured_bytes': [growth.small, growth.large]
            if growth
            else [self.size_bytes],
            'share': self.compute_share(self.size_bytes),
            'bytes_at_15_percent': self.find_size(),
            'share_at_1_tb': self.compute_share(_LARGE),
        }

    def format_lines(self) -> list[str]:
        """Return the shares with the formula and what it assumes."""
        size = self.find_size()
        limit = f'{100 * _SHARE:.0f} %'
        if size is None:
            limit = f'{limit} at no size'
        elif size:
            rounded = int(float(f'{size:.2g}'))
            limit = f'{limit} from about {format_size(rounded)}'
        else:
            limit = f'less than {limit} at any size'
        share, large_share = (
            100 * self.compute_share(item)
            for item in (self.size_bytes, _LARGE)
        )
        phases = f'{1e9 * self.seconds_per_byte:.1f} s x GB'
        if self.growth:
            phases = f'{self.fixed_seconds:.0f} s + {phases}'
            reason = (
                'by runs on bare metal with '
                f'{format_size(self.growth.small)} and '
                f'{format_size(self.growth.large)}'
            )
        else:
            reason = (
                'in proportion to the data: the formula rests on one size, '
                'because no runs on bare metal with another size give a line'
            )
        return [
            f'The share outside of the phases is {share:.1f} % at '
            f'{format_size(self.size_bytes)}; {limit}; {large_share:.2g} % at '
            f'{format_size(_LARGE)}.',
            f'It assumes that the {self.outside_seconds:.0f} s outside of the '
            'phases of a run do not grow with the data, and that its phases '
            f'take {phases}, {reason}.',
        ]


def compute_outside_growth(
    summary: TimelineSummary, records: Sequence[RunRecord], store: RunStore
) -> OutsideGrowth | None:
    """Compute the share outside of the phases at other sizes.

    The line through two sizes is that of bare metal in the sweep, or of bare
    metal in the sweep and in other sweeps on these hosts.

    :param summary: where the time of the sweep went.
    :param records: records of the sweep.
    :param store: store of the run records.
    :returns: None without a valid run.
    """
    valid = [record for record in records if record.valid]
    if not valid:
        return None
    size = statistics.mode(record.size_bytes for record in valid)
    alike = [record for record in valid if record.size_bytes == size]
    # The valid runs share the time around those that failed.
    outside_seconds = summary.outside_share * summary.total_seconds
    phase_seconds = statistics.fmean(record.total_seconds for record in alike)
    growth = _find_growth(alike, valid, store)
    share = 0.0
    if growth is not None:
        pair = dict(
            zip((growth.small, growth.large), growth.total, strict=True)
        )
        share = (growth.fixed_total or 0.0) / pair[size]
    return OutsideGrowth(
        *(size, outside_seconds / len(valid), phase_seconds),
        *(share * phase_seconds, growth),
    )


def _find_growth(
    alike: Sequence[RunRecord], valid: Sequence[RunRecord], store: RunStore
) -> Growth | None:
    """Return the growth on bare metal whose line has no negative part."""
    baseline = [record for record in alike if record.kind == 'baseline']
    if not baseline:
        return None

    def is_alike(record: RunRecord) -> bool:
        return not comparability.list_record_differences(
            record, baseline[0], {'size_bytes'}
        )

    # The machine was the same within the sweep.
    sources: tuple[Callable[[], list[RunRecord]], ...] = (
        lambda: [record for record in valid if record.kind == 'baseline'],
        lambda: store.read_baselines(is_selected=is_alike)[0],
    )
    for list_records in sources:
        others = [
            record
            for record in list_records()
            if record.valid
            and record.size_bytes != baseline[0].size_bytes
            and is_alike(record)
        ]
        usable = [
            growth
            for growth in compute_growth(baseline, others)
            if growth.fixed_total is not None
        ]
        if usable:
            # The line is the more exact, the farther apart the sizes are.
            return max(usable, key=lambda growth: growth.factor)
    return None
