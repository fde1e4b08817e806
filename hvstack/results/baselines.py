# SPDX-License-Identifier: Apache-2.0
"""Selection of the recorded runs on bare metal for a comparison."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hvstack import errors, textfile
from hvstack.results import comparability, record, signing
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore, Selector

#: Name of the newest comparable runs.
AUTO = 'auto'


def make_absolute(baseline_name: str) -> str:
    """Return a name that means the same runs in any directory.

    :param baseline_name: as in :func:`list_candidates`, or empty.
    """
    path = Path(baseline_name)
    is_file = path.suffix == '.json' or textfile.is_regular(path)
    return str(path.absolute()) if is_file else baseline_name


def find_name(records: Iterable[RunRecord]) -> str:
    """Return the name of the baseline with which a sweep was compared.

    :param records: records of the sweep.
    :returns: the name that the newest run contains; empty if the sweep has
        runs on bare metal, or no run contains a name.
    """
    names = []
    for run in sorted(records, key=lambda run: run.started):
        if run.kind == 'baseline':
            return ''
        if run.valid and run.observations.compared_with:
            names.append(run.observations.compared_with)
    return names[-1] if names else ''


def choose_first_index(sweep: str, store: RunStore, *, is_pair: bool) -> int:
    """Return the index of the next run on bare metal of a sweep.

    It is not the number of records, because a record can be deleted.

    :param sweep: name of the sweep.
    :param store: store of the run records.
    :param is_pair: whether the run is the first of a pair of TPC's kit.
    :raises hvstack.errors.InputError: a record of the sweep is not usable, or
        another machine measured the sweep, whose runs could overlap with the
        next ones.
    """
    records = store.load_records(sweep)
    own_key = signing.own_public()
    for run in records:
        key = run.signature.get('key')
        if key and (own_key is None or key != own_key.text):
            raise errors.InputError(
                f"Cannot add runs to sweep '{sweep}' ({store.describe()}): "
                f'the key of another machine signed its record {run.id}. Use '
                'another name with --sweep, or omit this option.'
            )
    indexes = [run.index for run in records if run.kind == 'baseline']
    first = max(indexes, default=-1) + 1
    return first + first % 2 if is_pair else first


def list_candidates(
    baseline_name: str,
    store: RunStore,
    unsigned: bool | None = None,
    is_selected: Selector | None = None,
) -> list[RunRecord]:
    """Return the valid runs on bare metal with a name, the newest last.

    :param baseline_name: :data:`AUTO`, a record's file, or the id of a record
        or a sweep.
    :param store: store of the run records.
    :param unsigned: as in :func:`hvstack.results.record.load`.
    :param is_selected: function that decides by a run whether the runs on its
        system under test are needed, so that :data:`AUTO` reads only these.
        If it selects no run, all runs are returned.
    :raises hvstack.errors.InputError: there is none.
    """
    path = Path(baseline_name)
    if path.suffix == '.json' or textfile.is_regular(path):
        baseline_records = [record.load(path, unsigned)]
    elif baseline_name == AUTO:
        baseline_records, _ = store.read_baselines(is_selected=is_selected)
        if is_selected and not _select_valid(baseline_records):
            baseline_records, _ = store.read_baselines()
    else:
        baseline_records, _ = store.read_baselines(baseline_name)
    baseline_records = _select_valid(baseline_records)
    if not baseline_records:
        invalid = _explain_invalid(baseline_name, store)
        raise errors.InputError(
            f"Cannot find baseline '{baseline_name}': {store.describe()} has "
            f'no such valid run on bare metal{invalid}. Run '
            "'hvstack baseline run'."
        )
    return baseline_records


def _select_valid(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the valid runs on bare metal."""
    return [
        run_record
        for run_record in records
        if run_record.kind == 'baseline' and run_record.valid
    ]


def require_candidates(baseline_name: str, store: RunStore) -> None:
    """Refuse a name without any valid run on bare metal.

    :param baseline_name: as in :func:`list_candidates`.
    :param store: store of the run records.
    :raises hvstack.errors.InputError: there is none.
    """
    # No more sweeps are read than are needed to find a run.
    if baseline_name != AUTO or not any(
        map(_select_valid, store.iter_sweeps())
    ):
        list_candidates(baseline_name, store)


def _explain_invalid(name: str, store: RunStore) -> str:
    """Return the reason why a record with a name is not valid."""
    _, invalid_records = store.read_baselines()
    for invalid in invalid_records:
        if name in (AUTO, invalid.sweep) or name in invalid.reason:
            return f' (left out: {invalid.reason.removesuffix(".")})'
    return ''


def choose_runs(
    baseline_name: str,
    run: RunRecord,
    store: RunStore,
    allow: Collection[str] = (),
) -> list[RunRecord]:
    """Return the runs on bare metal for the comparison with a run.

    These are all comparable runs of the sweep with the newest comparable run.

    :param baseline_name: as in :func:`list_candidates`.
    :param allow: facts that may differ.
    :raises hvstack.errors.InputError: there is none.
    :raises hvstack.errors.NotComparableError: none is comparable, with what
        differs from the newest.
    """
    is_auto = baseline_name == AUTO
    candidates = list_candidates(
        *(baseline_name, store),
        is_selected=lambda baseline: _is_comparable(run, baseline, allow),
    )
    return _select_comparable(candidates, run, allow, is_auto=is_auto)


def replace_baseline(
    baseline_name: str,
    records: Sequence[RunRecord],
    store: RunStore,
    allow: Collection[str] = (),
    unsigned: bool | None = None,
    *,
    is_recorded: bool = False,
) -> list[RunRecord]:
    """Return the runs of a sweep with another baseline.

    The first run with comparable baseline runs determines the baseline.

    :param baseline_name: as in :func:`list_candidates`.
    :param records: of the sweep.
    :param store: store of the run records.
    :param allow: facts that may differ.
    :param unsigned: as in :func:`hvstack.results.record.load`.
    :param is_recorded: whether the name is that of :func:`find_name`.
        :data:`AUTO` means then what it meant for the last run: baselines
        that were measured later do not change its percentage.
    :raises hvstack.errors.InputError: there is none, or no valid run that
        would be compared with it.
    :raises hvstack.errors.NotComparableError: none is comparable, with what
        differs from the newest.
    """
    configured = [
        run_record
        for run_record in records
        if run_record.kind == 'configuration'
    ]
    valid = [run_record for run_record in configured if run_record.valid]
    is_auto = baseline_name == AUTO
    baseline_records = list_candidates(
        *(baseline_name, store, unsigned),
        lambda baseline: any(
            _is_comparable(run, baseline, allow) for run in valid
        ),
    )
    refusal: errors.HVStackError = errors.InputError(
        f"Cannot find baseline '{baseline_name}': the sweep has no valid run "
        'of a configuration to compare with it. Run the sweep first.'
    )
    for run in valid:
        try:
            return configured + _select_comparable(
                baseline_records,
                run,
                allow,
                max(item.ended for item in valid)
                if is_recorded and is_auto
                else '',
                is_auto=is_auto,
            )
        except errors.NotComparableError as exc:
            refusal = exc
    raise refusal


def _select_comparable(
    baseline_records: Sequence[RunRecord],
    run: RunRecord,
    allow: Collection[str],
    end: str = '',
    *,
    is_auto: bool,
) -> list[RunRecord]:
    """Return the comparable runs of the sweep with the newest of them.

    :param end: time before which they started, if there are such runs; empty
        for no limit.
    :param is_auto: whether no baseline was named.
    """
    fair = [
        baseline_record
        for baseline_record in baseline_records
        if _is_comparable(run, baseline_record, allow)
        # A baseline that was named can be of another cloud, or of the same
        # one by another URL.
        and (not is_auto or _is_of_cloud(run, baseline_record))
    ]
    if not fair:
        may = comparability.list_swept_facts(run).union(allow)
        comparability.require_comparable(run, baseline_records[-1], may)
        raise errors.NotComparableError(
            ['cloud: all comparable runs on bare metal are of other clouds']
        )
    # Guests with kernels of their own do not know the CPUs of their hosts:
    # nothing else may differ from a baseline of another site.
    names = list_hosts(run)
    fair = [item for item in fair if names & list_hosts(item)] or fair
    fair = [item for item in fair if not end or item.started < end] or fair
    return [
        baseline_record
        for baseline_record in fair
        if baseline_record.sweep == fair[-1].sweep
    ]


def list_hosts(run: RunRecord) -> set[str]:
    """Return the names of the hosts with workers, without their domains."""
    return {
        name.partition('.')[0]
        for phase in run.phases
        for name in phase.job.hosts
    }


def _is_comparable(
    run: RunRecord, baseline_record: RunRecord, allow: Collection[str]
) -> bool:
    """Return whether a run can be compared with a run on bare metal."""
    may = comparability.list_swept_facts(run).union(allow)
    return not comparability.list_record_differences(run, baseline_record, may)


def _is_of_cloud(run: RunRecord, baseline_record: RunRecord) -> bool:
    """Return whether two runs can be of the same cloud.

    Clouds that share a store can have hosts with the same facts.
    """
    identity = baseline_record.observations.cloud.identity
    return run.observations.cloud.identity.matches(identity)
