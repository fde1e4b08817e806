# SPDX-License-Identifier: Apache-2.0
"""Bare metal by Ironic, at the boundaries: OpenStack's APIs, and ssh."""

import io
import re
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cloud import host_keys, journal
from hvstack.cluster import ironic, planner
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop.sizing import size_node
from hvstack.model.topology import Topology
from hvstack.progress import Progress
from tests.unit.cloud import fake
from tests.unit.cloud.test_quotas import NOVA, limits

MACHINE = {'resources:CUSTOM_BAREMETAL': '1', 'resources:VCPU': '0'}
#: Instead of the programs: one machine answers for all.
PROGRAMS = {
    'ssh': """
if [ -n "$HOST_KEY" ] && ! grep -qs "$HOST_KEY" "$KNOWN_HOSTS"/*; then
    : >"$KNOWN_HOSTS.refused"
    echo 'Host key verification failed.' >&2
    exit 255
fi
case $* in
*nproc*) echo "$CPUS" ;;
*MemTotal*) echo "67000000 kB" ;;
*image.json*) echo 'cpu_model=Xeon' ;;
*sha256sum*) printf '1 1\\n2 2\\n0m0s 0m0s\\n0m16s 0m0s\\n' ;;
esac
exit 0
""",
    'ssh-keygen': """
for path; do :; done
echo private >"$path"
echo ssh-ed25519 AAAA >"$path.pub"
""",
}


def flavor(name: str, specs: dict[str, str]) -> dict[str, Any]:
    return {
        'id': f'id-{name}',
        'name': name,
        'vcpus': 16,
        'ram': 65536,
        'disk': 400,
        'extra_specs': specs,
        'links': [],
    }


def key(letter: str) -> str:
    return f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * letter}'


def node(name: str) -> dict[str, str]:
    return {
        'name': name,
        'address': f'10.0.0.{len(name)}',
        'server_id': f'id-{name}',
        'host_id': 'ironic',
        'host_key': key('k'),
    }


class _Cloud(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.http = self.cloud.http
        self.http.get(
            f'{fake.NOVA}/limits', json=limits(NOVA | {'maxTotalCores': -1})
        )
        self.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={'flavors': [flavor('metal', MACHINE), flavor('guest', {})]},
        )
        self.options = conf.load(()).cloud

    def plan(self, name: str = 'metal', count: int = 2, **kwargs: Any) -> Any:
        controller_flavor = kwargs.pop('controller_flavor', None)
        spec = ClusterSpec(workers=count, **kwargs)
        return planner.plan_machines(
            self.conn, spec, name, controller_flavor, self.options
        )


class PlanTest(_Cloud):
    def refused(self, *args: Any, **kwargs: Any) -> str:
        error = self.assertRaises(
            errors.InputError, self.plan, *args, **kwargs
        )
        self.assertNotIn('\n', str(error))
        return str(error)

    def test_a_plan(self) -> None:
        plan = self.plan(tuning='vsphere6', os_profile='vsan')
        self.assertEqual((2, 2), (plan.nodes.workers, plan.nodes.replication))
        self.assertEqual(
            size_node(
                *(16, 65536),
                tuning='vsphere6',
                native=True,
                controller_mib=65536,
            ),
            plan.sizing,
        )
        self.assertIn('os_profile=vsan\n', plan.node_setup)
        self.assertEqual('id-metal', plan.flavors.get_reference('controller'))
        self.assertFalse(plan.secondary_namenode)

    def test_what_cannot_be(self) -> None:
        self.assertIn("flavor 'guest'", self.refused('guest'))
        self.assertIn(
            "flavor 'guest'",
            self.refused(controller_flavor='guest'),
        )
        self.assertIn("Cannot find flavor 'none'", self.refused('none'))
        self.assertIn('--workers is 0', self.refused(count=0))
        self.assertIn('replication 3', self.refused(replication=3))
        self.assertIn('instances', self.refused(count=8))


class TakenTest(_Cloud):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        directory = self.directory
        self.refused = directory / 'known_hosts.refused'
        for name, text in PROGRAMS.items():
            program = directory / name
            program.write_text(f'#!/bin/sh\n{text}')
            program.chmod(0o755)
        for name, value in (
            ('PATH', f'{directory}:/usr/bin:/bin'),
            ('CPUS', '16'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        for name, value in (
            ('cloud.keypairs.DIRECTORY', directory / 'keys'),
            ('cloud.host_keys.DIRECTORY', directory / 'known_hosts'),
            ('cloud.stacks._INTERVAL', 0.0),
            ('cluster.launch.wait_until_ready', self.wait_until_ready),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.settled: list[Topology] = []
        self.resources = {'CUSTOM_BAREMETAL': 1}
        self.stacks: list[dict[str, Any]] = []
        self.nodes = [node('c'), node('w1'), node('w22')]
        http = self.http
        heat, nova = f'{fake.HEAT}/stacks', fake.NOVA
        http.get(re.compile(f'{heat}/hv-bare-'), json=self.find_stack)
        http.post(heat, json={'stack': {'id': 's1', 'links': []}})
        http.get(f'{heat}/s1', json=lambda *_: self.stack())
        http.get(heat, json={'stacks': []})
        fake.take_key_pairs(http)
        http.delete(re.compile(f'{nova}/os-keypairs/hv-bare-'), text='')
        http.get(
            f'{nova}/servers/detail',
            json={
                'servers': [
                    {
                        'id': node_output['server_id'],
                        'hostId': 'ironic',
                        'OS-EXT-AZ:availability_zone': 'nova',
                    }
                    for node_output in self.nodes
                ]
            },
        )
        for node_output in self.nodes:
            server = {
                'id': node_output['server_id'],
                'flavor': flavor('m', MACHINE),
            }
            http.get(
                f'{nova}/servers/{node_output["server_id"]}',
                json={'server': server},
            )
            http.get(
                f'{fake.PLACEMENT}/allocations/{node_output["server_id"]}',
                json=lambda *_: {
                    'allocations': {'p': {'resources': self.resources}}
                },
            )

    def stack(self) -> dict[str, Any]:
        """Return the stack, with the key of the machine that Heat has."""
        letter = 'n' if self.refused.exists() else 'k'
        nodes = [output | {'host_key': key(letter)} for output in self.nodes]
        return {
            'stack': {
                'id': 's1',
                'stack_name': 'hv-bare',
                'stack_status': 'CREATE_COMPLETE',
                'links': [],
                'outputs': [
                    {'output_key': 'controller', 'output_value': nodes[0]},
                    {'output_key': 'workers', 'output_value': nodes[1:]},
                ],
            }
        }

    def find_stack(self, _: object, context: Any) -> dict[str, Any]:
        """Return the stack by its name, once it exists."""
        if self.refused.exists():
            return self.stack()
        context.status_code = 404
        return {}

    def wait_until_ready(
        self,
        _: object,
        topology: Topology,
        *__: object,
        controllers_first: bool,
    ) -> None:
        """Replace Hadoop, which no ssh of the test starts."""
        self.assertFalse(controllers_first)
        self.settled.append(topology)

    def acquire(self) -> Any:
        quiet = Progress(stream=io.StringIO())
        return ironic.acquire_machines(
            self.conn, self.plan(), self.options, quiet
        )

    def given_back(self) -> None:
        self.assertEqual([], journal.entries())
        deleted = [
            request.path
            for request in self.http.request_history
            if request.method == 'DELETE'
        ]
        self.assertIn('/os-keypairs/hv-bare-', ' '.join(deleted))

    def test_machines_are_hosts_of_their_own(self) -> None:
        with self.acquire() as cluster:
            self.assertEqual(2, cluster.worker_hosts)
            self.assertEqual(16, cluster.processors)
            sut = cluster.environment()
            # What a hypervisor would hide counts here.
            self.assertEqual(
                {
                    'cpu_model': 'Xeon',
                    'hosts': 3,
                    'worker_hosts': 2,
                    'disk_access': 'bare metal',
                },
                sut,
            )
            observations = cluster.observe()
            self.assertEqual(16.0, observations['host_cpu_share']['w1'])
            self.assertEqual(
                {'CUSTOM_BAREMETAL': 1}, observations['allocations']['w22']
            )
            self.assertEqual('m', observations['flavor']['worker']['name'])
        groups = {location.group for location in self.settled[0].locations}
        self.assertEqual(3, len(groups))
        self.given_back()

    def test_the_same_templates(self) -> None:
        with self.acquire():
            pass
        body = next(
            request.json()
            for request in self.http.request_history
            if request.method == 'POST' and request.path.endswith('/stacks')
        )
        self.assertTrue(body['parameters']['node_groups'])
        # An hour, 6 s for each node, and ten minutes.
        self.assertEqual(71, body['timeout_mins'])
        self.assertEqual(2, body['parameters']['worker_count'])
        self.assertIn('hadoop-node.yaml', ' '.join(body['files']))
        self.assertEqual(
            'none', body['environment']['parameters']['anti_affinity']
        )
        self.assertEqual(
            'OS::Heat::None',
            body['environment']['resource_registry']['HVStack::Hadoop::Disks'],
        )

    def test_a_guest_is_no_bare_metal(self) -> None:
        guest = {'VCPU': 16, 'MEMORY_MB': 65536}
        for resources, expected in (
            (guest, 'MEMORY_MB, VCPU of the host'),
            (guest | {'CUSTOM_GPU': 1}, 'MEMORY_MB, VCPU of the host'),
            ({}, 'nothing of the host'),
        ):
            self.resources = resources
            error = self.assertRaises(
                errors.CloudError, self.acquire().__enter__
            )
            self.assertIn(expected, str(error))
            self.given_back()

    def test_a_flavor_that_is_not_the_machine(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('CPUS', '64'))
        error = self.assertRaises(errors.CloudError, self.acquire().__enter__)
        self.assertIn('w1: it has 64 CPUs and 65429 MiB', str(error))
        self.given_back()

    def test_a_machine_that_was_deployed_again(self) -> None:
        """Heat has the key of the first machine until the next sends its."""
        for name, value in (
            ('HOST_KEY', key('n').split()[1]),
            ('KNOWN_HOSTS', str(host_keys.DIRECTORY)),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        with self.acquire() as cluster:
            self.assertTrue(self.refused.exists())
            text = host_keys.file_of(cluster.name).read_text()
            self.assertEqual(3, text.count(key('n')))
        self.assertEqual(1, len(self.settled))

    def test_an_undo_that_fails_hides_nothing(self) -> None:
        self.resources = {}
        self.http.delete(
            re.compile(f'{fake.NOVA}/os-keypairs/hv-bare-'), status_code=403
        )
        error = self.assertRaises(errors.CloudError, self.acquire().__enter__)
        self.assertIn('nothing of the host', str(error))
        self.assertIn('undo changes: keypair hv-bare-', str(error))
