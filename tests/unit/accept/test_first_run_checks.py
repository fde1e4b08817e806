# SPDX-License-Identifier: Apache-2.0
"""Each item of the first run is broken once, and its check says so."""

import re
from collections.abc import Sequence
from pathlib import Path

import testtools

from hvstack import errors, host_profiles
from hvstack.accept import (
    first_run_checks,
    first_run_host_checks,
    first_run_pins,
    guest_checks,
    guest_hardware,
    libvirt_domain,
)
from hvstack.accept.check_result import CheckResult, check_equal
from hvstack.accept.first_run import (
    DEDICATED_ITEMS,
    GUEST_ITEMS,
    HOST_ITEMS,
    PAGE_ITEMS,
)
from hvstack.accept.first_run_items import ITEMS
from hvstack.accept.first_run_results import Checklist, ItemResult
from hvstack.accept.guest_hardware import GuestHardware
from hvstack.model.host_settings import HostSettings, compute_host_settings
from tests.unit.accept import domains

PAGE = Path(__file__).parents[3] / 'doc/source/operator/kvm-first-run.md'


def parse(xml: str, *changes: tuple[str, str]) -> GuestHardware:
    """Return the hardware of a domain with changes of its XML."""
    for before, after in changes:
        assert before in xml, before
        xml = xml.replace(before, after)
    return guest_hardware.parse_hardware(xml)


def list_good(check_results: Sequence[CheckResult]) -> list[bool]:
    return [check.good for check in check_results]


class HardwareTest(testtools.TestCase):
    def test_virtual_machine(self) -> None:
        guest = parse(domains.KVM)
        self.assertEqual('instance-0000001a', guest.name)
        self.assertEqual('kvm', guest.domain_type)
        self.assertEqual('pc-q35-8.2', guest.machine)
        self.assertEqual(['vda', 'vdb'], [disk.target for disk in guest.disks])
        self.assertEqual(2048, guest.page_kib)
        self.assertEqual({0: 2097152}, guest.memory_kib)
        self.assertEqual(0, guest.iothreads)
        (interface,) = guest.interfaces
        self.assertEqual('tap7f3e0a0e-59', interface.target)
        self.assertEqual(1, interface.queues)

    def test_container(self) -> None:
        guest = parse(domains.LXC)
        self.assertEqual(
            ('lxc', '', ''),
            (
                guest.domain_type,
                guest.machine,
                guest.cpu_mode,
            ),
        )
        self.assertEqual(
            ((), (), {}),
            (
                guest.disks,
                guest.rng_models,
                guest.memory_kib,
            ),
        )

    def test_units_and_memory_of_several_cells(self) -> None:
        guest = parse(
            domains.KVM,
            ("size='2048' unit='KiB'", "size='1' unit='G'"),
            ("memory='2097152' unit='KiB'", "memory='2' unit='GiB'"),
        )
        self.assertEqual(1048576, guest.page_kib)
        self.assertEqual({0: 2097152}, guest.memory_kib)
        guest = parse(
            domains.KVM,
            (
                "<memnode cellid='0' mode='strict' nodeset='0'",
                "<memnode cellid='0' mode='strict' nodeset='0-1'",
            ),
        )
        self.assertEqual({}, guest.memory_kib)

    def test_unknown_unit(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            parse,
            domains.KVM,
            ("size='2048' unit='KiB'", "size='2048' unit='pages'"),
        )
        self.assertIn("unit 'pages'", str(error))


class DomainTest(testtools.TestCase):
    def test_type(self) -> None:
        check = first_run_checks.check_domain_type
        self.assertTrue(check(parse(domains.KVM)).good)
        for guest, observed in (
            (parse(domains.LXC), 'lxc'),
            (parse(domains.KVM, ("type='kvm'", "type='qemu'")), 'qemu'),
        ):
            result = check(guest)
            self.assertFalse(result.good)
            self.assertEqual(
                f'{guest.name}: domain type: expected kvm, observed '
                f'{observed}',
                str(result),
            )

    def test_machine(self) -> None:
        good = parse(domains.KVM)
        for machine, expected in (
            ('pc-i440fx-jammy', [True, True, False]),
            ('pc-q35-rhel9.2.0', [True, True, False]),
            ('pc-q35-8.2', [True, True, True]),
            ('q35', [True, False, False]),
            ('isapc', [True, False, False]),
        ):
            other = parse(domains.KVM, ('pc-q35-8.2', machine))
            self.assertEqual(
                expected,
                list_good(first_run_checks.check_machines([good, other])),
                machine,
            )
        self.assertEqual(
            [False, True],
            list_good(first_run_checks.check_machines([parse(domains.LXC)])),
        )

    def test_cpu_mode(self) -> None:
        passthrough = parse(domains.KVM)
        cpu = "<cpu mode='host-passthrough' check='none' migratable='on'>"

        def custom(model: str) -> GuestHardware:
            return parse(
                domains.KVM,
                (cpu, f"<cpu mode='custom'><model>{model}</model>"),
            )

        named = custom('Skylake-Server-IBRS')
        generic = custom('qemu64')
        without = parse(domains.KVM, (cpu, '<cpu>'))
        for guest, mode, expected in (
            (passthrough, 'host-passthrough', True),
            (passthrough, '', False),
            (named, '', True),
            (named, 'host-model', True),
            (named, 'host-passthrough', False),
            (named, 'custom', True),
            (custom('Haswell'), 'custom', False),
            (generic, '', False),
            (generic, 'custom', False),
            (generic, 'none', False),
            (passthrough, 'none', False),
            (without, 'host-model', False),
            (parse(domains.LXC), '', False),
        ):
            options = {
                'libvirt.cpu_mode': mode,
                'libvirt.cpu_models': 'Broadwell, Skylake-Server-IBRS,qemu64',
            }
            check = first_run_checks.check_cpu_mode(guest, options)
            self.assertEqual(expected, check.good, (str(check), mode))
        self.assertEqual(
            'custom Skylake-Server-IBRS', first_run_checks.describe_cpu(named)
        )

    def test_guests_with_different_cpus(self) -> None:
        passthrough = parse(domains.KVM)
        options = {'libvirt.cpu_mode': 'host-passthrough'}
        for other, expected in (
            (passthrough, True),
            (parse(domains.KVM, ('host-passthrough', 'maximum')), False),
        ):
            *_, same = first_run_checks.check_cpu_modes(
                [(passthrough, options), (other, options)]
            )
            self.assertEqual(expected, same.good)

    def test_interfaces(self) -> None:
        model = "<model type='virtio'/>"
        for change, expected in (
            (model, [True]),
            (f"{model}<driver name='vhost' queues='1'/>", [True]),
            (f"{model}<driver name='vhost' queues='4'/>", [False]),
            ("<model type='e1000'/>", [False]),
            ('', [False]),
        ):
            guest = parse(domains.KVM, (model, change))
            self.assertEqual(
                expected,
                list_good(first_run_checks.check_interfaces(guest)),
                change,
            )
        without = re.sub(
            '<interface.*</interface>', '', domains.KVM, flags=re.DOTALL
        )
        self.assertEqual(
            [False],
            list_good(first_run_checks.check_interfaces(parse(without))),
        )
        self.assertEqual(
            [False],
            list_good(first_run_checks.check_interfaces(parse(domains.LXC))),
        )

    def test_disk_bus(self) -> None:
        vda = "dev='vda' bus='virtio'"
        sata = "<controller type='sata' index='0'/>"
        for bus, controller, expected in (
            ('virtio', sata, True),
            ('scsi', "<controller type='scsi' model='virtio-scsi'/>", True),
            ('scsi', "<controller type='scsi' model='lsilogic'/>", False),
            ('scsi', sata, False),
            ('sata', sata, False),
            ('ide', sata, False),
        ):
            guest = parse(
                domains.KVM,
                (vda, f"dev='vda' bus='{bus}'"),
                (sata, controller),
            )
            self.assertEqual(
                [expected, True],
                list_good(first_run_checks.check_disk_buses(guest)),
                (bus, controller),
            )
        self.assertEqual(
            [False],
            list_good(first_run_checks.check_disk_buses(parse(domains.LXC))),
        )

    def test_disk_cache(self) -> None:
        image = "type='raw' cache='none' discard='unmap'"
        volume = "type='raw' cache='none' io='native'"
        for before, after, expected in (
            (image, image, [True, True]),
            (image, "type='raw' cache='none' io='threads'", [True, True]),
            (image, "type='raw' cache='writeback'", [False, True]),
            (image, "type='raw'", [False, True]),
            (volume, "type='raw' cache='none'", [True, False]),
            (
                volume,
                "type='raw' cache='directsync' io='native'",
                [
                    *(True, False),
                ],
            ),
        ):
            guest = parse(domains.KVM, (before, after))
            self.assertEqual(
                expected,
                list_good(first_run_checks.check_disk_caches(guest)),
                after,
            )
        rbd = parse(
            domains.KVM,
            ("<disk type='block'", "<disk type='network'"),
            (volume, "type='raw' cache='writeback'"),
        )
        self.assertEqual(
            [True, True], list_good(first_run_checks.check_disk_caches(rbd))
        )

    def test_rng(self) -> None:
        check = first_run_checks.check_rng
        self.assertTrue(check(parse(domains.KVM)).good)
        self.assertFalse(check(parse(domains.LXC)).good)

    def test_iothreads(self) -> None:
        vcpu = "<vcpu placement='static'>2</vcpu>"
        pin = "<emulatorpin cpuset='2,22'/>"
        for count, pins, expected in (
            (0, '', [True]),
            (1, "<iothreadpin iothread='1' cpuset='2'/>", [True, True]),
            (1, "<iothreadpin iothread='1' cpuset='5'/>", [True, False]),
            (2, "<iothreadpin iothread='1' cpuset='2'/>", [False, True]),
            (1, '', [False]),
        ):
            xml = domains.KVM.replace(
                vcpu, f'{vcpu}<iothreads>{count}</iothreads>'
            ).replace(pin, f'{pin}{pins}')
            domain = libvirt_domain.parse_domain(xml)
            pin_checks = [
                check
                for check in guest_checks.check_pins(
                    domain, domains.SPECS, domains.NODES, dedicated={2, 22}
                )
                if 'iothreadpin' in check.subject
            ]
            self.assertEqual(
                expected,
                list_good(
                    first_run_checks.check_iothreads(
                        domain, parse(xml).iothreads, pin_checks
                    )
                ),
                (count, pins),
            )

    def test_emulator_on_cpus_of_another_guest(self) -> None:
        guest = libvirt_domain.parse_domain(domains.KVM)
        for cpus, expected in (('3', [True]), ('22', [False])):
            other = libvirt_domain.parse_domain(
                domains.KVM.replace('0000001a', '0000001b')
                .replace("vcpu='0' cpuset='2'", "vcpu='0' cpuset='4'")
                .replace("vcpu='1' cpuset='22'", f"vcpu='1' cpuset='{cpus}'")
            )
            self.assertEqual(
                expected,
                list_good(
                    first_run_checks.check_emulators([guest], [guest, other])
                ),
            )


class PinItemsTest(testtools.TestCase):
    def test_every_check_of_pins_belongs_to_an_item(self) -> None:
        xml = domains.KVM.replace(
            '<emulatorpin',
            "<iothreadpin iothread='1' cpuset='2'/><emulatorpin",
        )
        domain = libvirt_domain.parse_domain(xml)
        check_results = guest_checks.check_pins(
            domain,
            domains.SPECS,
            domains.NODES,
            dedicated={2, 22},
            cells={0: {2, 22}},
            threads={'CPU 0/KVM': {2}, 'CPU 1/KVM': {22}, 'worker': {2}},
        ) + guest_checks.check_numa_topology(
            domain.name, domains.SPECS, 2, domains.NODES
        )
        self.assertEqual([True] * len(check_results), list_good(check_results))
        self.assertEqual(
            set(first_run_pins.PIN_ITEMS.values()),
            {
                first_run_pins.find_item(check, domain.name)
                for check in check_results
            },
        )

    def test_unknown_check(self) -> None:
        self.assertRaises(
            KeyError,
            first_run_pins.find_item,
            check_equal('g: something', 1, 1),
            'g',
        )


class ImageTest(testtools.TestCase):
    def test_rng(self) -> None:
        check = first_run_checks.check_image_rng
        self.assertTrue(check({'hw_rng_model': 'virtio'}).good)
        self.assertFalse(check({}).good)

    def test_multiqueue(self) -> None:
        for value, flavor, expected in (
            (None, 'false', [True, True]),
            ('false', 'false', [True, True]),
            ('True', 'false', [False, True]),
            ('yes', 'false', [False, True]),
            (None, 'true', [True, False]),
        ):
            image = {'hw_vif_multiqueue_enabled': value} if value else {}
            specs = {'s': {'hw:vif_multiqueue_enabled': flavor}}
            self.assertEqual(
                expected,
                list_good(first_run_checks.check_multiqueue(image, specs)),
                (value, flavor),
            )
        self.assertEqual(
            [True, False],
            list_good(first_run_checks.check_multiqueue({}, {'s': {}})),
        )

    def test_disk_bus(self) -> None:
        for image, expected in (
            ({}, True),
            ({'hw_disk_bus': 'virtio'}, True),
            ({'hw_disk_bus': 'scsi', 'hw_scsi_model': 'virtio-scsi'}, True),
            ({'hw_disk_bus': 'scsi'}, False),
            ({'hw_disk_bus': 'ide'}, False),
        ):
            check = first_run_checks.check_image_bus(image)
            self.assertEqual(expected, check.good, image)

    def test_distribution(self) -> None:
        for image, distribution, expected in (
            ({'os_distro': 'debian'}, 'debian', True),
            ({'os_distro': 'debian'}, 'ubuntu', False),
            ({'os_distro': 'debian'}, '', False),
            ({}, 'debian', False),
            ({}, '', False),
        ):
            (check,) = first_run_checks.check_distribution(
                image, {'g': distribution}
            )
            self.assertEqual(expected, check.good, (image, distribution))


class GuestTest(testtools.TestCase):
    def test_cpu_model(self) -> None:
        xeon = 'Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz'
        passthrough = parse(domains.KVM)
        named = parse(domains.KVM, ('host-passthrough', 'custom'))
        for guest, model, host_model, expected in (
            (passthrough, xeon, xeon, True),
            (passthrough, 'Intel Xeon E3-12xx', xeon, False),
            (passthrough, '', '', False),
            (passthrough, xeon, '', False),
            (named, 'Intel Xeon Processor (Skylake, IBRS)', xeon, True),
            (named, 'QEMU Virtual CPU version 2.5+', xeon, False),
            (named, 'Common KVM processor', xeon, False),
            (named, '', xeon, False),
        ):
            check = first_run_checks.check_guest_cpu(
                'g', guest, model, host_model
            )
            self.assertEqual(expected, check.good, model)

    def test_huge_page_mode(self) -> None:
        for text, expected in (
            ('always [madvise] never', True),
            ('[always] madvise never', False),
            ('', False),
        ):
            check = first_run_checks.check_huge_page_mode('g', 'madvise', text)
            self.assertEqual(expected, check.good, text)

    def test_clock_source(self) -> None:
        for name, expected in (
            ('kvm-clock', True),
            ('tsc', True),
            ('hpet', False),
            ('acpi_pm', False),
            ('', False),
        ):
            check = first_run_checks.check_clock_source('g', name)
            self.assertEqual(expected, check.good, name)


class HostTest(testtools.TestCase):
    def settings(self) -> HostSettings:
        return compute_host_settings(
            host_profiles.load('vsphere6'), 'dedicated'
        )

    def facts(self, **changes: str) -> dict[str, str]:
        facts = {
            'cpu_model': 'Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz',
            'dev_kvm': 'yes',
            'module': 'kvm_intel',
            'nested': 'Y',
            'hypervisor_flag': 'no',
            'online': '0-39',
        }
        for cell in self.settings().pages:
            facts[f'pages.{cell.cell}.2048'] = f'{cell.count} {cell.count}'
            facts[f'pages.{cell.cell}.1048576'] = '0 0'
        return facts | changes

    def test_physical(self) -> None:
        check = first_run_host_checks.check_physical
        self.assertTrue(check('h', self.facts()).good)
        for facts in (self.facts(hypervisor_flag='yes'), {}):
            self.assertFalse(check('h', facts).good)

    def test_kvm(self) -> None:
        for changes, expected in (
            ({}, [True, True]),
            ({'module': 'kvm_amd'}, [True, True]),
            ({'dev_kvm': 'no'}, [False, True]),
            ({'module': 'kvm'}, [True, False]),
        ):
            facts = self.facts(**changes)
            self.assertEqual(
                expected,
                list_good(first_run_host_checks.check_kvm('h', facts)),
                changes,
            )
        self.assertEqual(
            [False, False],
            list_good(first_run_host_checks.check_kvm('h', {})),
        )

    def test_nova_conf(self) -> None:
        for options, expected in (
            ({}, [True, True, True]),
            ({'libvirt.virt_type': 'kvm'}, [True, True, True]),
            ({'libvirt.virt_type': 'qemu'}, [False, True, True]),
            ({'DEFAULT.cpu_allocation_ratio': '4'}, [True, False, True]),
        ):
            self.assertEqual(
                expected,
                list_good(first_run_host_checks.check_nova_conf('h', options)),
                options,
            )

    def test_cpu_set(self) -> None:
        for dedicated, shared, facts, expected in (
            ('0-39', '', {}, [True] * 4),
            ('0-39', '', {'isolated': '0-39'}, [True] * 4),
            ('0-39', '', {'isolated': '1-5'}, [True, True, True, False]),
            ('0-39', '', {'online': '0-38'}, [True, False, True, True]),
            ('0-39', '0-3', {}, [True, True, False, True]),
            ('1-39', '', {}, [False, True, True, True]),
            ('', '', {}, [False, True, True, True]),
        ):
            options = {
                'compute.cpu_dedicated_set': dedicated,
                'compute.cpu_shared_set': shared,
            }
            check_results = first_run_host_checks.check_cpu_set(
                'h', options, self.facts(**facts), self.settings()
            )
            self.assertEqual(
                expected, list_good(check_results), (dedicated, shared, facts)
            )

    def test_huge_pages(self) -> None:
        settings = self.settings()
        count = settings.pages[0].count
        guest = parse(domains.KVM)

        def check(pages: str, *guests: GuestHardware) -> list[bool]:
            facts = self.facts(**{'pages.0.2048': pages})
            return list_good(
                first_run_host_checks.check_page_pools(
                    'h', facts, settings, guests
                )
            )

        self.assertEqual([True] * 4, check(f'{count} {count}'))
        self.assertEqual(
            [False, False, True, True], check(f'{count - 1} {count - 1}')
        )
        # 1024 pages of 2 MiB are those of a guest, or of another program.
        used = f'{count} {count - 1024}'
        self.assertEqual([True] * 4, check(used, guest))
        self.assertEqual([True, False, True, True], check(used))
        self.assertEqual(
            [False] * 4,
            list_good(
                first_run_host_checks.check_page_pools('h', {}, settings, ())
            ),
        )

    def test_used_huge_pages(self) -> None:
        guest = parse(domains.KVM)
        for pages, expected in (
            ('2000 976', [True]),
            ('2000 977', [False]),
            ('0 0', [False]),
        ):
            self.assertEqual(
                expected,
                list_good(
                    first_run_host_checks.check_used_pages(
                        'h', {'pages.0.2048': pages}, [guest]
                    )
                ),
                pages,
            )
        self.assertEqual(
            [],
            first_run_host_checks.check_used_pages(
                'h', {}, [parse(domains.LXC)]
            ),
        )

    def test_data_path(self) -> None:
        self.assertEqual(
            [True, False],
            list_good(
                first_run_host_checks.check_data_paths(
                    'h', {'br-ex': 'system', 'br-int': 'netdev'}
                )
            ),
        )


class ResultTest(testtools.TestCase):
    good = check_equal('a', 1, 1)
    bad = check_equal('b', 'kvm', 'lxc')

    def result(self, checklist: Checklist) -> ItemResult:
        (result,) = (
            item_result
            for item_result in checklist.results()
            if item_result.item.id == 'domain-type'
        )
        return result

    def test_verdicts(self) -> None:
        for check_results, attempts, expected in (
            ([], [], 'not checked'),
            ([self.good], [], 'held'),
            ([self.good], ['x'], 'not checked'),
            ([], ['x'], 'not checked'),
            ([self.good, self.bad], [], 'did not hold'),
            ([self.bad], ['x'], 'did not hold'),
        ):
            checklist = Checklist()
            checklist.add('domain-type', *check_results)
            for attempt in attempts:
                checklist.add_missing(['domain-type'], attempt, 'Do it.')
            result = self.result(checklist)
            self.assertEqual(expected, result.verdict)
            verdict = result.to_test_result().verdict
            self.assertEqual(expected == 'held', verdict == 'passed')
            self.assertEqual(expected == 'not checked', verdict == expected)

    def test_texts(self) -> None:
        checklist = Checklist()
        checklist.add('domain-type', self.good, self.bad)
        result = self.result(checklist)
        self.assertEqual('b: lxc', result.observed)
        self.assertEqual('b: kvm', result.expected)
        self.assertEqual(result.item.remedy, result.remedy)
        self.assertIn('virt_type = kvm', result.to_test_result().reason)
        checklist = Checklist()
        checklist.add_missing(['domain-type'], 'no access', 'Use ssh.')
        result = self.result(checklist)
        self.assertEqual('no access', result.observed)
        self.assertEqual('Use ssh.', result.remedy)
        checklist = Checklist()
        for index in range(5):
            checklist.add(
                'domain-type', check_equal(f'g{index}', index, index)
            )
        result = self.result(checklist)
        self.assertEqual('g0: 0; g1: 1; g2: 2; 2 more', result.observed)
        self.assertEqual('', result.remedy)

    def test_unknown_item(self) -> None:
        self.assertRaises(KeyError, Checklist().add, 'x', self.good)
        self.assertRaises(KeyError, Checklist().add_missing, ['x'], '', '')


class ItemsTest(testtools.TestCase):
    def test_lists_name_items(self) -> None:
        ids = [item.id for item in ITEMS]
        self.assertEqual(len(ids), len(set(ids)))
        for names in (HOST_ITEMS, DEDICATED_ITEMS, PAGE_ITEMS, GUEST_ITEMS):
            self.assertEqual(set(), set(names) - set(ids))

    def test_page_has_every_item_and_no_other(self) -> None:
        rows = re.findall(
            r'^\| `[a-z-]+` \|.*\|$', PAGE.read_text('utf-8'), re.MULTILINE
        )
        expected = [
            f'| `{item.id}` | {item.subject} | {item.reading} | '
            f'{item.expected} | {item.remedy} | {item.source} |'
            for item in ITEMS
        ]
        self.assertEqual(sorted(expected), sorted(rows))
