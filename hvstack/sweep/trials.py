# SPDX-License-Identifier: Apache-2.0
"""Trials that check the measurement: A against A, and A against B.

Each trial has separate runs on both sides, each on a new cluster, and its
interval uses these runs alone. A against A shows how often the interval
contains 100 % without a difference, and A against B whether a known difference
is detected. The state consists of a marker and the run records, so every
invocation continues the previous one.
"""

import hashlib
import itertools
import json
import re
import statistics
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

from hvstack import (
    errors,
    host_profiles,
    jsonfile,
    paths,
    processutils,
    textfile,
)
from hvstack.model.configuration import Configuration
from hvstack.model.strict_mapping import Fields, to_dataclass
from hvstack.model.target import BARE_METAL, Target, parse_target
from hvstack.progress import Progress
from hvstack.results import (
    comparability,
    percentages,
    stats,
)
from hvstack.results.percentages import MAX_TRIES
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import iter_records
from hvstack.results.stats import Percent
from hvstack.sweep import (
    kept_records,
    rallytask,
    sweep_store,
    tuning_check,
)
from hvstack.sweep.run_order import Step, build_workload

TRIALS_DIR = paths.STATE / 'trials'
SIDES = ('a', 'b')
#: Maximum number of trials, and of runs of each side.
_MAX_TRIALS = 10_000
_NAME = re.compile(r'trials-[A-Za-z0-9.-]{1,60}')
#: Timeout of the commands between the sides, which may restart hosts.
_SWITCH_SECONDS = 1800.0


@dataclass(frozen=True)
class Trials:
    """Trials that were started.

    :param configurations: full names of both sides, or ``bare-metal``.
    :param trials: number of trials.
    :param runs: number of runs of each side of a trial.
    :param size_bytes: size of the data in bytes.
    :param before: shell commands before the runs of each side, for example to
        change the caps of hosts; empty for none.
    :param after: shell command at the end of each invocation, even if it
        fails, for example to restore the caps; empty for none.
    :param host: name of the host profile of the workers; empty for that of
        hvstack.conf.
    :param host_digest: digest of this profile at the start; empty for a
        profile of the lab.
    :param cloud: URL and region of the cloud; empty if it is not known.
    """

    id: str
    configurations: tuple[str, str]
    trials: int
    runs: int
    size_bytes: int
    before: tuple[str, str] = ('', '')
    after: str = ''
    host: str = ''
    host_digest: str = ''
    cloud: str = ''

    @property
    def targets(self) -> tuple[Target, Target]:
        """Targets of both sides."""
        name_a, name_b = self.configurations
        return parse_target(name_a), parse_target(name_b)

    def format_sweep_name(self, trial_number: int, side: str) -> str:
        """Return the sweep name of the records of a side of a trial."""
        return f'{self.id}-{trial_number}-{side}'


@dataclass(frozen=True)
class Trial:
    """Result of a trial.

    :param trial_number: number of the trial, from 1.
    :param counts: numbers of valid runs of both sides.
    :param percent: rate of B in percent of the rate of A; None until both
        sides have runs.
    :param allowed: allowed differences between the sides, as text.
    :param seconds: duration of the longest run in seconds.
    """

    trial_number: int
    counts: tuple[int, int]
    percent: Percent | None
    allowed: tuple[str, ...] = ()
    seconds: float = 0.0


def build_trials(
    configurations: tuple[str, str],
    trials: int,
    runs: int,
    size_bytes: int,
    before: tuple[str, str] = ('', ''),
    after: str = '',
    host: str = '',
    cloud: str = '',
) -> Trials:
    """Return new trials, which have no marker yet.

    :param configurations: names of both sides.
    :param trials: number of trials.
    :param runs: number of runs of each side of a trial.
    :param size_bytes: size of the data in bytes.
    :param before: shell commands before the runs of each side.
    :param after: shell command at the end of each invocation.
    :param host: name of the host profile of the workers; empty for that of
        hvstack.conf at the time of a run.
    :param cloud: URL and region of the cloud; empty if it is not known.
    :raises hvstack.errors.InputError: the number of trials or runs is too
        small, or a configuration is not valid.
    """
    if trials < 1 or runs < 2:
        raise errors.InputError(
            f'Cannot compute an interval of {trials} trials with {runs} runs. '
            'Use at least 1 trial, and 2 runs of each side.'
        )
    name_a, name_b = (parse_target(name).name for name in configurations)
    return Trials(
        sweep_store.create_id('trials'),
        *((name_a, name_b), trials, runs, size_bytes, before, after),
        host=host_profiles.absolute(host),
        host_digest=host_profiles.read_digest(host) if host else '',
        cloud=cloud,
    )


def save_trials(trials: Trials) -> None:
    """Write the marker of trials, by which they can be continued."""
    text = json.dumps(asdict(trials), indent=1) + '\n'
    paths.write_whole(TRIALS_DIR / f'{trials.id}.json', text)


def load_trials(name: str) -> Trials:
    """Return the trials with a name.

    :raises hvstack.errors.InputError: trials with this name do not exist.
    """
    path = TRIALS_DIR / f'{name}.json'
    if not _NAME.fullmatch(name) or not textfile.is_regular(path):
        names = ', '.join(
            sorted(marker.stem for marker in TRIALS_DIR.glob('*.json'))
        )
        raise errors.InputError(
            f"Cannot find trials '{name}'. Use one of {names or 'none'}."
        )
    document = jsonfile.load(path)
    source_location = document.source_location()
    loaded = to_dataclass(Trials, document.data, source_location)
    fields = Fields(document.data, source_location, None)
    if loaded.id != path.stem:
        raise fields.error('id', "is not the file's name. Restore the file")
    fields.integer('trials', 1, _MAX_TRIALS)
    fields.integer('runs', 2, _MAX_TRIALS)
    fields.integer('size_bytes', 1, 10**18)
    for index, configuration in enumerate(loaded.configurations):
        try:
            parse_target(configuration)
        except errors.InputError as exc:
            raise fields.error(
                f'configurations.{index}', f'is not valid: {exc}'
            ) from None
    return loaded


def run_trials(
    trials: Trials, progress: Progress, max_trials: int | None = None
) -> None:
    """Execute the remaining runs, each on a new cluster.

    A run of one side is followed by one of the other side. The order in such a
    pair is random and determined by the ID of the trials, so that a drift of
    the machine affects both sides. A failed run is repeated once. The command
    ``after`` always runs at the end and restores what the other commands
    changed.

    :param trials: trials to run.
    :param progress: receives messages.
    :param max_trials: maximum number of trials in this invocation; None runs
        all trials.
    :raises hvstack.errors.InputError: the host profile or the tuning profile
        has changed since the start.
    :raises hvstack.errors.RunFailedError: runs are missing.
    :raises hvstack.errors.CommandError: a command between the sides failed.
    """
    host_profiles.check_unchanged(
        trials.host, trials.host_digest, f"trials '{trials.id}'"
    )
    tuning_check.check_unchanged(
        _load_records(trials), f"trials '{trials.id}'"
    )
    try:
        _run_invocation(trials, progress, max_trials)
    except BaseException:
        # The first error is the cause: report the second as a message.
        try:
            _run_command(trials.after)
        except errors.HVStackError as exc:
            progress.say(f'after the trials: {exc}')
        raise
    _run_command(trials.after)


def _run_command(text: str) -> None:
    if text:
        processutils.run(['sh', '-c', text], timeout=_SWITCH_SECONDS)


def _run_invocation(
    trials: Trials, progress: Progress, max_trials: int | None
) -> None:
    done = 0
    for trial_number in range(1, trials.trials + 1):
        pending = {
            side: {
                step.index
                for step in _list_pending(trials, trial_number, side)
            }
            for side in SIDES
        }
        if not any(pending.values()):
            continue
        if done == max_trials:
            return
        for index in range(trials.runs):
            for side in _order_sides(trials, trial_number, index):
                if index in pending[side]:
                    progress.say(
                        f'trial {trial_number} of {trials.trials}, '
                        f'{side.upper()}, run {index + 1} of {trials.runs}'
                    )
                    _run_side(trials, trial_number, side, index, progress)
        done += 1


def _order_sides(
    trials: Trials, trial_number: int, index: int
) -> Sequence[str]:
    """Return the sides in the order of a pair of runs."""
    text = f'{trials.id}:{trial_number}:{index}'
    is_reversed = hashlib.sha256(text.encode()).digest()[0] % 2
    return SIDES[::-1] if is_reversed else SIDES


def _run_side(
    trials: Trials,
    trial_number: int,
    side: str,
    index: int,
    progress: Progress,
) -> None:
    side_index = SIDES.index(side)
    _run_command(trials.before[side_index])
    sweep = trials.format_sweep_name(trial_number, side)
    workload = build_workload(
        trials.targets[side_index], index, [trials.size_bytes]
    )
    for _ in range(MAX_TRIES):
        rallytask.run_task(
            'sweep.yaml',
            {
                'sweep': sweep,
                'workloads': rallytask.list_arguments([workload]),
                'compared': [
                    target.name
                    for target in trials.targets
                    if isinstance(target, Configuration)
                ],
            },
            trials.id,
            progress,
            {'cloud': {'host_profile': trials.host}} if trials.host else None,
            records_sweep=sweep,
        )
        kept_records.import_records(sweep, progress.say)
        remaining_steps = [
            step
            for step in _list_pending(trials, trial_number, side)
            if step.index == index
        ]
        if not remaining_steps:
            return
        failed = [
            sweep_store.find_records(sweep, step)[1]
            for step in remaining_steps
        ]
        if any(
            run_record is None or run_record.observations.killed
            for run_record in failed
        ):
            # Rally did not execute the run, or the run would be killed again.
            break
    raise errors.RunFailedError(
        f'Cannot complete trial {trial_number}, {side.upper()}: runs are '
        "missing. Read the log of Rally, then run 'hvstack sweep trials run "
        f"{trials.id}'."
    )


def _list_pending(trials: Trials, trial_number: int, side: str) -> list[Step]:
    target = trials.targets[SIDES.index(side)]
    steps = build_workload(target, 0, [trials.size_bytes] * trials.runs)
    return sweep_store.list_pending(
        trials.format_sweep_name(trial_number, side), steps
    )


def _load_records(trials: Trials) -> list[RunRecord]:
    store = sweep_store.open_store()
    return [
        run_record
        for trial_number in range(1, trials.trials + 1)
        for side in SIDES
        for run_record in store.load_records(
            trials.format_sweep_name(trial_number, side)
        )
    ]


def gather_trials(trials: Trials, allow: Collection[str] = ()) -> list[Trial]:
    """Return the results of all trials so far.

    :param trials: trials to evaluate.
    :param allow: names of facts that may differ, such as ``caps``.
    :raises hvstack.errors.InputError: a record of a trial is not usable.
    :raises hvstack.errors.NotComparableError: other facts differ.
    """
    records = _load_records(trials)
    allow = comparability.check_fact_names(
        allow,
        itertools.chain(records, iter_records(sweep_store.open_store())),
    )
    return [
        _build_trial(
            trial_number,
            [
                [
                    run_record
                    for run_record in records
                    if run_record.valid
                    and run_record.sweep
                    == trials.format_sweep_name(trial_number, side)
                ]
                for side in SIDES
            ],
            allow,
        )
        for trial_number in range(1, trials.trials + 1)
    ]


def _build_trial(
    trial_number: int,
    sides: Sequence[Sequence[RunRecord]],
    allow: Collection[str],
) -> Trial:
    records_a, records_b = sides
    counts = len(records_a), len(records_b)
    longest = max(
        (run_.total_seconds for run_ in (*records_a, *records_b)), default=0.0
    )
    if not records_a or not records_b:
        return Trial(trial_number, counts, None, seconds=longest)
    for run_ in (*records_a, *records_b):
        comparability.require_comparable(run_, records_a[0], allow)
    return Trial(
        trial_number,
        counts,
        _compare_sides(records_a, records_b),
        tuple(
            comparability.list_allowed_differences(
                records_b[0], records_a[0], allow
            )
        ),
        longest,
    )


def _compare_sides(
    records_a: Sequence[RunRecord], records_b: Sequence[RunRecord]
) -> Percent:
    """Return the rate of side B in percent of that of side A.

    A pair of runs, one of each side, is a pass. Side A is in the place of
    bare metal.

    :param records_a: valid runs of side A.
    :param records_b: valid runs of side B.
    """
    clusters = percentages.list_clusters(
        {BARE_METAL: records_a, 'b': records_b}, get_pass=lambda run: run.index
    )
    corrected_rates, _ = percentages.correct_rates(clusters)
    return replace(
        corrected_rates.compute_ratio('b'),
        runs=len(records_b),
        baseline_runs=len(records_a),
    )


@dataclass(frozen=True)
class TrialsSummary:
    """Summary of trials.

    :param trials: number of trials with an interval.
    :param contain: number of trials whose interval contains 100 %.
    :param half_width: median half width of the intervals in percentage
        points; None without intervals.
    :param unreported: number of trials whose interval is not reported for
        people.
    :param seconds: duration of the longest run in seconds; None without runs.
    """

    trials: int
    contain: int
    half_width: float | None
    unreported: int = 0
    seconds: float | None = None


def summarize_trials(trials: Sequence[Trial]) -> TrialsSummary:
    """Return the summary of trials."""
    intervals = [
        trial.percent
        for trial in trials
        if trial.percent is not None and trial.percent.low is not None
    ]
    widths = [
        (percent.high - percent.low) / 2
        for percent in intervals
        if percent.high is not None and percent.low is not None
    ]
    return TrialsSummary(
        len(intervals),
        sum(stats.contains_100(percent) for percent in intervals),
        statistics.median(widths) if widths else None,
        sum(percent.reported_bounds is None for percent in intervals),
        max((trial.seconds for trial in trials), default=0.0) or None,
    )
