# SPDX-License-Identifier: Apache-2.0
"""C and M over 1 divide the same host among bigger promises."""

from typing import Any

from hvstack import host_profiles
from hvstack.cloud import allocation_ratios, connection, placement, undo
from hvstack.cluster import probe
from hvstack.cluster.ssh import SSHNode
from hvstack.hadoop.daemon_http import run_on_nodes
from hvstack.lab.hosts import cgroups
from hvstack.model.configuration import parse
from hvstack.model.flavor import Flavor, derive_flavor
from tests.functional.test_hosts import HostsTest

#: The host that the guests share, and how many there are.
HOST = 'hv-host2'
#: Fills memory as a process does: what tail holds is its own. It holds it
#: for a while, so that all guests have theirs at the same time. (busybox
#: knows MiB as a small m only, and its tail holds less than 2 GiB.)
FILL = (
    'for part in 1 2; do '
    '((head -c {half}m /dev/zero; sleep 15) | tail -c {half}m | wc -c) & '
    'done; wait'
)
#: File with a host's cap under version 1 of cgroups.
MEMORY_LIMIT = 'memory.limit_in_bytes'
#: MiB that a guest's own programs need beside it.
_REST = 40


class SharesTest(HostsTest):
    def guests(self, label: str) -> tuple[Flavor, list[SSHNode]]:
        """Return guests of a configuration, as many as share a host."""
        configuration = parse(label)
        profile = host_profiles.load('lab-worker')
        shape = derive_flavor(profile, configuration, 'worker')
        # Its Placement microversion is the one that ratios ask for.
        admin = connection.connect('hvstack-lab')
        self.addCleanup(undo.undo_own, [admin])
        allocation_ratios.set_ratios(
            admin,
            {HOST: placement.providers(admin)[HOST]},
            {
                'VCPU': configuration.cpu_ratio,
                'MEMORY_MB': configuration.ram_ratio,
            },
        )
        flavor = self.cloud.compute.create_flavor(
            name=self.name, vcpus=shape.vcpus, ram=shape.ram, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        self.cloud.compute.create_flavor_extra_specs(flavor, shape.extra_specs)
        servers = [
            self.active(self.start(flavor, HOST))
            for _ in range(configuration.instances)
        ]
        for server in servers:
            self.wait(server, 'echo here', 'here')
        return shape, [self.node(server) for server in servers]

    def node(self, server: Any) -> SSHNode:
        """Return a guest as a node."""
        node = SSHNode(
            name=server.id,
            address=self.address(server),
            role='worker',
            host=HOST,
            key=self.temp_dir / 'key',
            directory=self.temp_dir / 'ssh',
        )
        self.addCleanup(node.close)
        return node

    def overflows(self, shape: Flavor, guests: list[SSHNode]) -> bool:
        """Fill all guests at once; tell whether their host's cap was hit."""
        before = cgroups.oom_kills(HOST)
        half = (shape.ram - _REST) // 2
        command = FILL.format(half=half)
        done = run_on_nodes(guests, command, timeout=300)
        hit = cgroups.oom_kills(HOST) > before
        if not hit:
            self.assertEqual(
                [[str(half * 1024**2)] * 2] * len(guests),
                [process.stdout.split() for process in done],
            )
        return hit

    def check_cpu(self, shape: Flavor, guests: list[SSHNode]) -> None:
        """All of them together get the host's cap, each the same share."""
        cap = host_profiles.load('lab-worker').caps.cpu
        assert cap is not None
        results = probe.measure_busy(guests, shape.vcpus, seconds=5)
        shares = [result.cores for result in results.values()]
        self.assertLess(sum(shares), cap * 1.1)
        self.assertLess(max(shares) / min(shares), 1.7)

    def test_one_to_one(self) -> None:
        shape, guests = self.guests('i2')
        self.check_cpu(shape, guests)
        self.assertFalse(self.overflows(shape, guests))

    def test_twice_the_cpus(self) -> None:
        shape, guests = self.guests('i2-c2')
        self.assertEqual(host_profiles.load('lab-worker').cpus, shape.vcpus)
        self.check_cpu(shape, guests)

    def test_more_memory_than_there_is(self) -> None:
        shape, guests = self.guests('i2-m1.2')
        self.assertTrue(self.overflows(shape, guests))
        name = 'memory.max' if cgroups.version() == 2 else MEMORY_LIMIT
        (limit,) = (
            path / name
            for path in cgroups.directories(HOST)
            if (path / name).exists()
        )
        cap = host_profiles.load('lab-worker').caps.memory_mib
        assert cap is not None
        self.assertEqual(cap * 1024**2, int(limit.read_text(encoding='utf-8')))
