# SPDX-License-Identifier: Apache-2.0
"""Provenance of results: facts and notes that every form of them contains.

The notes state the limits of the results: the workload, the compute backend,
the scale model and the number of replicas.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType

from hvstack.hadoop import sizing
from hvstack.report import run_conditions
from hvstack.report.formats import format_count
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import Json
from hvstack.results.workload_types import TPCX_HS, TYPES

#: Printed with every result that the TPC kit did not produce.
DERIVED_NOTE = (
    'derived from the TPCx-HS benchmark and not comparable to published '
    'TPCx-HS results'
)

#: Scale factors of the TPC kit in TB; HSph@SF is defined for these alone.
SCALE_FACTORS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)

#: Number of copies that the benchmark asks for.
MIN_REPLICATION = 3

#: Limits of the percentages that a compute backend yields.
BACKEND_NOTES = {
    'lxc': (
        'backend lxc: containers share the kernel and page cache of their '
        'host, so no hypervisor is measured and percentages near 100 are by '
        'construction'
    ),
    'qemu': (
        'backend qemu: software emulation, for acceptance only, no measure '
        'of a hypervisor'
    ),
}

#: Facts of the system under test at the top of a table or page.
HEADER_FACTS = (
    'cpu_model',
    'kernel',
    'os_release',
    'jre',
    'hadoop',
    'nova',
    'libvirt',
    'qemu',
)


def list_provenance_notes(
    records: Sequence[RunRecord],
    sizes: Collection[int],
    variants: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return the limits of results, which every form of them must contain.

    :param records: records of the results.
    :param sizes: sizes of the data of the results in bytes.
    :param variants: names of the variants of a study by their sweeps.
    """
    lines = []
    others = {record.sut.workload for record in records} - {TPCX_HS.name}
    titles = [TYPES[name].title for name in sorted(others)]
    if titles:
        lines.append(
            f'The figures of {" and ".join(titles)} are not results of '
            'TPCx-HS.'
        )
    sorts = [run for run in records if run.sut.workload == TPCX_HS.name]
    if any(run.derived for run in sorts) or (
        not others and any(size / 1e12 not in SCALE_FACTORS for size in sizes)
    ):
        lines.append(f'These figures are {DERIVED_NOTE}.')
    backends = {record.sut.backend or '' for record in records}
    lines += [
        f'{BACKEND_NOTES[backend]}.'
        for backend in sorted(backends)
        if backend in BACKEND_NOTES
    ]
    scale = find_fact(records, 'scale_model')
    if scale:
        text = (
            'hosts report more CPUs than their cap has cores'
            if scale is True
            else str(scale)
        )
        lines.append(f'Scale model: {text}.')
    if find_fact(records, 'tuning') == sizing.LAB:
        lines.append(
            "Tuning profile 'lab': JVMs have small heaps and only the first "
            'compiler of Java.'
        )
    for subject, counts in (
        ('Replication', [record.replication for record in records]),
        (
            'Replication of the output',
            [record.sut.facts.get('output_replication') for record in records],
        ),
    ):
        low = [str(n) for n in range(1, MIN_REPLICATION) if n in counts]
        if low:
            lines.append(
                f'{subject} is {" and ".join(low)}: below the three copies '
                'that the benchmark asks for.'
            )
    return lines + run_conditions.list_warnings(records, variants)


def find_fact(records: Iterable[RunRecord], name: str) -> Json:
    """Return a fact of the first record with it, configurations first.

    :returns: None if no record has the fact.
    """
    for record in sorted(records, key=lambda r: r.kind == 'baseline'):
        if record.sut.facts.get(name) is not None:
            return record.sut.facts[name]
    return None


def get_version() -> str:
    """Return the version of hvstack."""
    return metadata.version('hvstack')


def list_unverified_notes(records: Sequence[RunRecord]) -> list[str]:
    """Return notes on records that count only on request of the user.

    :param records: records of the results.
    """
    counts = Counter(
        record.unverified for record in records if record.unverified
    )
    return [
        f'Not verified: {count} of {len(records)} records, each of '
        f'which {reason}.'
        for reason, count in sorted(counts.items())
    ]


def format_worker_hosts(records: Sequence[RunRecord]) -> str:
    """Return the number of hosts with workers, for both sides if they differ.

    vsphere6 has 31.5 hosts with workers, and 31 on bare metal.

    :param records: records of configurations and of bare metal.
    """
    sides = {
        record_kind: record.sut.worker_hosts
        for record_kind in ('configuration', 'baseline')
        for record in records
        if record.kind == record_kind
    }
    values = [value for value in sides.values() if value is not None]
    if len(values) == 2 and values[0] != values[1]:
        own, bare_metal = map(format_count, values)
        return f'{own}; bare metal {bare_metal}'
    return format_count(values[0]) if values else ''
