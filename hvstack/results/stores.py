# SPDX-License-Identifier: Apache-2.0
"""Selection of the store of run records: a directory or a database."""

from pathlib import Path

from hvstack import conf, extras, paths
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_store import RunStore

#: Directory of the run records unless ``[records] connection`` is set.
RECORDS_DIR = paths.STATE / 'records'


def open_store(
    location: Path | str | None = None,
    unsigned: bool | None = None,
    records_dir: Path = RECORDS_DIR,
) -> RunStore:
    """Return the store of run records.

    :param location: directory, or URL of a database; None uses
        ``[records] connection`` of ``hvstack.conf``, or else the default
        directory.
    :param unsigned: accept records that are not signed by a trusted key;
        None uses ``[records] unsigned`` of ``hvstack.conf``.
    :param records_dir: default directory, where the index is written.
    :raises hvstack.errors.InputError: the URL or ``hvstack.conf`` is not
        valid, or the path of SQLite in ``hvstack.conf`` is relative.
    :raises hvstack.errors.MissingPrerequisiteError: the extra ``sql`` is not
        installed.
    """
    is_configured = location is None
    if location is None:
        location = conf.load().records.connection or records_dir
    if isinstance(location, Path):
        return FileRunStore(
            location, keep_index=location == records_dir, unsigned=unsigned
        )
    extras.require('sql')
    # Only a database needs SQLAlchemy.
    from hvstack.results.sql_run_store import SqlRunStore

    store = SqlRunStore(location, records_dir, unsigned=unsigned)
    if is_configured:
        store.database.require_absolute_path()
    return store
