#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways to tamper with run records and evidence, and what hvstack does.

Each way changes a valid record of a sweep, or the evidence of an approved
flavor. The table says what a reader gets:

- edited: the file was changed and nothing else;
- forged: the digest of the record was computed again, which anybody can do;
  evidence was signed again with a key that is not trusted;
- unsigned: the signature was removed as well, and the reader asked for
  unsigned records, so that only the record's own contradictions count.

A way is silent if a forged record counts, or if an unsigned one counts
without being reported as not verified. Run it with
``.venv/bin/python -m tests.tamper``; its status is 1 if a way is silent.
"""

import base64
import contextlib
import copy
import hashlib
import json
import os
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
)

import tests.unit  # noqa: F401, makes the state directory a temporary one
from hvstack import errors, host_profiles
from hvstack.model import catalogue, lint
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.results import evidence, record, record_data, signing
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_approval import Sweep
from tests.unit.results import factory

Data = dict[str, Any]
Edit = Callable[[Data], object]
#: What counts, with a note in the report.
COUNTS = 'counts, reported as not verified'
#: What counts without a note.
SILENT = 'SILENT'


def guests() -> RunRecord:
    """Return a valid run of guests with all that a real record has."""
    return _completed(factory.run('i2', 0, 100, workers=2))


def bare_metal() -> RunRecord:
    """Return a valid run on bare metal."""
    return _completed(factory.run(BARE_METAL, 0, 100))


def kit() -> RunRecord:
    """Return a valid run of TPC's kit."""
    run_record = factory.run(BARE_METAL, 0, 2000, size=10**12)
    names = ('HSGen', 'HSSort', 'HSValidate')
    phases = [{'name': name, 'seconds': 600.0} for name in names]
    kit_run = {
        'version': '2.0.3',
        'metric': round(run_record.rate, 4),
        'run': 1,
        'role': 'performance',
    }
    return record_data.change(
        run_record,
        {
            'phases': phases,
            'derived': False,
            'seen': {**run_record.observations.facts, 'kit': kit_run},
        },
    )


def _completed(run_record: RunRecord) -> RunRecord:
    start = record.compute_seconds_between(
        '1970-01-01T00:00:00Z', run_record.started
    )
    phases = factory.stored_phases(run_record)
    for phase in phases:
        phase['began'] = start
        start += phase['seconds']
        if 'job_id' in phase:
            phase['state'] = 'SUCCEEDED'
            phase['job_seconds'] = phase['seconds'] - 1
            phase['map_shuffle_seconds'] = phase['seconds'] - 3
            phase['reduce_merge_seconds'] = 2
            phase['maps'] = phase['reduces'] = factory.TASKS
            phase['counters']['HDFS_BYTES_WRITTEN'] = run_record.size_bytes
            phase['counters']['HDFS_BYTES_READ'] = run_record.size_bytes
    observed = {'workers': 2, 'worker_hosts': 2, 'blocks': factory.TASKS}
    if run_record.kind == 'configuration':
        worker = run_record.observations.cloud.flavor['worker']
        resources = {'VCPU': worker.vcpus, 'MEMORY_MB': worker.ram}
        observed['allocations'] = {'worker-0': resources}
    return record_data.change(
        run_record,
        {
            'phases': phases,
            'seen': {**run_record.observations.facts, **observed},
        },
    )


def put(path: str, value: Any) -> Edit:
    """Return an edit that sets a field.

    :param path: keys and indices, with slashes between them.
    """

    def edit(data: Data) -> None:
        target, key = _parent(data, path)
        target[key] = value

    return edit


def drop(path: str) -> Edit:
    """Return an edit that removes a field."""

    def edit(data: Data) -> None:
        target, key = _parent(data, path)
        del target[key]

    return edit


def scale(path: str, factor: float) -> Edit:
    """Return an edit that multiplies a number."""

    def edit(data: Data) -> None:
        target, key = _parent(data, path)
        target[key] = type(target[key])(target[key] * factor)

    return edit


def both(*edits: Edit) -> Edit:
    """Return an edit that does several."""

    def edit(data: Data) -> None:
        for change in edits:
            change(data)

    return edit


def _parent(data: Data, path: str) -> tuple[Any, Any]:
    *parents, last = path.split('/')
    target: Any = data
    for key in parents:
        target = target[int(key) if isinstance(target, list) else key]
    return target, int(last) if isinstance(target, list) else last


def _total(factor: float) -> Edit:
    """Return an edit of the total, with the rate that belongs to it."""

    def edit(data: Data) -> None:
        data['total_seconds'] *= factor
        data['rate'] = record_data.compute_rate(
            data['size_bytes'], data['total_seconds']
        )

    return edit


def _all_faster(data: Data) -> None:
    """Make a run twice as fast, and change all that belongs to it."""
    for phase in data['phases']:
        phase['seconds'] /= 2
        for name in list(phase):
            if name.endswith('_seconds'):
                phase[name] /= 2
        phase.pop('began', None)
    _total(0.5)(data)
    data['ended'] = data['started'].replace(':45:00', ':45:50')


def _relabelled(data: Data) -> None:
    """Make guests' run one on bare metal."""
    data.update(kind='baseline', configuration=BARE_METAL)


def _swapped(first: int, second: int) -> Edit:
    def edit(data: Data) -> None:
        phases = data['phases']
        phases[first], phases[second] = phases[second], phases[first]

    return edit


_GEN, _IN, _SORT, _OUT, _VALIDATE = (f'phases/{n}' for n in range(5))
_WORKER = 'seen/flavor/worker'
_HOST = 'seen/inventory/hv-host2'
_NAN, _INFINITY = float('nan'), float('inf')

#: Edits of the run of guests. The other programs must refuse all of them
#: that contradict other fields of the record; :data:`PLAUSIBLE` do not.
GUESTS: dict[str, Edit] = {
    'index: negative': put('index', -1),
    'index: a thousand million': put('index', 10**9),
    'index: a fraction': put('index', 0.5),
    'index: of 5,000 digits': put('index', 10**40),
    'size: negative': put('size_bytes', -1000),
    'size: not a multiple of 100': put('size_bytes', 10**9 + 1),
    'size: ten times as much': put('size_bytes', 10**10),
    'size and rate: ten times as much': both(
        put('size_bytes', 10**10), scale('rate', 10)
    ),
    'replication: 0': put('replication', 0),
    'replication: negative': put('replication', -3),
    'replication: more than workers': put('replication', 3),
    'maps: 0': put('maps', 0),
    'maps: negative': put('maps', -6),
    'maps: more than files': put('maps', 12),
    'reduces: 0': put('reduces', 0),
    'reduces: more than files': put('reduces', 12),
    'kind: unknown': put('kind', 'guess'),
    'kind: baseline of a configuration': put('kind', 'baseline'),
    'guests relabelled as bare metal': _relabelled,
    'configuration: i1': put(
        'configuration', 'i1-c1-m1-local-shared-unpinned'
    ),
    'configuration: i4': put(
        'configuration', 'i4-c1-m1-local-shared-unpinned'
    ),
    'configuration: i4, and the name of the flavor': both(
        put('configuration', 'i4-c1-m1-local-shared-unpinned'),
        put(f'{_WORKER}/name', 'mine'),
    ),
    'configuration: C 2': put(
        'configuration', 'i2-c2-m1-local-shared-unpinned'
    ),
    'configuration: M 1.2': put(
        'configuration', 'i2-c1-m1.2-local-shared-unpinned'
    ),
    'configuration: ceph on lxc': put(
        'configuration', 'i2-c1-m1-ceph-shared-unpinned'
    ),
    'configuration: pinned disks on lxc': put(
        'configuration', 'i2-c1-m1-local-shared-pinned'
    ),
    'configuration: dedicated': put(
        'configuration', 'i2-c1-m1-local-dedicated-unpinned'
    ),
    'configuration: dedicated on kvm': both(
        put('configuration', 'i2-c1-m1-local-dedicated-unpinned'),
        put('environment/backend', 'kvm'),
    ),
    'configuration: dedicated with a ratio': put(
        'configuration', 'i2-c2-m1-local-dedicated-unpinned'
    ),
    'configuration: a label': put('configuration', 'i2'),
    'configuration: a path': put('configuration', '../../i2'),
    'configuration: empty': put('configuration', ''),
    'backend: absent': drop('environment/backend'),
    'backend: null': put('environment/backend', None),
    'backend: magic': put('environment/backend', 'magic'),
    'backend: a list': put('environment/backend', ['kvm']),
    'flavor: absent': drop('seen/flavor'),
    'flavor: more vCPUs': put(f'{_WORKER}/vcpus', 64),
    'flavor: fewer vCPUs': put(f'{_WORKER}/vcpus', 1),
    'flavor: more memory': scale(f'{_WORKER}/ram', 2),
    'flavor: less memory': scale(f'{_WORKER}/ram', 0.5),
    'flavor: dedicated CPUs': put(
        f'{_WORKER}/extra_specs', {'hw:cpu_policy': 'dedicated'}
    ),
    'flavor: name of another': put(
        f'{_WORKER}/name',
        'hv-test-worker-i4-c1-m1-local-shared-unpinned-v16-m32768-d20',
    ),
    'flavor: a text': put('seen/flavor', 'small'),
    'flavor: a number as text': put(f'{_WORKER}/vcpus', '32'),
    'allocations: of another flavor': put(
        'seen/allocations', {'worker-0': {'VCPU': 1, 'MEMORY_MB': 512}}
    ),
    'inventory: absent': drop('seen/inventory'),
    'inventory: no CPUs': drop(f'{_HOST}/VCPU'),
    'inventory: CPU ratio 4': put(f'{_HOST}/VCPU/allocation_ratio', 4.0),
    'inventory: memory ratio 1.5': put(
        f'{_HOST}/MEMORY_MB/allocation_ratio', 1.5
    ),
    'inventory: no ratio': drop(f'{_HOST}/VCPU/allocation_ratio'),
    'inventory: smaller hosts': put(f'{_HOST}/VCPU/total', 8),
    'inventory: less memory': put(f'{_HOST}/MEMORY_MB/total', 4096),
    'hosts: no workers': put('environment/worker_hosts', 0),
    'facts of bare metal on guests': put('seen/host_vcpus', 64),
    'valid with a reason': put('reason', 'it looked slow'),
    'valid although killed': put('seen/killed', ['oom-kill: java']),
    'not valid without a reason': put('valid', False),
    'not valid with a rate': both(put('valid', False), put('reason', 'slow')),
    'valid: 1 for true': put('valid', 1),
    'a job that FAILED': put(f'{_SORT}/state', 'FAILED'),
    'a job that was KILLED': put(f'{_GEN}/state', 'KILLED'),
    'started: tomorrow in 2999': both(
        put('started', '2999-01-01T00:00:00Z'),
        put('ended', '2999-01-01T00:01:40Z'),
    ),
    'ended: in 2999': put('ended', '2999-01-01T00:00:00Z'),
    'started: in 1999': put('started', '1999-01-01T00:00:00Z'),
    'ended: before started': put('ended', '2026-11-21T04:00:00Z'),
    'ended: at once': put('ended', '2026-11-21T05:45:00Z'),
    'ended: an hour later': put('ended', '2026-11-21T06:45:00Z'),
    'started: without a zone': put('started', '2026-11-21T05:45:00'),
    'started: a date': put('started', '2026-11-21'),
    'started: a number': put('started', 1795239900),
    'started: in digits of another script': put(
        'started', '٢٠٢٦-11-21T05:45:00Z'
    ),
    'total: a tenth of the phases': _total(0.1),
    'total: 5 percent less': _total(0.95),
    'total: twice the phases': _total(2),
    'total: 0': put('total_seconds', 0.0),
    'total: negative': put('total_seconds', -100.0),
    'total: NaN': put('total_seconds', _NAN),
    'total: infinite': put('total_seconds', _INFINITY),
    'total: 10 ** 400': put('total_seconds', 10**400),
    'rate: twice as much': scale('rate', 2),
    'rate: NaN': put('rate', _NAN),
    'rate: 0': put('rate', 0.0),
    'rate: a text': put('rate', '0.036'),
    'phases: none': put('phases', []),
    'phases: no HSValidate': drop(_VALIDATE),
    'phases: no data check': drop(_IN),
    'phases: sort before generation': _swapped(0, 2),
    'phases: sort twice': put(f'{_VALIDATE}/name', 'HSSort'),
    'phases: another name': put(f'{_SORT}/name', 'HSFast'),
    'phases: a phase of 0 s': put(f'{_SORT}/seconds', 0.0),
    'phases: negative seconds': put(f'{_SORT}/seconds', -50.0),
    'phases: NaN seconds': put(f'{_SORT}/seconds', _NAN),
    'phases: half the seconds': scale(f'{_SORT}/seconds', 0.5),
    'phases: a phase before the run': scale(f'{_GEN}/began', 0.5),
    'phases: a phase after the run': scale(f'{_VALIDATE}/began', 1.5),
    'phases: all at one moment': both(
        *(put(f'phases/{n}/began', 1795239900.0) for n in range(5))
    ),
    'phases: one without a start': drop(f'{_SORT}/began'),
    'phases: a text': put(_SORT, 'HSSort'),
    'job: longer than its phase': put(f'{_SORT}/job_seconds', 500),
    'job: not the sum of its parts': put(f'{_SORT}/map_shuffle_seconds', 1),
    'job: no ID': drop(f'{_SORT}/job_id'),
    'job: the ID of another': put(f'{_SORT}/job_id', 'job_1_0'),
    'job: fewer maps': put(f'{_GEN}/maps', 3),
    'job: fewer reduces': put(f'{_SORT}/reduces', 3),
    'counters: none': drop(f'{_SORT}/counters'),
    'counters: half the records sorted': scale(
        f'{_SORT}/counters/REDUCE_OUTPUT_RECORDS', 0.5
    ),
    'counters: half the records read': scale(
        f'{_SORT}/counters/MAP_INPUT_RECORDS', 0.5
    ),
    'counters: half the records generated': scale(
        f'{_GEN}/counters/MAP_OUTPUT_RECORDS', 0.5
    ),
    'counters: half the records validated': scale(
        f'{_VALIDATE}/counters/MAP_INPUT_RECORDS', 0.5
    ),
    'counters: half the bytes written': scale(
        f'{_SORT}/counters/HDFS_BYTES_WRITTEN', 0.5
    ),
    'data check: half the bytes': scale(f'{_OUT}/bytes', 0.5),
    'data check: no bytes': drop(f'{_IN}/bytes'),
    'data check: fewer files': put(f'{_OUT}/files', 1),
    'data check: no blocks': put(f'{_OUT}/blocks', 0),
    'data check: half a block': put(f'{_IN}/blocks', 2.5),
    'data check: more blocks than bytes': put(f'{_IN}/blocks', 1e308),
    'data check: more blocks on one host than blocks': put(
        f'{_OUT}/blocks_on_one_host', 99
    ),
    'blocks: others than checked': put('seen/blocks', 1),
    "derived: false without TPC's kit": put('derived', False),
    "TPC's kit although derived": put('seen/kit', {'metric': 1.0, 'run': 1}),
    'sweep: a path': put('sweep', '../journal'),
    'sweep: empty': put('sweep', ''),
    'sweep: ESC': put('sweep', 'quick\x1b[31m'),
    'ID: a path': put('id', '../../journal/hosts/pwn'),
    'ID: empty': put('id', ''),
    'text: ESC in a fact': put('environment/cpu_model', 'Xeon\x1b[2J'),
    'text: half of a character': put('environment/cpu_model', '\ud800'),
    'text: a NUL': put('environment/cpu_model', 'Xeon\x00'),
    'a number of 100 digits': put('seen/big', 10**100),
    'a fact is NaN': put('environment/caps', _NAN),
    'schema: of a newer release': put('schema', 2),
    'schema: 0': put('schema', 0),
    'a field that does not exist': put('approved', True),
    'a field is missing': drop('replication'),
    'environment: a list': put('environment', []),
}

#: Edits that contradict nothing: only a signature finds them.
PLAUSIBLE: dict[str, Edit] = {
    'CPU model': put('environment/cpu_model', 'EPYC'),
    'no CPU model': drop('environment/cpu_model'),
    'release of Nova': put('environment/nova', '30.0.0'),
    'backend: kvm for lxc': put('environment/backend', 'kvm'),
    'sweep: another name': put('sweep', 'another'),
    'index: 7': put('index', 7),
    'all of it twice as fast': _all_faster,
    'a slow run made invalid': both(
        put('valid', False),
        put('rate', 0.0),
        put('reason', 'its cluster died'),
    ),
    'caches were dropped': put('seen/before_run', []),
}

#: Edits of the run on bare metal.
BARE: dict[str, Edit] = {
    'bare metal: with a backend': put('environment/backend', 'kvm'),
    'bare metal: with vCPUs of guests': put('seen/guest_vcpus', 2),
    'bare metal: with an inventory': put(
        'seen/inventory', {'h': {'VCPU': {'total': 1}}}
    ),
    'bare metal: as a configuration': put(
        'configuration', 'i1-c1-m1-local-shared-unpinned'
    ),
    'bare metal: as a run of guests': both(
        put('kind', 'configuration'),
        put('configuration', 'i1-c1-m1-local-shared-unpinned'),
    ),
    'bare metal: twice as long': _total(2),
    'bare metal: other hosts than observed': both(
        put('environment/hosts', 16), put('environment/worker_hosts', 16)
    ),
}

#: Edits of the run of TPC's kit.
KIT: dict[str, Edit] = {
    'kit: derived': put('derived', True),
    'kit: no kit': drop('seen/kit'),
    'kit: another metric': scale('seen/kit/metric', 2),
    'kit: no metric': drop('seen/kit/metric'),
    'kit: a third run': put('seen/kit/run', 3),
    'kit: no version': drop('seen/kit/version'),
    'kit: a size that it does not know': both(
        put('size_bytes', 10**9), scale('rate', 1 / 1000)
    ),
    'kit: no HSValidate': drop('phases/2'),
    'kit: a total of a tenth': _total(0.1),
}


@dataclass(frozen=True)
class Row:
    """One way, and what a reader gets for it.

    :param edited: for a file that was changed.
    :param forged: with the digest of the changed content.
    :param unsigned: without signature, by a reader who asks for such.
    :param plausible: whether nothing in the record contradicts it.
    """

    name: str
    edited: str
    forged: str
    unsigned: str
    plausible: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether any of them counts as if nothing had happened."""
        results = (self.edited, self.forged, self.unsigned)
        return SILENT in results or COUNTS in (self.edited, self.forged)


def rows() -> Iterator[Row]:
    """Yield what is done about each way."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for make, edits in (
            (guests, GUESTS | PLAUSIBLE),
            (bare_metal, BARE),
            (kit, KIT),
        ):
            path = record.save(make(), top / make.__name__)
            assert _result(path.parent, False) == SILENT, _result(
                path.parent, False
            )
            for title, edit in edits.items():
                yield _row(title, path, edit)
        for title, change in FILES.items():
            yield _file_row(title, top / title.replace('/', ' '), change)
    yield from _evidence_rows()


def _row(title: str, path: Path, edit: Edit) -> Row:
    original = path.read_text(encoding='utf-8')
    data = json.loads(original)
    edit(data)
    results = []
    try:
        for step in ('edited', 'forged', 'unsigned'):
            if step == 'forged':
                data['digest'] = digest(data)
            if step == 'unsigned':
                data.pop('signature', None)
            path.write_text(json.dumps(data), encoding='utf-8')
            results.append(_result(path.parent, step == 'unsigned'))
    finally:
        path.write_text(original, encoding='utf-8')
    return Row(title, *results, plausible=title in PLAUSIBLE)


def digest(data: Data) -> str:
    """Return the digest that a forger computes."""
    content = {
        name: value
        for name, value in data.items()
        if name not in ('digest', 'signature')
    }
    text = json.dumps(content, sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(text.encode()).hexdigest()


def _result(directory: Path, unsigned: bool) -> str:
    """Return the reaction to the record of a directory."""
    usable, invalid_records = record.load_usable(directory, unsigned)
    if invalid_records:
        return _short(invalid_records[0].reason, directory)
    return COUNTS if usable[0].unverified else SILENT


def _short(reason: str, directory: Path | str = '') -> str:
    text = reason.replace(f'{directory}/', '').partition(': ')[2]
    return textwrap.shorten(
        ascii(text)[1:-1].replace("\\'", "'"), 90, placeholder=' ...'
    )


def _copied(path: Path) -> None:
    (path.parent / 'b.json').write_bytes(path.read_bytes())


def _copied_under_a_full_name(path: Path) -> None:
    (path.parent / f'0-{path.name}').write_bytes(path.read_bytes())


def _copied_with_a_new_id(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text(encoding='utf-8'))
    data['id'] = str(uuid.uuid4())
    data.update(copy.deepcopy(changes))
    data['digest'] = digest(data)
    target = path.parent / f'{data["id"]}.json'
    target.write_text(json.dumps(data), encoding='utf-8')


def _copied_as_the_next_run(path: Path) -> None:
    _copied_with_a_new_id(path, index=1)


def _another_key(path: Path) -> None:
    data = json.loads(path.read_text(encoding='utf-8'))
    data['signature'] = {
        # The key and signature of a machine that is not trusted.
        'key': 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI' + 'A' * 43,
        'value': 'A' * 86 + '==',
    }
    path.write_text(json.dumps(data), encoding='utf-8')


def _own_key(path: Path) -> None:
    """Sign a faster run with a key that no policy trusts."""
    data = json.loads(path.read_text(encoding='utf-8'))
    _all_faster(data)
    data['digest'] = digest(data)
    content = {
        name: value
        for name, value in data.items()
        if name not in ('digest', 'signature')
    }
    text = json.dumps(content, sort_keys=True, separators=(',', ':'))
    key = Ed25519PrivateKey.generate()
    data['signature'] = {
        'key': key.public_key()
        .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        .decode(),
        'value': base64.b64encode(
            key.sign(f'hvstack run record 1\n{text}'.encode())
        ).decode(),
    }
    path.write_text(json.dumps(data), encoding='utf-8')


def _signature(value: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = json.loads(path.read_text(encoding='utf-8'))
        data['signature'] = value
        path.write_text(json.dumps(data), encoding='utf-8')

    return change


def _short_signature(path: Path) -> None:
    data = json.loads(path.read_text(encoding='utf-8'))
    data['signature']['value'] = data['signature']['value'][:40]
    path.write_text(json.dumps(data), encoding='utf-8')


def _signature_of_another(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        other = record.save(guests(), Path(name))
        signature = json.loads(other.read_text(encoding='utf-8'))['signature']
    _signature(signature)(path)


def _duplicate_key(path: Path) -> None:
    text = path.read_text(encoding='utf-8').rstrip().rstrip('}')
    path.write_text(f'{text}, "rate": 9.0}}', encoding='utf-8')


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open('r+b') as stream:
        stream.truncate(1 << 40)


def _deep(path: Path) -> None:
    path.write_text('[' * 10**6, encoding='utf-8')


def _latin(path: Path) -> None:
    path.write_bytes(b'{"sweep": "\xe9"}')


#: Changes of files rather than of content.
FILES: dict[str, Callable[[Path], None]] = {
    'cp a.json b.json': _copied,
    'a copy under a full name': _copied_under_a_full_name,
    'a copy with another ID': _copied_with_a_new_id,
    'a copy as the next run': _copied_as_the_next_run,
    'signature: removed': _signature({}),
    'signature: a text': _signature('signed'),
    'signature: of another record': _signature_of_another,
    'signature: of a made-up key': _another_key,
    'signature: half of it': _short_signature,
    'signature: by a key of the forger': _own_key,
    'a key twice in one mapping': _duplicate_key,
    'half of the file': _truncated,
    'a FIFO': _fifo,
    'a directory': _directory,
    'a file of a TiB': _huge,
    'a million brackets': _deep,
    'bytes that are not UTF-8': _latin,
}


def _file_row(
    title: str, directory: Path, change: Callable[[Path], None]
) -> Row:
    """Return the reaction to a changed file, without and with a request.

    Nothing of it must be taken for an additional run.
    """
    path = record.save(guests(), directory)
    change(path)
    results = []
    for unsigned in (False, False, True):
        usable, invalid_records = record.load_usable(directory, unsigned)
        verified = [
            run_record for run_record in usable if not run_record.unverified
        ]
        if invalid_records and len(verified) <= 1:
            results.append(_short(invalid_records[0].reason, directory))
        else:
            results.append(COUNTS if len(verified) < len(usable) else SILENT)
    return Row(title, *results, plausible=COUNTS in results)


#: Edits of a flavor with its evidence. The report of the sweep cannot make
#: these figures; :data:`PLAUSIBLE_EVIDENCE` contradicts nothing that is
#: checked without the signature.
EVIDENCE: dict[str, Edit] = {
    'evidence: percent': put('evidence/percent', 99.9),
    'evidence: low above high': put('evidence/low', 150.0),
    'evidence: high below percent': put('evidence/high', 91.0),
    'evidence: low below the required percentage': put('evidence/low', 50.0),
    'evidence: one run': put('evidence/runs', 1),
    'evidence: 30 runs': put('evidence/runs', 30),
    'evidence: one run on bare metal': put('evidence/baseline_runs', 1),
    'evidence: a date in 2999': put('evidence/date', '2999-01-01'),
    'evidence: not a date': put('evidence/date', 'yesterday'),
    'evidence: backend magic': put('evidence/backend', 'magic'),
    'evidence: backend qemu': put('evidence/backend', 'qemu'),
    'evidence: another host profile': put('evidence/host', 'vsan'),
    'evidence: another sweep': put('evidence/sweep', 'another'),
    'evidence: another baseline': put('evidence/baseline', 'another'),
    'evidence: another configuration': put(
        'evidence/configuration', 'i4-c1-m1-local-shared-unpinned'
    ),
    'evidence: another size': put('evidence/size_bytes', 10**12),
    'evidence: another digest': put('evidence/digest', '0' * 64),
    'evidence: percent is NaN': put('evidence/percent', _NAN),
    'evidence: no digest': drop('evidence/digest'),
    'evidence: backend kvm': put('evidence/backend', 'kvm'),
    'evidence: an earlier date': put('evidence/date', '2026-11-01'),
    'evidence: more runs on bare metal': put('evidence/baseline_runs', 30),
    'evidence: approved without any': drop('evidence'),
}
PLAUSIBLE_EVIDENCE: dict[str, Edit] = {
    'evidence: low 96': put('evidence/low', 96.0),
    'evidence: another release of Nova': put('evidence/releases/nova', '30'),
    'evidence: less was required': put('evidence/min_percent', 10),
    'evidence: on a smaller flavor': put('ram', 1024),
    'evidence: on a flavor of another name': put('name', 'large'),
}


def _evidence_rows() -> Iterator[Row]:
    """Yield what 'flavor publish' does about each edit of evidence."""
    sweep = Sweep()
    data = catalogue.build_catalogue(sweep.profile, [parse('i2')])
    flavor = data['flavors'][0]
    flavor |= {'status': 'approved', 'evidence': sweep.approve()}
    mine = signing.policy(unsigned=False)
    requested = signing.Policy(mine.trusted, mine.revoked, unsigned=True)
    assert _published(sweep, data, mine) == SILENT
    for title, edit in (EVIDENCE | PLAUSIBLE_EVIDENCE).items():
        changed = copy.deepcopy(data)
        flavor = changed['flavors'][0]
        edit(flavor)
        results = [_published(sweep, changed, mine)]
        signed = flavor.get('evidence', {})
        # The forger's key is this machine's, which the reader lacks.
        with contextlib.suppress(errors.InputError, ValueError):
            entry = catalogue.from_mapping(changed, str).entries[0]
            signed |= evidence.sign_evidence(entry, entry.evidence or {})
        results.append(_published(sweep, changed, signing.Policy({}, {})))
        signed.pop('signature', None)
        results.append(_published(sweep, changed, requested))
        yield Row(title, *results, plausible=title in PLAUSIBLE_EVIDENCE)


def _published(sweep: Sweep, data: Data, policy: signing.Policy) -> str:
    """Return the message of 'flavor publish' for a catalogue."""
    try:
        checked = catalogue.from_mapping(data, lambda field: field)
    except errors.InputError as exc:
        return _short(f'catalogue: {exc}')
    try:
        for finding in lint.check_catalogue(
            sweep.profile, checked, host_profiles.load_extra_specs()
        ):
            if finding.level == lint.ERROR:
                return _short(f'lint: {finding.rule} {finding.message}')
        entry = checked.entries[0]
        reason = evidence.verify_evidence(entry, sweep.records, policy)
    except errors.InputError as exc:
        return _short(str(exc).replace(checked.entries[0].flavor.name, 'F'))
    return COUNTS if reason else SILENT


def main() -> int:
    """Print the table; status 1 if a way is silent."""
    table = list(rows())
    for row in table:
        print(f'{row.name}')
        print(f'    edited:   {row.edited}')
        print(f'    forged:   {row.forged}')
        print(f'    unsigned: {row.unsigned}')
    silent = [row.name for row in table if row.is_silent]
    noted = sum(row.unsigned == COUNTS for row in table)
    print(
        f'{len(table)} ways to tamper, {len(silent)} silent; without a '
        f'signature and on request, {len(table) - noted} are refused because '
        f'the record contradicts itself, and {noted} count and are reported '
        'as not verified'
    )
    return int(bool(silent))


if __name__ == '__main__':
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
