# SPDX-License-Identifier: Apache-2.0
"""The checklist reads a cloud, its hosts and its guests."""

import re
from dataclasses import replace
from pathlib import Path

import fixtures
import testtools

from hvstack import host_profiles
from hvstack.accept import first_run_cluster
from hvstack.accept.first_run import FirstRun
from hvstack.accept.first_run_results import ItemResult
from hvstack.accept.host_inspection import Access
from hvstack.cluster.base import ClusterNodes
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.plan import (
    ClusterDisks,
    ClusterFlavors,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    StackResources,
)
from hvstack.hadoop.sizing import size_node
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from hvstack.model.host_settings import compute_host_settings
from tests.unit.accept import domains
from tests.unit.cloud import fake

XEON = 'Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz'
#: Instance name and host CPUs of each server.
GUESTS = {
    's1': ('instance-0000001a', ('2', '22')),
    's2': ('instance-0000001b', ('3', '23')),
}
CELLS = ''.join(
    f"<cell id='{cell}'><cpus>"
    + ''.join(f"<cpu id='{cpu}'/>" for cpu in cpus)
    + '</cpus></cell>'
    for cell, cpus in enumerate(
        ([*range(10), *range(20, 30)], [*range(10, 20), *range(30, 40)])
    )
)
CAPABILITIES = (
    f"<capabilities><host><topology><cells num='2'>{CELLS}</cells></topology>"
    '</host></capabilities>'
)
#: A host, as the commands of hvstack see it. Its files are in the directory of
#: the program.
HOST = r"""#!/bin/sh
cd "${0%/*}" || exit
case $4 in
*dumpxml*instance-0000001a*) cat instance-0000001a.xml;;
*dumpxml*instance-0000001b*) cat instance-0000001b.xml;;
*list*--name*) ls | sed -n 's/\.xml$//p';;
*' capabilities'*) cat capabilities;;
*_allocation_ratio*) cat nova.conf;;
*list-br*) cat bridges;;
*Cpus_allowed_list*instance*|*instance*Cpus_allowed_list*)
    case $4 in
    *0000001a*) printf 'qemu-system-x86\t2,22\nCPU 0/KVM\t2\nCPU 1/KVM\t22\n';;
    *) printf 'qemu-system-x86\t3,23\nCPU 0/KVM\t3\nCPU 1/KVM\t23\n';;
    esac;;
*/dev/kvm*) cat facts;;
esac
"""
NOVA_CONF = """[DEFAULT]
[compute]
cpu_dedicated_set = 0-39
[libvirt]
cpu_mode = host-passthrough
"""


class FirstRunTest(testtools.TestCase):
    """Two guests with dedicated CPUs on a physical host with KVM."""

    configuration = 'i2-dedicated'

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON},
                roles=('admin',),
            )
        )
        self.cloud.resources()
        self.profile = host_profiles.load('vsphere6')
        self.write_image(
            hw_rng_model='virtio', os_distro='debian', hvstack_output='qemu'
        )
        for server_id, (instance, cpus) in GUESTS.items():
            xml = domains.KVM.replace('instance-0000001a', instance)
            for before, after in zip(('2', '22'), cpus, strict=True):
                xml = re.sub(
                    f"(vcpu='[01]' cpuset=)'{before}'", rf"\1'{after}'", xml
                )
            xml = xml.replace("'2,22'", f"'{','.join(cpus)}'")
            self.write(f'{instance}.xml', xml)
            self.serve(server_id, instance)
            pins = dict(zip('01', map(int, cpus), strict=True))
            self.cloud.http.get(
                f'{fake.NOVA}/servers/{server_id}/topology',
                json={'nodes': [{**domains.NODES[0], 'cpu_pinning': pins}]},
            )
        self.write('capabilities', CAPABILITIES)
        self.write('nova.conf', NOVA_CONF)
        self.write('bridges', 'br-ex \nbr-int system\n')
        self.write_facts()
        self.write_program('host', HOST)
        self.write_guest_facts()

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def write_program(self, name: str, text: str) -> None:
        self.write(name, text)
        (self.directory / name).chmod(0o755)

    def change(self, name: str, before: str, after: str) -> None:
        """Change a file of the host."""
        text = (self.directory / name).read_text()
        self.assertIn(before, text)
        self.write(name, text.replace(before, after))

    def write_facts(self) -> None:
        settings = compute_host_settings(self.profile, 'dedicated')
        pages = ''.join(
            f'pages.{cell.cell}.2048={cell.count} '
            # Two guests have 2 GiB each in cell 0.
            f'{cell.count - 2048 * (cell.cell == 0)}\n'
            for cell in settings.pages
        )
        self.write(
            'facts',
            f'cpu_model={XEON}\ndev_kvm=yes\nmodule=kvm_intel\n'
            f'hypervisor_flag=no\nonline=0-39\n{pages}',
        )

    def write_guest_facts(self) -> None:
        self.write_program(
            'guest',
            '#!/bin/sh\n'
            f"printf '%s\\n' 'cpu_model={XEON}' clock_source=kvm-clock "
            "'thp=always [madvise] never' os_id=debian\n",
        )

    def write_image(self, **properties: str) -> None:
        self.cloud.http.get(
            f'{fake.GLANCE}/images/hvstack-hadoop',
            json={'id': 'i1', 'name': 'hvstack-hadoop'},
        )
        self.cloud.http.get(
            f'{fake.GLANCE}/images/i1',
            json={'id': 'i1', 'tags': [], 'min_disk': 2, **properties},
        )

    def serve(self, server_id: str, instance: str, host: str = 'h1') -> None:
        """Let Nova show a server."""
        self.cloud.http.get(
            f'{fake.NOVA}/servers/{server_id}',
            json={
                'server': {
                    'id': server_id,
                    'name': f'node-{server_id}',
                    'OS-EXT-SRV-ATTR:host': host,
                    'OS-EXT-SRV-ATTR:instance_name': instance,
                    'flavor': {
                        'original_name': 'f',
                        'vcpus': 2,
                        'extra_specs': domains.SPECS,
                    },
                }
            },
        )

    def plan(self) -> ClusterPlan:
        configuration = parse(self.configuration)
        flavors = ClusterFlavors(
            derive_flavor(self.profile, configuration),
            derive_flavor(self.profile, configuration, 'controller'),
        )
        return ClusterPlan(
            spec=ClusterSpec(configuration),
            nodes=NodeCounts(1, 2, 1),
            flavors=flavors,
            sizing=size_node(2, 2048),
            stack=StackResources('hvstack-hadoop', 'provider'),
            disks=ClusterDisks(((),), local=False),
        )

    def access(self) -> Access:
        return Access('command', f'{self.directory}/host {{host}}')

    def check(
        self, access: Access | None = None, **changes: ClusterDisks
    ) -> dict[str, ItemResult]:
        """Check all items; return the results by item."""
        plan = replace(self.plan(), **changes)
        first_run = FirstRun(
            self.cloud.connect(),
            access or self.access(),
            plan,
            compute_host_settings(
                self.profile, plan.spec.configuration.cpu_policy
            ),
        )
        first_run.skip_impossible_items()
        first_run.check_hosts(['h1'])
        nodes = [
            CommandNode(
                *(f'node-{server_id}', '192.0.2.1', 'worker', 'h1'),
                enter=(f'{self.directory}/guest',),
            )
            for server_id in GUESTS
        ]
        first, second = (
            {'name': node.name, 'address': '192.0.2.1', 'server_id': key}
            for node, key in zip(nodes, GUESTS, strict=True)
        )
        first_run_cluster.check_cluster(
            first_run,
            ClusterNodes('c', nodes[0], [nodes[1]], 2),
            {'controller': first, 'workers': [second]},
        )
        return {
            result.item.id: result for result in first_run.checklist.results()
        }

    def verdicts(
        self, results: dict[str, ItemResult], verdict: str
    ) -> set[str]:
        return {
            item
            for item, result in results.items()
            if result.verdict == verdict
        }


class PhysicalHostTest(FirstRunTest):
    def test_as_expected(self) -> None:
        results = self.check()
        self.assertEqual(
            {},
            {
                item: result.observed
                for item, result in results.items()
                if result.verdict == 'did not hold'
            },
        )
        self.assertEqual(
            # The program of the guest runs no jobs, and no cluster is created.
            {'host-volumes', 'guest-sort', 'cluster-ready', 'cluster-deleted'},
            self.verdicts(results, 'not checked'),
        )
        self.assertIn('i2-dedicated-pinned', results['host-volumes'].remedy)

    def test_what_did_not_hold(self) -> None:
        """Each change of a host, a guest or Nova makes one item fail."""
        first, second = (f'{instance}.xml' for instance, _ in GUESTS.values())
        for name, before, after, items in (
            (first, "type='kvm'", "type='qemu'", {'domain-type'}),
            (
                first,
                "vcpu='0' cpuset='2'",
                "vcpu='0' cpuset='4'",
                {
                    'domain-vcpupin',
                },
            ),
            (first, "'2,22'", "'2,3'", {'domain-emulatorpin'}),
            (
                first,
                "cellid='0' mode='strict'",
                "cellid='0' mode='preferred'",
                {
                    'domain-numatune',
                },
            ),
            (second, 'pc-q35-8.2', 'pc-q35-7.2', {'domain-machine'}),
            ('nova.conf', 'passthrough', 'model', {'domain-cpu'}),
            ('nova.conf', '0-39', '0-29', {'host-cpu-set'}),
            ('bridges', 'system', 'netdev', {'host-ovs-datapath'}),
            ('facts', 'dev_kvm=yes', 'dev_kvm=no', {'host-kvm'}),
            ('facts', 'flag=no', 'flag=yes', {'host-physical'}),
            ('facts', 'E5-2680 v2', 'E5-2690', {'guest-cpu-model'}),
            ('guest', 'kvm-clock', 'hpet', {'guest-clocksource'}),
            ('guest', '[madvise]', 'madvise', {'guest-thp'}),
            ('guest', 'debian', 'ubuntu', {'image-os-distro'}),
        ):
            text = (self.directory / name).read_text()
            self.change(name, before, after)
            results = self.check()
            self.assertEqual(
                items,
                self.verdicts(results, 'did not hold'),
                (name, before, after),
            )
            (item,) = items
            self.assertEqual(results[item].item.remedy, results[item].remedy)
            self.write(name, text)

    def test_shared_cpu(self) -> None:
        """Both guests have the same CPU, also in Nova."""
        self.change(
            'instance-0000001b.xml',
            "vcpu='0' cpuset='3'",
            "vcpu='0' cpuset='2'",
        )
        failed = self.verdicts(self.check(), 'did not hold')
        self.assertLessEqual(
            # The emulator threads of the first guest use this CPU, too.
            {'domain-own-cpus', 'domain-emulatorpin'},
            failed,
        )

    def test_pages_in_small_pages(self) -> None:
        self.change('facts', 'pages.0.2048=', 'pages.9.2048=')
        self.assertEqual(
            {'host-huge-pages', 'host-huge-pages-used'},
            self.verdicts(self.check(), 'did not hold'),
        )

    def test_image(self) -> None:
        self.write_image(hw_disk_bus='ide', hw_vif_multiqueue_enabled='true')
        self.assertEqual(
            {
                *('image-rng', 'image-disk-bus', 'image-multiqueue'),
                'image-os-distro',
            },
            self.verdicts(self.check(), 'did not hold'),
        )


class UncheckedTest(FirstRunTest):
    def test_no_access(self) -> None:
        results = self.check(Access())
        for item in ('host-kvm', 'domain-type', 'domain-vcpupin'):
            self.assertEqual('not checked', results[item].verdict)
            self.assertIn('--host-access none', results[item].observed)
            self.assertIn('--host-ssh-key', results[item].remedy)
        self.assertEqual(
            {
                *('image-multiqueue', 'image-os-distro'),
                *('guest-thp', 'guest-clocksource'),
            },
            self.verdicts(results, 'held'),
        )

    def test_host_that_is_not_reached(self) -> None:
        self.write_program('host', '#!/bin/sh\necho "no route" >&2; exit 4\n')
        results = self.check()
        for item in ('host-kvm', 'host-ovs-datapath', 'domain-vcpupin'):
            self.assertEqual('not checked', results[item].verdict)
            self.assertIn('no route', results[item].observed)

    def test_missing_program(self) -> None:
        """Without Open vSwitch, only its item is not checked."""
        self.change('host', 'cat bridges', 'echo "no ovs-vsctl" >&2; exit 127')
        result = self.check()['host-ovs-datapath']
        self.assertEqual('not checked', result.verdict)
        self.assertIn('no ovs-vsctl', result.observed)

    def test_guests_on_different_hosts(self) -> None:
        (self.directory / 'instance-0000001b.xml').unlink()
        self.change('host', '*list*--name*)', '*unused*)')
        result = self.check()['domain-own-cpus']
        self.assertEqual('not checked', result.verdict)
        self.assertIn('no host has two guests', result.observed)

    def test_hidden_host(self) -> None:
        """Nova shows the host of a server to an administrator only."""
        self.serve('s1', '', '')
        results = self.check()
        for item in ('domain-type', 'image-multiqueue'):
            self.assertEqual('not checked', results[item].verdict)
        self.assertEqual('held', results['guest-clocksource'].verdict)

    def test_guest_that_is_not_reached(self) -> None:
        self.write_program('guest', '#!/bin/sh\nexit 255\n')
        results = self.check()
        for item in ('guest-thp', 'guest-clocksource', 'image-os-distro'):
            self.assertEqual('not checked', results[item].verdict)


class SharedTest(FirstRunTest):
    """Containers with shared CPUs, as a lab has them."""

    configuration = 'i2'

    def test_lab(self) -> None:
        for instance, _ in GUESTS.values():
            self.write(
                f'{instance}.xml',
                domains.LXC.replace('instance-00000003', instance),
            )
        self.change('bridges', 'system', 'netdev')
        results = self.check()
        result = results['domain-type']
        self.assertEqual('did not hold', result.verdict)
        self.assertIn('domain type: lxc', result.observed)
        self.assertIn('domain type: kvm', result.expected)
        for item in ('domain-vcpupin', 'host-cpu-set', 'host-huge-pages'):
            self.assertEqual('not checked', results[item].verdict)
            self.assertIn('shared CPUs', results[item].observed)
        self.assertEqual('did not hold', results['host-ovs-datapath'].verdict)


class VolumesTest(FirstRunTest):
    """The worker has two pinned local volumes."""

    def volumes(self, *hosts: str) -> ItemResult:
        self.cloud.http.get(
            f'{fake.CINDER}/volumes/detail',
            json={
                'volumes': [
                    {
                        'id': f'v{index}',
                        'os-vol-host-attr:host': host,
                        'attachments': [{'server_id': 's2'}],
                    }
                    for index, host in enumerate(hosts)
                ]
            },
        )
        disks = ClusterDisks((('disk-slot-1', 'disk-slot-2'),), local=True)
        return self.check(disks=disks)['host-volumes']

    def test_on_the_host(self) -> None:
        result = self.volumes('h1@slot1#slot1', 'h1@slot2#slot2')
        self.assertEqual('held', result.verdict, result.observed)

    def test_not_on_the_host(self) -> None:
        for hosts in (
            ('h1@slot1#slot1', 'h2@slot2#slot2'),
            ('h1@slot1#slot1',),
            (),
        ):
            self.assertEqual('did not hold', self.volumes(*hosts).verdict)

    def test_hidden_host(self) -> None:
        result = self.volumes('h1@slot1#slot1', '')
        self.assertEqual('not checked', result.verdict)
