# SPDX-License-Identifier: Apache-2.0
"""The lab's hosts behave as machines of their own. The lab is up."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import openstack

from hvstack import errors, processutils
from hvstack.cluster import actions
from hvstack.lab import constants, hosts, images, settings
from hvstack.lab.hosts import (
    agent_use,
    bare_metal,
    cgroups,
    host,
    nova,
    sizes,
)
from tests.functional.test_images import GuestTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: The host that tests take away; the last worker's.
LAST = 'hv-host3'
#: Burns two CPUs for some seconds and prints what it got, in CPU seconds.
BURN = """
for n in 1 2; do
    timeout 4 sh -c 'while :; do :; done' &
done
wait
times
"""


class HostsTest(GuestTest):
    """Gives a test servers on hosts that it names."""

    cloud: Any

    def need_fake_hosts(self) -> None:
        """Skip the test on a lab without them."""
        if not (settings.load() or settings.LabSettings()).fake_hosts:
            self.skipTest('needs a lab with fake hosts (make test)')

    def flavor(
        self, suffix: str = '', *, ram: int = 128, disk: int = 1, **specs: str
    ) -> Any:
        """Return a small flavor of its own."""
        flavor = self.cloud.compute.create_flavor(
            name=self.name + suffix, vcpus=1, ram=ram, disk=disk
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        if specs:
            self.cloud.compute.create_flavor_extra_specs(flavor, specs)
        return flavor

    def start(
        self,
        flavor: Any,
        where: str | None = None,
        image: str | None = None,
        network: str = 'provider',
    ) -> Any:
        """Ask for a server; does not wait for it."""
        network_id = self.cloud.network.find_network(network).id
        server = self.cloud.compute.create_server(
            name=self.name,
            image_id=image
            or images.upload(self.cloud, images.build('tiny'), 'lxc'),
            flavor_id=flavor.id,
            networks=[{'uuid': network_id}],
            key_name=self.name,
            **({'availability_zone': f'nova:{where}'} if where else {}),
        )
        self.addCleanup(self.delete, server)
        return server

    def no_system(self) -> str:
        """Return an image for hosts without guests."""
        image = self.cloud.image.create_image(
            name=self.name,
            disk_format='raw',
            container_format='bare',
            data=b'no system',
            wait=True,
        )
        self.addCleanup(self.cloud.image.delete_image, image)
        return str(image.id)

    def active(self, server: Any) -> Any:
        """Wait until a server runs."""
        try:
            return self.cloud.compute.wait_for_server(server, wait=120)
        except openstack.exceptions.ResourceFailure:
            # Nova sets the state first; some failures have no fault at all.
            fault = self.cloud.compute.get_server(server).fault or {}
            self.fail(f'{server.name}: {fault.get("message", "ERROR")}')

    def answers(
        self, server: Any, seconds: float = 90, address: str = ''
    ) -> None:
        """Wait until a server answers ping.

        :param address: address to ask; by default the server's only one.
        """
        address = address or self.address(server)
        processutils.wait_for(
            lambda: (
                processutils.run(
                    ['ping', '-c', '1', '-W', '1', address], check=False
                ).returncode
                == 0
            ),
            f'{server.name} to answer ping at {address}',
            timeout=seconds,
        )

    def check_disks(self) -> None:
        """Check that no other user can read disks of guests."""
        disks = list(host.HOSTS.glob('*/nova/instances/*/disk*'))
        self.assertNotEqual([], disks)
        readable = [str(path) for path in disks if path.stat().st_mode & 0o077]
        self.assertEqual([], readable)

    def check_ports(self, server: Any) -> None:
        """Check which ports of the control plane a guest can reach."""
        # The lab of the tests has neither Ceph nor Cinder.
        unused = {*constants.CEPH_PORTS, constants.CINDER_PORT}
        tries = ' '.join(
            f'timeout 3 nc -w 1 {constants.MGMT} {port} </dev/null >&2; '
            f'echo {name}=$?;'
            for name, port in constants.PORTS.items()
            if name not in unused
        )
        output = self.wait(server, tries, 'ovn-sb=').split()
        reached = {
            name
            for name, _, status in (line.partition('=') for line in output)
            # Busybox: 1 is no connection, 143 one that stayed open.
            if status in ('0', '143')
        }
        self.assertEqual(set(constants.PUBLIC_PORTS) - unused, reached)

    def service(self, name: str) -> str:
        """Return the data of a host in Nova."""
        return nova.computes(self.cloud)[name]


class InventoryTest(HostsTest):
    def test_every_host_reports_its_size(self) -> None:
        placement = self.cloud.placement
        providers = {
            item['name']: item['uuid']
            for item in placement.get('/resource_providers').json()[
                'resource_providers'
            ]
        }
        planned = hosts.planned(settings.load() or settings.LabSettings())
        for size in planned:
            url = f'/resource_providers/{providers[size.name]}'
            inventories = placement.get(f'{url}/inventories').json()[
                'inventories'
            ]
            memory = inventories['MEMORY_MB']
            self.assertEqual(size.cpus, inventories['VCPU']['total'])
            self.assertEqual(size.memory_mib, memory['total'])
            self.assertEqual(sizes.RESERVED_MIB, memory['reserved'])
            self.assertEqual(1.0, inventories['VCPU']['allocation_ratio'])
            self.assertEqual(1.0, memory['allocation_ratio'])
            traits = placement.get(
                f'{url}/traits',
                headers={'OpenStack-API-Version': 'placement 1.6'},
            ).json()['traits']
            self.assertIn(size.trait, traits)

    def test_agents_memory_fits_the_reserve(self) -> None:
        for size in hosts.planned(settings.load() or settings.LabSettings()):
            used = agent_use.measure_memory_mib(size.name)
            self.assertGreater(used, 100)
            self.assertLess(used, sizes.RESERVED_MIB)


class GuestsTest(HostsTest):
    def test_guests_of_two_hosts_reach_each_other(self) -> None:
        flavor = self.flavor(**{'quota:cpu_shares': '1024'})
        servers = [self.start(flavor, where) for where in ('hv-host2', LAST)]
        first, second = (self.active(server) for server in servers)
        self.check_disks()
        self.assertNotEqual(first.host_id, second.host_id)
        self.answers(first)
        self.answers(second)
        self.wait(
            first,
            f'ping -c 1 -w 5 {self.address(second)} >/dev/null && echo there',
            'there',
        )
        self.check_ports(first)
        named = {
            int(path.parent.name)
            for path in Path('/proc').glob('[0-9]*/cmdline')
            if first.instance_name in self.text(path)
        }
        self.assertNotEqual(set(), named)
        self.assertEqual(set(), named - cgroups.members('hv-host2'))

    @staticmethod
    def text(path: Path) -> str:
        """Return a file's text; of a process that has ended, nothing."""
        try:
            return path.read_text(encoding='utf-8')
        except OSError:
            return ''


class AgentsTest(HostsTest):
    def test_killed_agents_come_back(self) -> None:
        before = self.pids()
        for agent in ('nova-compute', 'ovs', 'libvirtd'):
            processutils.run(
                [
                    *(host.directory(LAST) / 'enter', 'kill', '-KILL'),
                    before[agent],
                ]
            )
        killed = time.time()
        processutils.wait_for(
            lambda: (
                set(host.agents(LAST).values()) == {'RUNNING'}
                and self.pids()['nova-compute'] != before['nova-compute']
            ),
            'agents to be started again',
            timeout=60,
        )
        # What Nova schedules to a nova-compute that is still starting, that
        # one takes for a server it was killed over, and sets it to ERROR.
        processutils.wait_for(
            lambda: nova.ready(self.cloud, [LAST], {LAST: killed}),
            'nova-compute to report again',
            timeout=90,
        )
        server = self.active(self.start(self.flavor(), LAST))
        self.answers(server)

    def pids(self) -> dict[str, str]:
        """Return the agents' pids as the host numbers them."""
        lines = host.supervisorctl(LAST, 'status').splitlines()
        return {
            line.split()[0]: line.split('pid ')[1].split(',')[0]
            for line in lines
            if 'pid ' in line
        }


class BareTest(HostsTest):
    def entry(self) -> dict[str, Any]:
        """Return the entry of the last host in the baseline's file."""
        entries = json.loads(hosts.BASELINE.read_text())
        (host_entry,) = (e for e in entries if e['name'] == LAST)
        return dict(host_entry)

    def run_bare(self, *argv: str, check: bool = True) -> processutils.Result:
        """Run a program on the last host as on bare metal."""
        return processutils.run(
            [*self.entry()['enter'], *argv], timeout=120, check=check
        )

    def test_bare_metal_is_inside_the_cap(self) -> None:
        entry = self.entry()
        image = images.build('hadoop').outputs['lxc']
        release = actions.lab_command('release', LAST)
        self.addCleanup(processutils.run, release, timeout=240)
        prepare = actions.lab_command('prepare', LAST)
        processutils.run([*prepare, '--image', str(image)], timeout=240)
        self.assertEqual({'STOPPED'}, set(host.agents(LAST).values()))
        self.assertEqual('hv-host2', self.hostname('hv-host2'))
        self.assertEqual(LAST, self.run_bare('hostname').stdout.strip())
        self.assertIn('/dev/loop', self.run_bare('df', '/').stdout)
        self.run_bare('ping', '-c', '1', '-w', '5', '10.253.0.12', check=False)

        started_at = time.monotonic()
        used = self.cpu_seconds(self.run_bare('sh', '-c', BURN).stdout)
        took = time.monotonic() - started_at
        self.assertLess(used / took, entry['cpu_cap'] * 1.15)
        self.assertGreater(used, 0)

        killed = cgroups.oom_kills(LAST)
        size = entry['memory_cap_mib'] + 512
        done = self.run_bare(
            'sh', '-c', f'head -c {size}M /dev/zero | tail', check=False
        )
        self.assertNotEqual(0, done.returncode)
        self.assertGreater(cgroups.oom_kills(LAST), killed)

        # Left behind by a measurement that was killed, another would come.
        self.assertTrue(host.is_abandoned('hv-host2'))
        self.assertFalse(host.is_abandoned(LAST))
        sleeper = self.run_bare(
            'sh', '-c', 'sleep 987 >/dev/null 2>&1 & echo $!'
        )

        def inside() -> bool:
            """Tell whether it is in all of the host's cgroups.

            The shell gives its number before it has become the sleeper.
            """
            return all(
                any(
                    self.command_line(pid) == 'sleep\x00987\x00'
                    for pid in (cgroup / 'cgroup.procs').read_text().split()
                )
                for cgroup in cgroups.entrances(LAST)
            )

        processutils.wait_for(inside, 'the sleeper in each cgroup', timeout=10)
        processutils.run(release, timeout=240)
        probe = processutils.run(
            [*self.enter(), 'kill', '-0', sleeper.stdout.strip()], check=False
        )
        self.assertNotEqual(0, probe.returncode)
        self.assertFalse((host.directory(LAST) / 'bare.raw').exists())
        self.assertEqual('up', self.service(LAST))
        self.answers(self.active(self.start(self.flavor(), LAST)))

    def command_line(self, pid: str) -> str:
        """Return a process' command line; nothing if it has ended."""
        try:
            return Path(f'/proc/{pid}/cmdline').read_text(encoding='utf-8')
        except OSError:
            return ''

    def enter(self) -> list[str]:
        """Return how to enter the last host."""
        return [str(host.directory(LAST) / 'enter')]

    def hostname(self, name: str) -> str:
        """Return the host name that a host reports."""
        return host.enter(name, 'hostname').stdout.strip()

    def cpu_seconds(self, text: str) -> float:
        """Add up what ``times`` printed: minutes and seconds."""
        total = 0.0
        for word in text.split():
            minutes, _, seconds = word.rstrip('s').partition('m')
            total += 60 * float(minutes) + float(seconds)
        return total

    def test_host_with_a_guest_is_refused(self) -> None:
        self.active(self.start(self.flavor(), LAST))
        exc = self.assertRaises(errors.BusyError, bare_metal.prepare, LAST)
        self.assertIn(LAST, str(exc))
        self.assertFalse(host.is_bare(LAST))


class FakeHostsTest(HostsTest):
    def test_dedicated_cpus_are_found_on_fake_hosts_only(self) -> None:
        self.need_fake_hosts()
        flavor = self.flavor(**{'hw:cpu_policy': 'dedicated'})
        server = self.active(self.start(flavor, image=self.no_system()))
        self.assertIn('hv-fake', server.compute_host)
        topology = self.cloud.compute.get(
            f'/servers/{server.id}/topology', microversion='2.78'
        ).json()
        self.assertEqual(1, len(topology['nodes']))
        self.assertTrue(topology['nodes'][0]['cpu_pinning'])


class PowerTest(HostsTest):
    def test_first_process_killed_is_a_host_that_is_off(self) -> None:
        init_pid = host.pid(LAST)
        assert init_pid is not None
        os.kill(init_pid, signal.SIGKILL)
        processutils.wait_for(
            lambda: host.pid(LAST) is None, 'its end', timeout=10
        )
        processutils.run([HVSTACK, 'lab', 'up'], timeout=300)
        self.assertEqual('up', self.service(LAST))
        self.assertEqual({'RUNNING'}, set(host.agents(LAST).values()))
