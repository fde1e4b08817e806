# SPDX-License-Identifier: Apache-2.0
"""How a sweep went: the way to its best configuration, what it skipped."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.report import improvements, sweep_rows
from hvstack.results import run_id, skipped
from hvstack.results.decision import SearchDecision
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.sweep import sweep_store
from hvstack.sweep.search_space import Skipped

if TYPE_CHECKING:
    from hvstack.sweep.executor import SweepStatus


@dataclass(frozen=True)
class SweepSummary:
    """What records alone do not tell.

    :param way: what each step gained over the one before, a line each.
    :param decision: answer of the search; None without a search.
    :param unreadable: why a file that has a part of this cannot be used, a
        line each.
    """

    way: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unreadable: tuple[str, ...] = ()
    decision: SearchDecision | None = None

    def lines(self) -> list[str]:
        """Return it for a terminal."""
        lines = [
            f'skipped: {skip.name}: {skip.reason}' for skip in self.skipped
        ]
        lines += [f'not readable: {reason}' for reason in self.unreadable]
        if self.way:
            lines += ['', 'Search path, gain over the step before:']
            lines += [f'  {line}' for line in self.way]
        return lines


def of(
    records: Sequence[RunRecord], store: RunStore | None = None
) -> SweepSummary:
    """Return how the sweep of some records went.

    A report is made of what is there: a marker that is broken, or whose
    hosts are gone, takes only this part of it away. Without one, a task of
    Rally's has written down what it skipped.

    :param store: store of the records; None uses the store of hvstack.conf.
    """
    # Its baseline may be of another one.
    sweeps = {
        run_id.parse_sweep_id(run_record.sweep)
        for run_record in records
        if run_record.kind == 'configuration'
    }
    stored_sweeps, reasons = sweep_store.load_usable()
    # The markers of other sweeps are their own reports' matter.
    unreadable = tuple(
        reason
        for reason in reasons
        if any(f'/{sweep_id}.json' in reason for sweep_id in sweeps)
    )
    store = store or sweep_store.open_store()
    try:
        for sweep in stored_sweeps:
            if sweeps == {sweep.id} and sweep.spec is not None:
                # Most reports are of tasks, without a strategy.
                from hvstack.sweep import executor

                status = executor.load_status(sweep, store)
                return SweepSummary(
                    tuple(way(status)),
                    status.strategy.space.skipped,
                    decision=status.decision,
                )
        measured = {
            parse(run_record.configuration).label
            for run_record in records
            if run_record.kind == 'configuration' and run_record.valid
        }
        return SweepSummary(
            skipped=tuple(
                Skipped(name, reason)
                for sweep_id in sorted(sweeps)
                for name, reason in skipped.load_skips(store, sweep_id).items()
                if name not in measured
            ),
            unreadable=unreadable
            + tuple(_list_unknown_answers(sweeps, store)),
        )
    except errors.InputError as exc:
        return SweepSummary(unreadable=(*unreadable, str(exc)))


def _list_unknown_answers(
    sweeps: Collection[str], store: RunStore
) -> Iterator[str]:
    """Yield a line for each search whose answer is not known here.

    It follows from the search space, which only the marker contains.

    :param sweeps: IDs of sweeps.
    :param store: store of the records.
    """
    for sweep_id in sorted(sweeps):
        marker = sweep_store.SWEEPS_DIR / f'{sweep_id}.json'
        if has_search(sweep_id, store) and not marker.exists():
            yield (
                f"the answer of the search of sweep '{sweep_id}', which only "
                'the machine that measured it knows: this machine does not '
                f'have {marker}'
            )


def has_search(sweep_id: str, store: RunStore) -> bool:
    """Return whether a store has runs of the search of a sweep."""
    return bool(store.list_runs(run_id.format_search_name(sweep_id)))


def way(status: 'SweepStatus') -> list[str]:
    """Return the improvement of each step of a one-at-a-time strategy."""
    # A report of a task needs no strategy.
    from hvstack.sweep.strategies import OneAtATime

    if not isinstance(status.strategy, OneAtATime):
        return []
    step_gains = improvements.compute_gains(
        status.strategy.list_tried_values(status.measured),
        status.corrected_rates,
    )
    emulated = any(map(sweep_rows.is_emulated, status.records))
    return [
        f'{line}{", emulated" * emulated}'
        for line in improvements.format_gains(step_gains)
    ]
