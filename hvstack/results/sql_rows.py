# SPDX-License-Identifier: Apache-2.0
"""Rows of the database of run records: how they follow from a record."""

from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection, Row

from hvstack import errors, jsonfile
from hvstack.results import record
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import IndexedRun, index_run
from hvstack.results.sql_database import FILES, RECORDS
from hvstack.results.typed_json import JsonObject

#: Columns of a record other than its document.
INDEX = tuple(
    column for column in RECORDS.columns if column.name != 'document'
)


def build_columns(run_record: RunRecord) -> JsonObject:
    """Return the columns of a record other than its document."""
    run = index_run(run_record)
    return {
        'id': run.id,
        'sweep': run.sweep,
        'configuration': run.configuration,
        'number': run.index,
        'started': run.started,
        'ended': run.ended,
        'size_bytes': run.size_bytes,
        'valid': run.valid,
        'rate': run.rate,
        'seconds': run.seconds,
        'is_killed': run.is_killed,
        'system': run.system,
        'signer': str(run_record.signature.get('key', '')),
        'digest': run_record.digest,
    }


def build_row(run_record: RunRecord) -> JsonObject:
    """Return all columns of a record."""
    document = record.format_document(run_record)
    return build_columns(run_record) | {'document': document}


def read_index_row(row: Row[tuple[object, ...]]) -> IndexedRun:
    """Return the entry of the index for the columns of a record."""
    return IndexedRun(
        sweep=row.sweep,
        configuration=row.configuration,
        index=row.number,
        id=row.id,
        started=row.started,
        ended=row.ended,
        size_bytes=row.size_bytes,
        valid=row.valid,
        rate=row.rate,
        seconds=row.seconds,
        is_killed=row.is_killed,
        system=row.system,
    )


def read_document(connection: Connection, record_id: str) -> JsonObject:
    """Return a stored document without its digest.

    The digest of the record is in its column.

    :returns: an empty document if the row was edited, so that it is not JSON.
    """
    text = connection.scalar(
        sqlalchemy.select(RECORDS.c.document).where(RECORDS.c.id == record_id)
    )
    try:
        data = jsonfile.parse(str(text), Path(f'record {record_id}')).data
    except errors.InputError:
        return {}
    return {**data, 'digest': ''} if isinstance(data, dict) else {}


def write_text(connection: Connection, name: str, text: str) -> None:
    """Write a text file whole, in the transaction of a connection."""
    connection.execute(sqlalchemy.delete(FILES).where(FILES.c.name == name))
    connection.execute(
        sqlalchemy.insert(FILES).values(name=name, content=text)
    )
