# SPDX-License-Identifier: Apache-2.0
"""Lint of a catalogue: does the set fit its host, and is it good practice.

An error cannot be scheduled, or over-subscribes what is approved. A warning
is against a best practice. ``doc/source/user/lint.md`` has a section for each
rule.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from hvstack.model import extra_specs
from hvstack.model.catalogue import EVIDENCE_FIELDS, Catalogue, CatalogueEntry
from hvstack.model.compute_backends import BACKENDS, is_emulated
from hvstack.model.flavor import PAGE_MIB, Flavor, compute_guest_memory_mib
from hvstack.model.host import HostProfile

#: vsphere6, "Best Practices": a DataNode has preferably five disks or fewer.
MAX_DISKS = 5
#: More NUMA cells than any host has.
_MAX_CELLS = 1024
#: Larger than the number of any guest's CPU.
_MAX_CPU = 65535
#: Of a number in an extra spec.
_MAX_DIGITS = 12
_PAGE = re.compile('([0-9]{1,12})([kKMGT]?)(i?[bB])?')
_UNITS = {'k': 1, 'm': 1024, 'g': 1024**2, 't': 1024**3}

#: Runs that a measurement has at least.
_MIN_RUNS = 2
#: No evidence is older than TPCx-HS.
_FIRST_DAY = date(2014, 1, 1)

ERROR = 'error'
WARNING = 'warning'


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    :param rule: its stable id.
    :param where: file and line.
    :param flavor: name of the flavor.
    :param field: of the flavor.
    :param message: what is wrong, and the remedy.
    """

    rule: str
    level: str
    where: str
    flavor: str
    field: str
    message: str

    def __str__(self) -> str:
        return (
            f'{self.where}: {self.rule} {self.level}: flavor '
            f"'{self.flavor}', {self.field}: {self.message}"
        )


#: What a rule finds in one flavor: field and message.
FieldMessages = Iterator[tuple[str, str]]
#: (id, level, title, check).
Rule = tuple[
    str, str, str, Callable[[HostProfile, CatalogueEntry], FieldMessages]
]


def check_catalogue(
    profile: HostProfile, catalogue: Catalogue
) -> list[Violation]:
    """Check every flavor alone, then the set.

    :param profile: the host that the catalogue is for.
    """
    findings = [
        _build_violation(rule, level, entry, field, message)
        for entry in catalogue.entries
        for rule, level, _, check in RULES
        for field, message in check(profile, entry)
    ]
    return findings + list(_check_shapes(catalogue.entries))


def _build_violation(
    rule: str, level: str, entry: CatalogueEntry, field: str, message: str
) -> Violation:
    # Values of the file, which messages show, may have line separators.
    text = ' '.join(message.split())
    return Violation(
        rule,
        level,
        entry.source_location(field),
        entry.flavor.name,
        field,
        text,
    )


def is_dedicated(flavor: Flavor) -> bool:
    """Tell whether a flavor has CPUs of its own."""
    return flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'


def list_guest_cells(flavor: Flavor) -> list[tuple[int, int]] | None:
    """Return (vCPUs, MiB) of each of a guest's NUMA cells.

    As Nova does: evenly, unless ``hw:numa_cpus.N`` and ``hw:numa_mem.N``
    say otherwise. None where they cannot be read or are not even.
    """
    specs = flavor.extra_specs
    count = specs.get('hw:numa_nodes', '1')
    max_cells = min(flavor.vcpus, _MAX_CELLS)
    if not _is_number(count) or not 1 <= int(count) <= max_cells:
        return None
    cells = []
    for cell in range(int(count)):
        cpus = specs.get(f'hw:numa_cpus.{cell}')
        memory = specs.get(f'hw:numa_mem.{cell}')
        if cpus is None and (flavor.vcpus % int(count)):
            return None
        if memory is None and (flavor.ram % int(count)):
            return None
        vcpus = (
            flavor.vcpus // int(count)
            if cpus is None
            else len(_parse_cpus(cpus))
        )
        if memory is not None and not _is_number(memory):
            return None
        mib = flavor.ram // int(count) if memory is None else int(memory)
        cells.append((vcpus, mib))
    return cells


def _is_number(text: str) -> bool:
    """Return whether a text is a number in ASCII digits of a sane length."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _parse_cpus(text: str) -> set[int]:
    """Read a guest's CPU list, such as ``0-3,^2``; empty if it is none."""
    cpus: set[int] = set()
    without: set[int] = set()
    # A range that is named again adds nothing, and takes time.
    for part in dict.fromkeys(text.split(',')):
        target = without if part.startswith('^') else cpus
        first, _, last = part.removeprefix('^').partition('-')
        last = last or first
        if not _is_number(first) or not _is_number(last):
            return set()
        if not int(first) <= int(last) <= _MAX_CPU:
            return set()
        target |= set(range(int(first), int(last) + 1))
    return cpus - without


def count_fitting(
    host: Sequence[tuple[int, int]],
    guest: Sequence[tuple[int, int]],
    max_guests: int,
) -> int:
    """Return how many such guests fit into a host's cells, at most so many.

    Each cell of a guest needs a host cell of its own. The largest parts
    come first, each into the cell that has room for most of its kind, which
    packs equal guests evenly.
    """
    free = list(host)
    parts = sorted(guest, reverse=True)
    for count in range(max_guests):
        used_cells: set[int] = set()
        for vcpus, ram in parts:
            candidate_cells = [
                cell
                for cell, (cpus, memory) in enumerate(free)
                if cell not in used_cells and cpus >= vcpus and memory >= ram
            ]
            if not candidate_cells:
                return count
            best = max(
                candidate_cells,
                key=lambda cell: (
                    min(
                        free[cell][0] // max(vcpus, 1),
                        free[cell][1] // max(ram, 1),
                    ),
                    free[cell],
                ),
            )
            free[best] = (free[best][0] - vcpus, free[best][1] - ram)
            used_cells.add(best)
    return max_guests


def _check_guest_size(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    flavor = entry.flavor
    if flavor.vcpus > profile.cpus:
        yield (
            'vcpus',
            f'{flavor.vcpus} are more than the {profile.cpus} CPUs of '
            f"'{profile.name}', which no ratio lifts: take fewer",
        )
    if flavor.ram > profile.memory_mib:
        yield (
            'ram',
            f'{flavor.ram} MiB is more than the {profile.memory_mib} MiB of '
            f"'{profile.name}', which no ratio lifts: take less",
        )


def _list_occupied_cells(
    profile: HostProfile, flavor: Flavor
) -> list[tuple[int, int]] | None:
    """Return (CPUs, MiB) that a dedicated guest takes of the host's cells.

    With ``isolate`` no other guest gets the threads beside its own (Nova,
    "CPU topologies"), so that each vCPU takes a whole core.
    """
    cells = list_guest_cells(flavor)
    threads = flavor.extra_specs.get('hw:cpu_thread_policy')
    if cells is None or threads != 'isolate':
        return cells
    return [(vcpus * profile.threads_per_core, ram) for vcpus, ram in cells]


def _check_cells(profile: HostProfile, entry: CatalogueEntry) -> FieldMessages:
    if not is_dedicated(entry.flavor):
        return
    guest = _list_occupied_cells(profile, entry.flavor)
    host = [(len(cell.cpus), cell.memory_mib) for cell in profile.cells]
    if guest is not None and count_fitting(host, guest, 1) == 0:
        yield (
            'extra_specs.hw:numa_nodes',
            f'its {len(guest)} cell(s) do not fit the {len(host)} of '
            f"'{profile.name}': take fewer vCPUs or more cells",
        )


def _check_instance_count(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    flavor = entry.flavor
    if flavor.role != 'worker':
        return
    count = entry.configuration.instances
    if is_dedicated(flavor):
        guest = _list_occupied_cells(profile, flavor)
        host = [(len(cell.cpus), cell.memory_mib) for cell in profile.cells]
        guest_count = (
            count_fitting(host, guest, count) if guest is not None else count
        )
        if 0 < guest_count < count:
            yield (
                'vcpus',
                f'only {guest_count} of {count} fit the cells of '
                f"'{profile.name}' at the same time: take smaller ones",
            )
    for field, each, total, ratio in _list_shared(profile, entry):
        if each * count > total * Fraction(str(ratio)):
            yield (
                field,
                f'{count} x {each} is more than {total} x {ratio:g} of '
                f"'{profile.name}': take less or fewer instances",
            )


def _list_shared(
    profile: HostProfile, entry: CatalogueEntry
) -> Iterator[tuple[str, int, int, float]]:
    """Yield (field, each, the host's, ratio) of what guests share."""
    flavor, chosen = entry.flavor, entry.configuration
    if not is_dedicated(flavor):
        yield 'vcpus', flavor.vcpus, profile.cpus, chosen.cpu_ratio
        yield 'ram', flavor.ram, profile.memory_mib, chosen.ram_ratio
    disks = profile.disks
    if disks and not profile.volumes:
        space = disks.count * disks.size_gb
        yield 'disks', flavor.disks, disks.count, 1
        yield 'ephemeral', flavor.ephemeral, space, 1


def _check_cell_sums(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    flavor = entry.flavor
    specs = flavor.extra_specs
    cpu_keys = [key for key in specs if key.startswith('hw:numa_cpus.')]
    if cpu_keys:
        cpus = [cpu for key in cpu_keys for cpu in _parse_cpus(specs[key])]
        if len(cpus) != flavor.vcpus or set(cpus) != set(range(flavor.vcpus)):
            yield (
                f'extra_specs.{cpu_keys[0]}',
                f'the cells list {len(cpus)} CPUs: list each of 0 to '
                f'{flavor.vcpus - 1} once',
            )
    memory = [key for key in specs if key.startswith('hw:numa_mem.')]
    if memory and all(_is_number(specs[key]) for key in memory):
        added = sum(int(specs[key]) for key in memory)
        if added != flavor.ram:
            yield (
                f'extra_specs.{memory[0]}',
                f'the cells add up to {added} MiB, but ram is {flavor.ram}',
            )
    if not cpu_keys and not memory and list_guest_cells(flavor) is None:
        yield (
            'extra_specs.hw:numa_nodes',
            f'{specs.get("hw:numa_nodes")} does not divide {flavor.vcpus} '
            f'vCPUs and {flavor.ram} MiB: list the cells',
        )


def parse_page_kib(flavor: Flavor) -> int | None:
    """Return the page that a flavor asks for, in KiB; None if any will do.

    As Nova reads it: a number is KiB, units are powers of 1024. ``large`` is
    the smallest large one.
    """
    text = flavor.extra_specs.get('hw:mem_page_size', 'any')
    if text == 'large':
        return PAGE_MIB * 1024
    match = _PAGE.fullmatch(text)
    if not match:
        return None
    return int(match[1]) * _UNITS.get(match[2].lower(), 1)


def _check_page(profile: HostProfile, entry: CatalogueEntry) -> FieldMessages:
    page = parse_page_kib(entry.flavor)
    for cell, (_, ram) in enumerate(list_guest_cells(entry.flavor) or ()):
        if page and ram * 1024 % page:
            yield (
                'ram',
                f'cell {cell} has {ram} MiB, no multiple of the page of '
                f'{page} KiB: round down',
            )


def _check_approved_ratios(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    chosen = entry.configuration
    if entry.status == 'approved' and (
        chosen.cpu_ratio != 1 or chosen.ram_ratio != 1
    ):
        yield (
            'status',
            f'{chosen.label} over-subscribes its host: approved means ratios '
            'of 1',
        )


def _check_evidence(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    if entry.status != 'approved':
        return
    evidence = entry.evidence or {}
    missing = [name for name in EVIDENCE_FIELDS if name not in evidence]
    if missing:
        yield (
            'evidence',
            f"lacks {', '.join(missing)}: measure it and let 'hvstack flavor "
            "approve' write it",
        )
    elif evidence['configuration'] != entry.configuration.name:
        yield (
            'evidence.configuration',
            f'is of another one than {entry.configuration.name}: measure '
            'this one',
        )


def _check_evidence_values(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    evidence = entry.evidence or {}
    percent, low, high = (
        evidence.get(name) for name in ('percent', 'low', 'high')
    )
    required = evidence.get('min_percent')
    again = "let 'hvstack flavor approve' write it again"
    if low is not None and high is not None and low > high:
        yield 'evidence.low', f'{low:g} is more than high, {high:g}: {again}'
    elif percent is not None and not (
        (low is None or low <= percent) and (high is None or percent <= high)
    ):
        yield (
            'evidence.percent',
            f'{percent:g} is outside its interval: {again}',
        )
    if low is not None and required is not None and low < required:
        yield (
            'evidence.low',
            f'{low:g} is less than the {required:g} that were required: '
            f'{again}',
        )
    for name in ('runs', 'baseline_runs'):
        count = evidence.get(name)
        if count is not None and count < _MIN_RUNS:
            yield (
                f'evidence.{name}',
                f'{count} is no measurement, which has {_MIN_RUNS} runs or '
                'more: measure it again',
            )
    backend = evidence.get('backend')
    if backend is not None and (
        backend not in BACKENDS or is_emulated(str(backend))
    ):
        yield (
            'evidence.backend',
            f"'{backend:.40}' approves no flavor: measure it on kvm",
        )
    host = evidence.get('host')
    if host is not None and host != profile.name:
        yield (
            'evidence.host',
            f"'{host:.40}' is not the catalogue's host profile: measure it "
            f"on '{profile.name}'",
        )
    if 'date' in evidence and not _is_past(str(evidence['date'])):
        yield (
            'evidence.date',
            f"'{evidence['date']:.40}' is not a day in the past, such as "
            f'2026-11-21: {again}',
        )


def _is_past(text: str) -> bool:
    """Return whether a text is a day on which something was measured."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return False
    # Another machine may have tomorrow's date already.
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    return text == day.isoformat() and _FIRST_DAY <= day <= tomorrow


def _check_pool_copies(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    if entry.status == 'approved' and entry.configuration.storage == 'ceph':
        copies = (entry.evidence or {}).get('pool_size')
        if copies is None or copies < 2:
            yield (
                'evidence.pool_size',
                f'{copies or "unknown"}: with one copy a lost disk loses '
                'volumes, measure it on a pool of two or more',
            )


def _check_host_memory(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    if entry.flavor.role != 'worker':
        return
    count = entry.configuration.instances
    max_mib = compute_guest_memory_mib(profile) * Fraction(
        str(entry.configuration.ram_ratio)
    )
    if count * entry.flavor.ram > max_mib:
        yield (
            'ram',
            f'{count} x {entry.flavor.ram} MiB leaves the host less than it '
            f'needs: at most {int(max_mib / count)} MiB each',
        )


def _check_disk_count(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    if entry.flavor.role == 'worker' and entry.flavor.disks > MAX_DISKS:
        yield (
            'disks',
            f'{entry.flavor.disks} data disks for one DataNode: with '
            f'{MAX_DISKS} or fewer reads spread better',
        )


def _check_spec_scopes(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    for key in entry.flavor.extra_specs:
        if not extra_specs.has_scope(key) and not extra_specs.find_nearest(
            key
        ):
            yield (
                f'extra_specs.{key}',
                'has no scope, which fails in AggregateInstanceExtraSpecs'
                f"Filter: write 'aggregate_instance_extra_specs:{key}'",
            )


def _check_spec_names(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    for key in entry.flavor.extra_specs:
        near = extra_specs.find_nearest(key)
        if extra_specs.is_known(key) or (
            not extra_specs.has_scope(key) and not near
        ):
            continue
        meant = f"did you mean '{near}'" if near else 'remove it'
        yield f'extra_specs.{key}', f'Nova knows no such spec: {meant}'


def _check_spec_values(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    for key, value in entry.flavor.extra_specs.items():
        if not extra_specs.is_valid(key, value):
            value_pattern = extra_specs.find_pattern(key)
            yield (
                f'extra_specs.{key}',
                f"Nova refuses '{value[:60]}': it must match {value_pattern}",
            )


def _check_dedicated_ratios(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    chosen = entry.configuration
    if is_dedicated(entry.flavor) and (
        chosen.cpu_ratio > 1 or chosen.ram_ratio > 1
    ):
        yield (
            'extra_specs.hw:cpu_policy',
            f'{chosen.label}: dedicated CPUs cannot be over-committed, take '
            'ratios of 1',
        )


def _check_locked_memory(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    specs = entry.flavor.extra_specs
    locked = specs.get('hw:locked_memory', 'false').lower()
    if locked in ('true', '1', 'yes', 'on', 't', 'y') and (
        'hw:mem_page_size' not in specs
    ):
        yield (
            'extra_specs.hw:locked_memory',
            'Nova refuses locked memory without hw:mem_page_size: add it',
        )


def _check_numa_specs(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    if is_dedicated(entry.flavor):
        return
    for key in ('hw:numa_nodes', 'hw:mem_page_size'):
        if key in entry.flavor.extra_specs:
            yield (
                f'extra_specs.{key}',
                'makes a NUMA guest, whose floating vCPUs cannot be '
                'over-committed in a cell: take dedicated CPUs or remove it',
            )
            return


def _check_emulator_threads(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    flavor = entry.flavor
    policy = flavor.extra_specs.get('hw:emulator_threads_policy')
    if policy != 'isolate' or flavor.role != 'worker':
        return
    count = entry.configuration.instances
    if (flavor.vcpus + 1) * count > profile.cpus:
        yield (
            'extra_specs.hw:emulator_threads_policy',
            f'{count} x 1 CPU for emulator threads is not left of '
            f'{profile.cpus}: take share',
        )


RULES: tuple[Rule, ...] = (
    ('HV001', ERROR, 'larger than its host', _check_guest_size),
    ('HV002', ERROR, 'does not fit the NUMA cells', _check_cells),
    ('HV003', ERROR, 'not all instances fit the host', _check_instance_count),
    ('HV004', ERROR, 'NUMA cells do not add up', _check_cell_sums),
    ('HV005', ERROR, 'page does not divide memory', _check_page),
    ('HV006', ERROR, 'approved with a ratio', _check_approved_ratios),
    (
        'HV007',
        WARNING,
        'leaves the host too little memory',
        _check_host_memory,
    ),
    ('HV008', WARNING, 'many disks for one DataNode', _check_disk_count),
    ('HV009', WARNING, 'extra spec without a scope', _check_spec_scopes),
    ('HV010', ERROR, 'unknown or misspelt extra spec', _check_spec_names),
    ('HV011', ERROR, 'value that Nova refuses', _check_spec_values),
    ('HV012', ERROR, 'dedicated with a ratio', _check_dedicated_ratios),
    ('HV013', ERROR, 'locked memory without page size', _check_locked_memory),
    ('HV014', WARNING, 'NUMA without dedicated CPUs', _check_numa_specs),
    ('HV015', ERROR, 'no CPU for emulator threads', _check_emulator_threads),
    ('HV016', ERROR, 'approved without evidence', _check_evidence),
    ('HV018', ERROR, 'approved on a single copy', _check_pool_copies),
    (
        *('HV019', ERROR, 'evidence contradicts itself'),
        _check_evidence_values,
    ),
)
#: The rule over the set: two names for one shape.
SET_RULE = ('HV017', WARNING, 'two names for one shape')


def _check_shapes(entries: Sequence[CatalogueEntry]) -> Iterator[Violation]:
    names_by_shape: dict[tuple[object, ...], str] = {}
    for entry in entries:
        flavor = entry.flavor
        shape = (
            flavor.role,
            flavor.vcpus,
            flavor.ram,
            flavor.disk,
            flavor.ephemeral,
            flavor.disks,
            tuple(sorted(flavor.extra_specs.items())),
        )
        if shape in names_by_shape:
            rule, level, _ = SET_RULE
            yield _build_violation(
                rule,
                level,
                entry,
                'name',
                f"is the same as '{names_by_shape[shape]}': remove one",
            )
        names_by_shape.setdefault(shape, flavor.name)
