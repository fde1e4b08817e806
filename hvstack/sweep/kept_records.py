# SPDX-License-Identifier: Apache-2.0
"""Records that the database did not take, and that were stored as files."""

from collections.abc import Callable

from hvstack import conf
from hvstack.nouns import format_noun
from hvstack.results import run_id, telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.sweep import sweep_store


def import_records(sweep: str, say: Callable[[str], None]) -> None:
    """Copy records of a sweep, and of its search, into the database.

    Otherwise their runs would be measured again, and the second record of a
    run would contradict the first one.

    :param sweep: name of the sweep.
    :param say: receives what was copied.
    :raises hvstack.errors.MissingPrerequisiteError: the database cannot be
        used.
    """
    if not conf.load().records.connection:
        return
    files = FileRunStore(sweep_store.RECORDS_DIR)
    names = {sweep, run_id.format_search_name(sweep)} & {*files.list_sweeps()}
    store = sweep_store.open_store()
    count = 0
    for name in names:
        # The clean-up of a cluster adds to records that the database has.
        stored_ids = {run.id for run in store.list_runs(name)}
        records = [
            record
            for record in files.read_sweep(name)[0]
            if record.id not in stored_ids
        ]
        texts: dict[str, str] = {}
        for record in records:
            texts |= telemetry_files.read_if_stored(record, files)
        count += store.add(records, texts)
    if count:
        say(
            f'sweep {sweep}: {format_noun(count, "record")} copied from files '
            'into the database'
        )
