# SPDX-License-Identifier: Apache-2.0
"""Files of telemetry in the store of the records.

A run has one JSON file, whose digest is in its record.
"""

import hashlib
import json
from pathlib import Path

from hvstack import errors, jsonfile
from hvstack.model.strict_mapping import to_dataclass
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import TextStore
from hvstack.results.telemetry import SCHEMA, Telemetry, summarize
from hvstack.results.typed_json import JsonObject

#: Below the directory of the records.
DIRECTORY = 'telemetry'
#: An hour of samples of 640 nodes is smaller.
_MAX_FILE_BYTES = 256 * 1024 * 1024


def save(telemetry: Telemetry, store: TextStore, run_id: str) -> JsonObject:
    """Write the telemetry of a run, and return the part for its record.

    :param store: store of the records.
    :raises OSError: no room, no rights.
    :raises hvstack.errors.MissingPrerequisiteError: no connection to the
        database, or more samples than a reader accepts.
    """
    name = f'{DIRECTORY}/{run_id}.json'
    # asdict() would copy each of the millions of samples of 640 nodes.
    content = {**vars(telemetry), 'nodes': [*map(vars, telemetry.nodes)]}
    text = json.dumps(content, separators=(',', ':')) + '\n'
    if len(text) > _MAX_FILE_BYTES:
        raise errors.MissingPrerequisiteError(
            f'Cannot store the telemetry ({store.describe(name)}): it has '
            f'{len(text) / 2**20:.0f} MiB, and the limit is '
            f'{_MAX_FILE_BYTES // 2**20} MiB. Set a longer interval in '
            '[telemetry] of hvstack.conf.'
        )
    store.write_text(name, text)
    return {
        'file': name,
        'sha256': hashlib.sha256(text.encode()).hexdigest(),
        **summarize(telemetry),
    }


def save_or_add_gap(
    telemetry: Telemetry, store: TextStore, run_id: str
) -> JsonObject:
    """Do as :func:`save`; a file that cannot be written is a gap."""
    try:
        return save(telemetry, store, run_id)
    except OSError as exc:
        reason = str(exc.strerror)
    except errors.MissingPrerequisiteError as exc:
        reason = str(exc)
    summary = summarize(telemetry)
    summary['gaps'] = [*telemetry.gaps, f'its file: {reason}']
    return summary


def build_name(record: RunRecord) -> str:
    """Return the name of a run's file in the store."""
    return f'{DIRECTORY}/{record.id}.json'


def read_if_stored(record: RunRecord, store: TextStore) -> dict[str, str]:
    """Return a run's file by its name in the store, empty without a file.

    :raises hvstack.errors.InputError: it was edited.
    """
    name = build_name(record)
    if not store.has_text(name):
        return {}
    return {name: read(record, store)}


def read(record: RunRecord, store: TextStore) -> str:
    """Return the file that a record names, proved to be the one it was.

    :raises hvstack.errors.InputError: there is none, or it was edited.
    """
    summary = record.observations.telemetry
    if summary is None or not summary.sha256:
        raise errors.InputError(f'{record.id} has no telemetry. Omit it.')
    name = build_name(record)
    path = store.describe(name)
    try:
        text = store.read_text(name, _MAX_FILE_BYTES)
    except errors.InputError as exc:
        raise errors.InputError(
            f'Cannot read the telemetry ({path}): {exc}'
        ) from exc
    if hashlib.sha256(text.encode()).hexdigest() != summary.sha256:
        raise errors.InputError(
            f"Cannot use the telemetry ({path}): 'sha256' of the record does "
            'not match, because the file was edited. Restore the file.'
        )
    return text


def load(record: RunRecord, store: TextStore) -> Telemetry:
    """Return a run's telemetry.

    :raises hvstack.errors.InputError: there is none, it was edited, or a
        newer release wrote it.
    """
    path = Path(store.describe(build_name(record)))
    document = jsonfile.parse(read(record, store), path)
    data = document.data
    schema = data.get('schema') if isinstance(data, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise errors.InputError(
            f'Cannot read the telemetry of run {record.id}: its schema is '
            f'{schema}, and this release supports {SCHEMA}. Update hvstack.'
        )
    return to_dataclass(Telemetry, data, document.source_location())
