# SPDX-License-Identifier: Apache-2.0
"""Test the rules of the lint."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from hvstack.model.host import HostProfile, from_mapping
from hvstack.model.lint import (
    ERROR,
    RULES,
    SET_RULE,
    SPEC_RULES,
    Violation,
    check_catalogue,
)
from tests.unit.model.test_flavor import profile

ALL_RULES = (*RULES, *SPEC_RULES)
KNOWN_SPECS = host_profiles.load_extra_specs()
#: Evidence as approve writes it.
EVIDENCE: dict[str, Any] = {
    'percent': 97.5,
    'low': 95.0,
    'high': 100.1,
    'min_percent': 90,
    'runs': 3,
    'baseline_runs': 4,
    'size_bytes': 10**9,
    'backend': 'kvm',
    'date': '2026-11-21',
    'releases': {'nova': '34.0.0', 'hadoop': '3.4.3', 'hvstack': '0.1'},
    'configuration': 'i4-c1-m1-local-shared-unpinned',
    'host': 'small',
    'sweep': 'quick',
    'digest': '0a' * 32,
}


class SpecsTest(testtools.TestCase):
    def test_no_value_takes_long(self) -> None:
        for name, good, bad in (
            ('hw:pmem', 'a,b,c', 'a' * 200 + ';'),
            ('hw:cpu_dedicated_mask', '0-3,^1', '1-1' * 80 + ';'),
            ('hw:numa_cpus.0', '0-3', '1,1' * 80 + ';'),
            ('pci_passthrough:alias', 'a:1, b:2', 'a:1 ,' * 50 + ';'),
        ):
            self.assertTrue(KNOWN_SPECS.is_valid(name, good))
            self.assertFalse(KNOWN_SPECS.is_valid(name, bad))

    def test_digits_of_other_scripts(self) -> None:
        for name in ('hw:numa_cpus.0', 'hw:mem_page_size', 'hw:cpu_cores'):
            self.assertFalse(KNOWN_SPECS.is_valid(name, '\u0663'))


def entry(configuration: str = 'i4', **changes: Any) -> dict[str, Any]:
    """Return a good flavor for the small host, with changes.

    Keys with a colon are extra specs; None removes one.
    """
    plain = catalogue.build_catalogue(profile(), [parse(configuration)])
    flavor = plain['flavors'][0]
    for key, value in changes.pop('specs', {}).items():
        flavor['extra_specs'].pop(key, None)
        if value is not None:
            flavor['extra_specs'][key] = value
    return {**flavor, **changes}


def findings(
    *entries: dict[str, Any], host: HostProfile | None = None
) -> list[Violation]:
    """Return the violations in a catalogue of these flavors."""
    data = {'host': 'small', 'flavors': list(entries)}
    return check_catalogue(
        host or profile(),
        catalogue.from_mapping(data, lambda at: f'f:{at}'),
        KNOWN_SPECS,
    )


def broken(*entries: dict[str, Any], **options: Any) -> set[str]:
    """Return the rules that are broken."""
    return {violation.rule for violation in findings(*entries, **options)}


#: By rule: a flavor that breaks it and one that just does not.
EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    'HV001': (
        entry('i1', vcpus=17, specs={'hw:cpu_cores': '17'}),
        entry('i1', vcpus=16),
    ),
    'HV002': (
        entry('i1-dedicated', specs={'hw:numa_nodes': '1'}),
        entry('i1-dedicated'),
    ),
    'HV003': (entry('i4', vcpus=5), entry('i4', vcpus=4)),
    'HV004': (
        entry('i1-dedicated', specs={'hw:numa_mem.0': '4096'}),
        entry(
            'i1-dedicated',
            specs={
                'hw:numa_cpus.0': '0-7',
                'hw:numa_cpus.1': '8-15',
                'hw:numa_mem.0': '7168',
                'hw:numa_mem.1': '7168',
            },
        ),
    ),
    'HV005': (
        entry('i4-dedicated', ram=3001),
        entry('i4-dedicated', ram=3002),
    ),
    'HV006': (
        entry('i4-c2', status='approved', evidence=EVIDENCE),
        entry('i4', status='approved', evidence=EVIDENCE),
    ),
    'HV007': (entry('i4', ram=3585), entry('i4', ram=3584)),
    'HV008': (entry(disks=6), entry(disks=5)),
    'HV009': (
        entry(specs={'ssd': 'true'}),
        entry(specs={'aggregate_instance_extra_specs:ssd': 'true'}),
    ),
    'HV010': (
        entry(specs={'hw:cpu_polcy': 'dedicated'}),
        entry(specs={'hw:cpu_policy': 'shared'}),
    ),
    'HV011': (
        entry(specs={'hw:cpu_policy': 'dedicate'}),
        entry(specs={'hw:vif_multiqueue_enabled': 'True'}),
    ),
    'HV012': (
        entry('i4-c2', specs={'hw:cpu_policy': 'dedicated'}),
        entry('i4-c0.5', specs={'hw:cpu_policy': 'dedicated'}),
    ),
    'HV013': (
        entry(specs={'hw:locked_memory': 'true'}),
        entry(specs={'hw:locked_memory': 'false'}),
    ),
    'HV014': (
        entry(specs={'hw:mem_page_size': 'large'}),
        entry('i4-dedicated'),
    ),
    'HV015': (
        entry('i4-dedicated', specs={'hw:emulator_threads_policy': 'isolate'}),
        entry(
            'i4-dedicated',
            vcpus=3,
            specs={'hw:emulator_threads_policy': 'isolate'},
        ),
    ),
    'HV016': (
        entry(status='approved'),
        entry(status='approved', evidence=EVIDENCE),
    ),
    'HV019': (
        entry(status='approved', evidence={**EVIDENCE, 'low': 120.0}),
        entry(status='approved', evidence=EVIDENCE),
    ),
    'HV018': (
        entry(
            'i4-ceph', status='approved', evidence={**EVIDENCE, 'pool_size': 1}
        ),
        entry(
            'i4-ceph', status='approved', evidence={**EVIDENCE, 'pool_size': 2}
        ),
    ),
}


class Rules(testtools.TestCase):
    """Each rule has an example that breaks it and one that does not."""

    def test_every_rule_has_examples(self) -> None:
        self.assertEqual({rule for rule, *_ in ALL_RULES}, set(EXAMPLES))

    def test_every_rule_has_documentation(self) -> None:
        page = Path(__file__).parents[3] / 'doc/source/user/lint.md'
        sections = re.findall(r'^## (HV\d+)\n(\w+):', page.read_text(), re.M)
        rules = [(rule, level) for rule, level, *_ in ALL_RULES]
        self.assertEqual(sorted([*rules, SET_RULE[:2]]), sections)

    def test_examples(self) -> None:
        for rule, (bad, good) in EXAMPLES.items():
            self.assertIn(rule, broken(bad), rule)
            self.assertNotIn(rule, broken(good), rule)

    def test_levels(self) -> None:
        warnings = {rule for rule, level, *_ in ALL_RULES if level != ERROR}
        self.assertEqual({'HV007', 'HV008', 'HV009', 'HV014'}, warnings)

    def test_larger_than_host_in_memory(self) -> None:
        self.assertIn('HV001', broken(entry('i1', ram=16385)))
        self.assertNotIn('HV001', broken(entry('i1', ram=16384)))

    def test_instances_at_the_same_time(self) -> None:
        # Three guests of five fit cells of eight CPUs only twice.
        pinned = entry('i3-dedicated', vcpus=5)
        self.assertIn('HV003', broken(pinned))
        self.assertNotIn('HV003', broken(entry('i3', vcpus=5)))
        # Memory of one cell is 8 GiB.
        wide = entry('i4-dedicated', ram=4098)
        self.assertIn('HV003', broken(wide))
        self.assertIn('HV003', broken(entry('i4', ram=4097)))
        # Ratios promise more.
        self.assertNotIn('HV003', broken(entry('i4-c2', vcpus=8)))
        self.assertIn('HV003', broken(entry('i4-c2', vcpus=9)))
        self.assertNotIn('HV003', broken(entry('i4-m1.1', ram=4505)))
        self.assertIn('HV003', broken(entry('i4-m1.1', ram=4506)))

    def test_isolated_threads_take_whole_cores(self) -> None:
        # The cells' eight CPUs are four cores.
        isolate = {'hw:cpu_thread_policy': 'isolate'}
        self.assertEqual(
            {'HV003'}, broken(entry('i4-dedicated', specs=isolate))
        )
        half = entry('i4-dedicated', vcpus=2, specs=isolate)
        self.assertEqual(set(), broken(half))
        wide = entry('i4-dedicated', vcpus=5, specs=isolate)
        self.assertEqual({'HV002'}, broken(wide))

    def test_disks_at_the_same_time(self) -> None:
        host = from_mapping(
            {
                **profile().to_mapping(),
                'disks': {'count': 8, 'size_gb': 10},
            },
            'small',
        )
        # 80 GB are 74 GiB, of which 73 are for files.
        for changes, rules in (
            ({'disks': 2, 'disk': 8, 'ephemeral': 10}, set()),
            ({'disks': 3, 'disk': 8}, {'HV003'}),
            ({'disk': 8, 'ephemeral': 11}, {'HV003'}),
            ({'disk': 9, 'ephemeral': 10}, {'HV003'}),
        ):
            for policy in ('i4', 'i4-dedicated'):
                flavor = entry(policy, **changes)
                self.assertEqual(rules, broken(flavor, host=host), changes)
        # Root disks are elsewhere if Ceph has the data disks.
        flavor = entry('i4-ceph', disk=40, disks=2)
        self.assertEqual(set(), broken(flavor, host=host))

    def test_pages(self) -> None:
        for page, ram, good in (
            ('large', 3001, False),
            ('large', 3002, True),
            ('2048', 3001, False),
            ('2MB', 3001, False),
            ('2MiB', 3002, True),
            ('4', 3001, True),
            ('1GB', 3002, False),
            ('1048576', 3002, False),
            ('1GB', 3072, True),
            ('2097152B', 3001, False),
            ('4096B', 3001, True),
            ('16Mb', 3001, False),
            ('16Mbit', 3002, True),
            ('small', 3001, True),
            ('any', 3001, True),
        ):
            flavor = entry(
                'i4-dedicated', ram=ram, specs={'hw:mem_page_size': page}
            )
            self.assertEqual(good, 'HV005' not in broken(flavor), (page, ram))

    def test_cells_that_do_not_add_up(self) -> None:
        self.assertIn(
            'HV004',
            broken(entry('i1-dedicated', specs={'hw:numa_nodes': '3'})),
        )
        lists = {
            'hw:numa_cpus.0': '0-7',
            'hw:numa_cpus.1': '8-14',
            'hw:numa_mem.0': '7168',
            'hw:numa_mem.1': '7168',
        }
        self.assertIn('HV004', broken(entry('i1-dedicated', specs=lists)))
        lists['hw:numa_cpus.1'] = '7-15'
        self.assertIn('HV004', broken(entry('i1-dedicated', specs=lists)))
        lists['hw:numa_cpus.1'] = '8-16,^16'
        self.assertNotIn('HV004', broken(entry('i1-dedicated', specs=lists)))

    def test_every_cell_is_listed_twice(self) -> None:
        """Nova requires CPUs and memory of each cell, or of none."""
        cpus: dict[str, Any] = {
            'hw:numa_cpus.0': '0-7',
            'hw:numa_cpus.1': '8-15',
        }
        memory: dict[str, Any] = {
            'hw:numa_mem.0': '7168',
            'hw:numa_mem.1': '7168',
        }
        one_cell: dict[str, Any] = {
            'hw:numa_cpus.0': '0-15',
            'hw:numa_mem.0': '14336',
        }
        for specs, good in (
            ({**cpus, **memory}, True),
            (cpus, False),
            (memory, False),
            # Nova has one cell by default.
            ({**cpus, **memory, 'hw:numa_nodes': None}, False),
            ({**one_cell, 'hw:numa_nodes': None}, True),
            (one_cell, False),
            ({**cpus, **memory, 'hw:numa_nodes': '3'}, False),
            (
                {**memory, 'hw:numa_cpus.0': '0-7', 'hw:numa_cpus.2': '8-15'},
                False,
            ),
        ):
            rules = broken(entry('i1-dedicated', specs=specs))
            self.assertEqual(good, 'HV004' not in rules, specs)

    def test_nearest_spec_is_named(self) -> None:
        violations = findings(EXAMPLES['HV010'][0])
        message = next(
            str(violation)
            for violation in violations
            if violation.rule == 'HV010'
        )
        self.assertIn("did you mean 'hw:cpu_policy'", message)
        self.assertTrue(
            message.startswith('f:flavors.0.extra_specs.hw:cpu_polcy: ')
        )

    def test_misspelt_scope(self) -> None:
        self.assertIn('HV010', broken(entry(specs={'hww:cpu_policy': 'x'})))
        self.assertIn('HV010', broken(entry(specs={'cpu_policy': 'x'})))
        self.assertNotIn('HV010', broken(entry(specs={'hvstack:a': 'x'})))
        self.assertIn('HV010', broken(entry(specs={'quota:speed': '1'})))

    def test_evidence_is_whole_and_of_this_configuration(self) -> None:
        for name in catalogue.EVIDENCE_FIELDS:
            lacking = {k: v for k, v in EVIDENCE.items() if k != name}
            violations = findings(entry(status='approved', evidence=lacking))
            self.assertEqual(
                ['HV016'], [violation.rule for violation in violations], name
            )
            self.assertIn(f'lacks {name}:', violations[0].message)
        other = entry('i2', status='approved', evidence=EVIDENCE)
        self.assertIn('HV016', broken(other))
        self.assertEqual(set(), broken(entry(evidence={'percent': 3})))

    def test_values_of_the_file_make_no_second_line(self) -> None:
        changed = {**EVIDENCE, 'host': 'a\x1eb\u2028c\nd'}
        for finding in findings(entry(status='approved', evidence=changed)):
            self.assertEqual(1, len(str(finding).splitlines()))

    def test_evidence_does_not_contradict_itself(self) -> None:
        tomorrow = datetime.now(UTC).date() + timedelta(days=2)
        for name, value, field in (
            ('low', 120.0, 'low'),
            ('percent', 50.0, 'percent'),
            ('percent', 400.0, 'percent'),
            ('min_percent', 97.0, 'low'),
            ('runs', 1, 'runs'),
            ('baseline_runs', 1, 'baseline_runs'),
            ('backend', 'magic', 'backend'),
            ('backend', 'qemu', 'backend'),
            ('host', 'another', 'host'),
            ('date', '2999-01-01', 'date'),
            ('date', tomorrow.isoformat(), 'date'),
            ('date', '1999-01-01', 'date'),
            ('date', '20261121', 'date'),
            ('date', 'yesterday', 'date'),
        ):
            changed = {**EVIDENCE, name: value}
            rules = [
                (violation.rule, violation.field)
                for violation in findings(
                    entry(status='approved', evidence=changed)
                )
            ]
            self.assertIn(('HV019', f'evidence.{field}'), rules, (name, value))

    def test_copies_of_a_pool_are_known(self) -> None:
        lone = entry('i4-ceph', status='approved', evidence=EVIDENCE)
        self.assertIn('HV018', broken(lone))
        self.assertNotIn('HV018', broken({**lone, 'status': 'candidate'}))

    def test_numa_guest_has_a_single_warning(self) -> None:
        numa = entry(specs={'hw:numa_nodes': '1', 'hw:mem_page_size': 'any'})
        self.assertEqual(
            [('HV014', 'extra_specs.hw:numa_nodes')],
            [(item.rule, item.field) for item in findings(numa)],
        )

    def test_two_names_for_one_shape(self) -> None:
        flavor = entry()
        other = {**flavor, 'name': 'another'}
        self.assertEqual({SET_RULE[0]}, broken(flavor, other))
        self.assertEqual(set(), broken(flavor, {**other, 'ram': 1000}))
        self.assertEqual(
            set(), broken(flavor, {**other, 'role': 'controller'})
        )

    def test_controllers_are_no_instances(self) -> None:
        lone = entry('i4', role='controller', vcpus=8, ram=16000)
        self.assertEqual(set(), broken(lone))


class Derived(testtools.TestCase):
    """What derivation makes has no errors."""

    def test_papers(self) -> None:
        for name in ('vsphere6', 'vsan', 'amd'):
            host = host_profiles.load(name)
            for count in (1, 2, 3, 4, 5, 8, 10, 20):
                for policy in ('', '-dedicated', '-pinned', '-ceph'):
                    try:
                        data = catalogue.build_catalogue(
                            host, [parse(f'i{count}{policy}')]
                        )
                    except errors.InputError:
                        continue
                    checked = catalogue.from_mapping(data, str)
                    messages = [
                        str(violation)
                        for violation in check_catalogue(
                            host, checked, KNOWN_SPECS
                        )
                        if violation.level == ERROR
                    ]
                    self.assertEqual([], messages)

    def test_lab(self) -> None:
        host = from_mapping(
            {
                'name': 'lab-worker',
                'sockets': 1,
                'cores_per_socket': 2,
                'threads_per_core': 1,
                'memory_mib': 4864,
                'reserved_memory_mib': 768,
                'controllers': 'host',
                'cpu_cap': 0.65,
            },
            'lab',
        )
        names = [parse(text) for text in ('i1', 'i2', 'i2-c2', 'i2-m1.2')]
        checked = catalogue.from_mapping(
            catalogue.build_catalogue(host, names), str
        )
        self.assertEqual([], check_catalogue(host, checked, KNOWN_SPECS))
        self.assertEqual(5, len(checked.entries))

    def test_separate_controllers_only_from_two_instances_on(self) -> None:
        host = host_profiles.load('vsphere6')
        for count, roles in (
            (1, {'worker', 'controller'}),
            (2, {'worker', 'namenode', 'resourcemanager'}),
        ):
            data = catalogue.build_catalogue(host, [parse(f'i{count}')])
            self.assertEqual(
                roles, {flavor['role'] for flavor in data['flavors']}
            )


class Read(testtools.TestCase):
    """Malformed catalogues get one line with the field."""

    def refused(self, data: Any) -> str:
        exc = self.assertRaises(
            errors.InputError, catalogue.from_mapping, data, lambda at: at
        )
        self.assertNotIn('\n', str(exc))
        return str(exc)

    def test_fields(self) -> None:
        for field, value in (
            ('name', ''),
            ('name', 'x' * 256),
            ('name', 'a\nb'),
            ('name', ' a'),
            ('role', 'guest'),
            ('status', 'good'),
            ('vcpus', 0),
            ('vcpus', '4'),
            ('ram', -1),
            ('ram', 2**26 + 1),
            ('vcpus', 2**19 + 1),
            ('description', 'x' * 65536),
            ('disk', 2**31),
            ('extra_specs', ['a']),
            ('evidence', 'yes'),
            ('size', 4),
        ):
            data = {'host': 'small', 'flavors': [entry(**{field: value})]}
            text = self.refused(data)
            self.assertTrue(text.startswith(f'flavors.0.{field}'), text)

    def test_evidence(self) -> None:
        for field, value in (
            ('percent', '97'),
            ('low', float('nan')),
            ('high', -1),
            ('runs', 2.5),
            ('size_bytes', 0),
            ('digest', 'abc'),
            ('date', 20261121),
            ('releases', '34'),
            ('releases', {'nova': 34}),
            ('mood', 'good'),
        ):
            bad = entry(evidence={**EVIDENCE, field: value})
            text = self.refused({'host': 'small', 'flavors': [bad]})
            self.assertTrue(
                text.startswith(f'flavors.0.evidence.{field}'), text
            )

    def test_values_of_specs_are_texts(self) -> None:
        bad = entry(specs={'hw:cpu_cores': 4})
        text = self.refused({'host': 'small', 'flavors': [bad]})
        self.assertIn('in quotes', text)

    def test_configuration(self) -> None:
        for text in ('two', 'i2-c3\nm4', 'i2-dedicated-c2', 'i0'):
            bad = {**entry(), 'configuration': text}
            message = self.refused({'host': 'small', 'flavors': [bad]})
            self.assertTrue(
                message.startswith("flavors.0.configuration: 'flavors"),
                message,
            )

    def test_specs_are_such_as_nova_takes(self) -> None:
        for key, value in (
            ('a\nb:c', 'x'),
            ('a/b', 'x'),
            ('x' * 256, 'x'),
            ('a:b', 'x' * 256),
            ('a:b', 'x\ny'),
        ):
            bad = entry(specs={key: value})
            text = self.refused({'host': 'small', 'flavors': [bad]})
            self.assertTrue(text.startswith('flavors.0.extra_specs.'), text)

    def test_absurd_specs_are_findings(self) -> None:
        for key, value in (
            ('hw:numa_nodes', '9' * 255),
            ('hw:numa_nodes', '²'),
            ('hw:numa_mem.0', '²'),
            ('hw:numa_cpus.0', '0-²'),
        ):
            bad = entry('i4-dedicated', vcpus=2**19, specs={key: value})
            self.assertIn('HV001', broken(bad))

    def test_top(self) -> None:
        for data in (
            None,
            {},
            {'host': 'small'},
            {'host': 'small', 'flavors': {}},
            {'host': 'small', 'flavors': [3]},
            {'flavors': []},
            {'host': 'small', 'flavors': [], 'min_percent': -1},
            {'host': 'small', 'flavors': [entry(), entry()]},
        ):
            self.refused(data)


class Specs(testtools.TestCase):
    """What Nova knows."""

    def test_values(self) -> None:
        for name, value, good in (
            ('hw:mem_page_size', '2MB', True),
            ('hw:mem_page_size', '2048', True),
            ('hw:mem_page_size', '16Mb', True),
            ('hw:mem_page_size', 'huge', False),
            # Nova accepts these in flavors, but starts no server.
            ('hw:mem_page_size', '1G', False),
            ('hw:mem_page_size', '2Mi', False),
            ('hw:mem_page_size', '2048k', False),
            ('hw:mem_page_size', '2048kB', False),
            ('hw:numa_cpus.12', '0-3,^2', True),
            ('hw:numa_cpus.x', '0', True),
            ('hw:numa_nodes', '0', False),
            ('quota:cpu_quota', '-1', True),
            ('quota:cpu_shares', '-1', False),
            ('trait:CUSTOM_A', 'required', True),
            ('trait:CUSTOM_A', 'yes', False),
            ('trait1:CUSTOM_A', 'forbidden', True),
            ('resources:VCPU', '0', True),
            ('pci_passthrough:alias', 'nvme:2', True),
            ('pci_passthrough:alias', 'nvme', False),
            ('hw:locked_memory', 'TRUE', True),
            ('anything:else', '?', True),
        ):
            self.assertEqual(good, KNOWN_SPECS.is_valid(name, value), name)

    def test_names(self) -> None:
        for name, expected in (
            ('hw:cpu_policy', True),
            ('hw:cpu_priority', False),
            ('hw:numa_cpus.x', False),
            ('trait:CUSTOM_A', True),
            ('trait:custom', False),
            ('trait:HADOOP', False),
            ('trait1:HW_CPU_HYPERTHREADING', True),
            ('resources:PCPU', True),
            ('resources1:CUSTOM_SSD', True),
            ('resources:SSD', False),
            ('hvstack:evidence', True),
            ('group_policy', True),
            ('ssd', False),
        ):
            self.assertEqual(expected, KNOWN_SPECS.is_known(name), name)


class TableTest(testtools.TestCase):
    """The extra specs of the package."""

    def test_every_row_is_complete(self) -> None:
        names = [spec.name for spec in KNOWN_SPECS.specs]
        self.assertEqual(54, len(set(names)))
        self.assertEqual(len(names), len(set(names)))
        for spec in KNOWN_SPECS.specs:
            self.assertTrue(spec.reason.endswith('.'), spec.name)
            self.assertNotEqual(bool(spec.value), bool(spec.type), spec.name)
            re.compile(spec.name)
            re.compile(KNOWN_SPECS.find_pattern(spec.name) or spec.value)
        types = {spec.type for spec in KNOWN_SPECS.specs if spec.type}
        self.assertEqual(set(KNOWN_SPECS.types), types)
