# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster environment``, as a tenant without other rights."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fixtures
import requests
import testtools
import yaml

from hvstack.cloud import connection, journal
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.cloud.test_quotas import NOVA, limits
from tests.unit.cloud.test_volumes import kind
from tests.unit.cluster.test_shared_hdfs import (
    FIRST,
    HOSTS,
    SECOND,
    have_rules,
    have_stack,
)


def flavor(name: str, **specs: str) -> dict[str, Any]:
    """Return a flavor of Nova's."""
    return {
        'id': f'id-{name}',
        'name': name,
        'vcpus': 2,
        'ram': 4096,
        'disk': 20,
        'extra_specs': specs,
        'links': [],
    }


class ClusterTest(testtools.TestCase):
    """A cloud, and a file that names it."""

    services: Mapping[str, str] = MappingProxyType({})

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fake.CloudsFile('test'))
        self.cloud = self.useFixture(
            fake.FakeCloud(services={'image': fake.GLANCE, **self.services})
        )

    def run_main(self, *args: str) -> tuple[int, str, str]:
        return run_command('cluster', *args, '--os-cloud', 'test')


class OnHostsTest(ClusterTest):
    """A cloud with hosts of a profile."""

    services = MappingProxyType({'network': fake.NEUTRON})

    def setUp(self) -> None:
        super().setUp()
        self.option('HOST_PROFILE', 'vsphere6')
        self.option('BACKEND', 'kvm')
        self.cloud.hosts(8)
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits({}))
        self.cloud.resources()

    def option(self, name: str, value: str) -> None:
        """Set an option of group cloud."""
        self.useFixture(
            fixtures.EnvironmentVariable(f'OS_CLOUD__{name}', value)
        )

    def no_room(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Have too little of something; yield arguments and the refusal."""
        self.option('MAX_RESOURCES_PER_STACK', '225')
        yield ('--configuration', 'i4'), 'max_resources_per_stack'
        yield ('--workers', '9', '--configuration', 'i20'), ''
        self.option('MAX_RESOURCES_PER_STACK', '-1')
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json={'volume_types': [kind('disk-slot-1')]},
        )
        yield ('--configuration', 'i10-pinned'), "type 'disk-slot-2, disk-"
        for name in ('Cores', 'RAMSize', 'Instances'):
            absolute_limits = {f'maxTotal{name}': 5}
            self.cloud.http.get(
                f'{fake.NOVA}/limits', json=limits(absolute_limits)
            )
            yield (), 'the quota is too small'
        self.cloud.http.get(
            f'{fake.GLANCE}/images/hvstack-hadoop', status_code=404
        )
        yield (), "image 'hvstack-hadoop'"
        self.cloud.resources()
        for fields, reason in (
            ({'status': 'queued'}, 'its status is queued'),
            ({'min_disk': 5000}, 'needs a disk of 5000 GB, and flavor hv-'),
            ({'min_ram': 2**20}, 'needs 1048576 MiB of memory, and flavor'),
        ):
            self.cloud.http.get(
                f'{fake.GLANCE}/images/hvstack-hadoop',
                json={'id': 'i1', **fields},
            )
            yield (), reason
        self.cloud.resources()
        self.cloud.pool('', '', ipv6='fd00:1::/64')
        yield (), 'it has no IPv4 subnet with'
        self.cloud.pool('10.0.0.2', '10.0.0.3')
        yield (), 'have 2 IPv4 addresses'
        self.option('NETWORK', 'absent')
        yield (), "network 'absent': the project sees no such network"


class CreateTest(OnHostsTest):
    def call(self, *args: str) -> tuple[int, str, str]:
        return self.run_main('create', 'mine', '--dry-run', *args)

    def test_dry_run(self) -> None:
        self.cloud.hosts(8)
        status, out, err = self.call(
            *('-f', 'json', '--configuration', 'i4', '--deployment', '4'),
            *('--controllers', 'separate', '--namenode-handlers', '1'),
        )
        self.assertEqual(0, status, err)
        plan = json.loads(out)
        # Of the two hosts with controllers no slot is counted.
        self.assertEqual((12, 12), (plan['workers'], plan['compute_workers']))
        self.assertEqual('separate', plan['controllers'])
        self.assertEqual('normal', plan['vnic'])
        self.assertTrue(plan['secondary_namenode'])
        self.assertEqual(
            set(),
            {request.method for request in self.cloud.http.request_history}
            - {'GET', 'POST'},
        )

    def test_refusals(self) -> None:
        for hosts, part, *args in (
            (1, 'they need 2 hosts', '--controllers', 'separate'),
            (8, 'Cannot place 9 workers', '--workers', '9'),
            (8, 'replication 8', '--replication', '8'),
            (8, 'deployment 3', '--deployment', '3'),
            (8, '--namenode-handlers 0', '--namenode-handlers', '0'),
            (
                *(8, 'Omit --readiness', '--readiness'),
                *('--controllers', 'separate'),
            ),
            (8, 'data disks of', '--configuration', 'i7-pinned'),
            (8, "'nfs' is unknown", '--configuration', 'i2-nfs'),
        ):
            self.cloud.hosts(hosts)
            status, out, err = self.call(*args)
            self.assertEqual((2, ''), (status, out), err)
            self.assertEqual(1, err.count('\n'), err)
            self.assertIn(part, err)

    def test_names(self) -> None:
        for name in ('Mine', '1st', 'my_own', f'm{41 * "y"}'):
            status, out, err = self.run_main('create', name, '--dry-run')
            self.assertEqual((2, ''), (status, out), err)
            self.assertIn(f"cluster '{name}'", err)

    def test_no_host_is_up(self) -> None:
        self.cloud.hosts(8, down=8)
        status, out, err = self.call()
        self.assertEqual((1, ''), (status, out), err)
        self.assertIn("(host profile 'vsphere6', trait ", err)
        self.assertIn("'openstack hypervisor list'", err)

    def test_no_room(self) -> None:
        for args, part in self.no_room():
            status, _, err = self.call(*args)
            self.assertEqual(2 if part else 0, status, err)
            self.assertIn(part, err)


class MadeTest(OnHostsTest):
    """``hvstack cluster create`` for good, as far as Heat's refusal."""

    def setUp(self) -> None:
        super().setUp()
        for name in (
            'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
            'cloud.keypairs.DIRECTORY',
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.{name}', self.directory / name)
            )
        http = self.cloud.http
        self.flavor_deletions = fake.take_flavors(http, 'VCPU')
        fake.take_key_pairs(http)
        http.delete(f'{fake.NOVA}/os-keypairs/mine', text='')
        http.get(f'{fake.HEAT}/stacks/mine', status_code=404)
        http.get(f'{fake.HEAT}/stacks?name=mine', json={'stacks': []})
        self.stack_creations = http.post(
            f'{fake.HEAT}/stacks',
            status_code=400,
            json={'error': {'message': 'no such image'}},
        )

    def failed(self, *args: str) -> str:
        status, out, err = self.run_main('create', 'mine', *args)
        self.assertNotEqual(0, status)
        self.assertEqual('', out)
        return err.splitlines()[-1]

    def test_what_was_made_is_taken_back(self) -> None:
        self.assertIn('no such image', self.failed())
        self.assertEqual(
            (1, 2),
            (
                self.stack_creations.call_count,
                self.flavor_deletions.call_count,
            ),
        )
        self.assertEqual([], journal.entries())

    def test_heat_has_longer_than_hvstack(self) -> None:
        """The option, 6 s a node, the option again for host keys, a margin."""
        for seconds, source, minutes in (
            ('900', 'heat', 60),
            ('7200', 'heat', 251),
            ('7200', 'console', 131),
        ):
            self.option('STACK_TIMEOUT', seconds)
            self.option('HOST_KEY_SOURCE', source)
            self.failed()
            body = self.stack_creations.last_request.json()
            self.assertEqual(7, body['parameters']['worker_count'])
            self.assertEqual(minutes, body['timeout_mins'])

    def test_no_room(self) -> None:
        """It is refused before anything is made."""
        for args, part in self.no_room():
            if part:
                self.assertIn(part, self.failed(*args))
        self.assertEqual(
            set(),
            {
                request.url
                for request in self.cloud.http.request_history
                if request.method != 'GET' and 'keystone' not in request.url
            },
        )

    def test_one_that_is_there(self) -> None:
        """Nothing of it is touched."""
        entry = journal.note('stack', {'name': 'mine'}, 'here')
        journal.hand_over([entry], 'cluster mine')
        self.assertIn("Cannot create cluster 'mine'", self.failed())
        (remaining_entry,) = journal.entries()
        self.assertEqual('cluster mine', remaining_entry.owner)
        self.assertEqual(0, self.stack_creations.call_count)

    def test_a_rollback_that_fails_hides_nothing(self) -> None:
        self.cloud.http.delete(
            re.compile(f'{re.escape(fake.NOVA)}/flavors/'), status_code=403
        )
        message = self.failed()
        self.assertIn('no such image', message)
        self.assertIn('undo changes: flavor hv-vsphere6-controller', message)
        self.assertEqual(
            {'flavor'},
            {journal_entry.kind for journal_entry in journal.entries()},
        )


class AfterTest(ClusterTest):
    """A cluster that was made: what is refused."""

    def refused(self, *args: str) -> str:
        status, out, err = self.run_main(*args)
        self.assertNotEqual(0, status)
        self.assertEqual('', out)
        self.assertEqual(1, err.count('\n'), err)
        return err

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.directory / 'taken',
            )
        )

    def note_flavor(self, scope: str) -> None:
        """Write down that its flavor was made."""
        entry = journal.note('flavor', {'name': 'f', 'id': 'f1'}, scope)
        journal.hand_over([entry], 'cluster mine')

    def test_a_name_that_no_new_cluster_can_have(self) -> None:
        """Stacks of other tools, and of the dashboard, have such names."""
        self.cloud.http.get(f'{fake.HEAT}/stacks/My_Stack', status_code=404)
        message = self.refused('show', 'My_Stack')
        self.assertIn("stack 'My_Stack', which does not exist", message)
        message = self.refused('delete', 'My_Stack')
        self.assertIn("Cannot find cluster 'My_Stack'", message)
        for name in ('My_Stack', 'a' * 42):
            message = self.refused('create', name)
            self.assertIn('at most 41 lower-case letters', message)

    def test_no_such_cluster(self) -> None:
        message = self.refused('delete', 'mine')
        self.assertIn("Cannot find cluster 'mine'", message)
        self.assertIn("'hvstack cluster list'", message)

    def test_in_another_cloud(self) -> None:
        self.note_flavor('elsewhere')
        message = self.refused('delete', 'mine')
        self.assertIn('1 of its resources: they are in another cloud', message)
        self.assertIn('--tenant-os-cloud', message)
        self.assertEqual(1, len(journal.entries()))

    def test_what_delete_would_do(self) -> None:
        conn = self.cloud.connect()
        for resource_type, name in (('flavor', 'f'), ('stack', 'mine')):
            entry = journal.note(
                resource_type, {'name': name}, connection.scope(conn)
            )
            journal.hand_over([entry], 'cluster mine')
        self.cloud.http.get(f'{fake.HEAT}/stacks/mine', status_code=404)
        status, out, err = self.run_main(
            'delete', 'mine', '--dry-run', '-f', 'json'
        )
        self.assertEqual((0, ''), (status, err))
        self.assertEqual(
            {'would delete': 'stack mine\nflavor f'}, json.loads(out)
        )
        self.assertEqual(2, len(journal.entries()))
        self.note_flavor('elsewhere')
        message = self.refused('delete', 'mine', '--dry-run')
        self.assertIn('1 of its resources: they are in another cloud', message)

    def test_delete_says_what_it_does(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._INTERVAL', 0.0)
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._SAY_SECONDS', -1)
        )
        conn = self.cloud.connect()
        data = {'name': 'mine', 'id': 's1'}
        entry = journal.note('stack', data, connection.scope(conn))
        journal.hand_over([entry], 'cluster mine')
        heat = f'{fake.HEAT}/stacks'
        stack = {
            'id': 's1',
            'stack_name': 'mine',
            'stack_status': 'DELETE_IN_PROGRESS',
        }
        self.cloud.http.get(f'{heat}/mine', json={'stack': stack})
        self.cloud.http.get(
            f'{heat}?name=mine',
            [{'json': {'stacks': [stack]}}, {'json': {'stacks': []}}],
        )
        self.cloud.http.get(
            f'{heat}/mine/s1/resources', json={'resources': 7 * [{}]}
        )
        status, out, err = self.run_main('delete', 'mine', '-f', 'json')
        self.assertEqual(0, status, err)
        self.assertEqual({'deleted': 'stack mine'}, json.loads(out))
        for part in ('stack mine ...', 'stack: 7 resources left'):
            self.assertIn(part, err)
        # A busy machine takes longer.
        self.assertRegex(err, r'mine: [0-9] s')
        self.assertEqual([], journal.entries())

    def test_a_dry_run_of_what_changes_nothing(self) -> None:
        message = self.refused('topology', 'mine', '--dry-run')
        self.assertIn('--dry-run without --refresh', message)

    def test_what_a_refresh_would_write(self) -> None:
        program = self.directory / 'ssh'
        program.write_text(
            '#!/bin/sh\nfor last; do :; done; echo "$last" >>"$0.log"\n'
            'case "$*" in *"-O check"*) exit 255;; *" -M "*) exit 0;; esac\n'
            'case $last in cat*) echo "w /rack1/ng-old";; *) echo x;; esac\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:/usr/bin:/bin'
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', self.directory / 'known'
            )
        )
        fake.serve_stack(self.cloud.http, {'c': 'hc', 'w': 'hw'})
        status, out, err = self.run_main(
            *('topology', 'mine', '--refresh', '--dry-run', '-f', 'json')
        )
        self.assertEqual((0, ''), (status, err))
        self.assertIn(
            {
                'What': 'table on w',
                'Where': 'w',
                'Found': '/rack1/ng-old',
                'Expected': '/rack1',
            },
            json.loads(out),
        )
        commands = set((self.directory / 'ssh.log').read_text().splitlines())
        self.assertEqual(
            [], [command for command in commands if '>' in command]
        )

    def test_no_workers(self) -> None:
        for count in ('0', '-1'):
            message = self.refused('scale', 'mine', '--workers', count)
            self.assertIn(f'--workers {count}', message)


class SharedHDFSTest(ClusterTest):
    """A stack with an HDFS, and a compute cluster on it."""

    services: Mapping[str, str] = MappingProxyType({'network': fake.NEUTRON})

    def setUp(self) -> None:
        super().setUp()
        for name in (
            'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
            'cloud.host_keys.DIRECTORY',
            'cloud.keypairs.DIRECTORY',
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.{name}', self.directory / name.split('.')[1]
                )
            )
        have_stack(self.cloud, 'first', 's1', FIRST)
        have_stack(self.cloud, 'second', 's2', SECOND)
        have_rules(self.cloud, 'hvstack stack s2')

    def test_a_burn_in(self) -> None:
        status, out, err = self.run_main('burn-in', 'second')
        self.assertEqual((2, ''), (status, out))
        self.assertIn("cluster 'second': it is a compute cluster", err)

    def list_logins(self, *args: str) -> set[tuple[str, str]]:
        """Refresh as a dry run; return the key of each node's login."""
        log = self.directory / 'ssh.log'
        log.unlink(missing_ok=True)
        status, out, err = self.run_main(
            *('topology', 'second', '--refresh', '--dry-run'),
            *('-f', 'json', *args),
        )
        self.assertEqual(0, status, err)
        for name in ('c', 'p', 'q0', 'q1'):
            self.assertIn(f'"table on {name}"', out)
        # A node with data has the table of its own cluster.
        self.assertNotIn('"table on w0"', out)
        commands = [line.split() for line in log.read_text().splitlines()]
        return {
            (word, argv[argv.index('-i') + 1])
            for argv in commands
            for word in argv
            if word.startswith('root@')
        }

    def serve_nodes(self, table: str) -> None:
        """Let Nova have the nodes, and ssh of all of them answer.

        :param table: topology table of each node.
        """
        program = self.directory / 'ssh'
        program.write_text(
            '#!/bin/sh\necho $* >>"$0.log"\nfor last; do :; done\n'
            'case "$*" in *"-O check"*) exit 255;; *" -M "*) exit 0;; esac\n'
            # No table is taken: the command ends with the first one.
            'case $last in mkdir*) cat >>"$0.table"; exit 9;; esac\n'
            f'case $last in cat*) echo "{table}";; *) echo x;; esac\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:/usr/bin:/bin'
            )
        )
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail',
            json={
                'servers': [
                    {'id': name, 'hostId': host}
                    for name, host in HOSTS.items()
                ]
            },
        )
        # Heat has no host key of the nodes, and their consoles are empty.
        self.cloud.http.post(
            re.compile(f'{fake.NOVA}/servers/.*/action'), json={'output': ''}
        )

    def test_a_topology(self) -> None:
        self.serve_nodes('w /rack1/ng-old')
        own = {(f'root@10.0.0.{index}', '/own') for index in (4, 5, 6)}
        namenode = 'root@10.0.0.1'
        args = ('--key', '/own')
        self.assertEqual(own | {(namenode, '/own')}, self.list_logins(*args))
        keys = self.directory / 'keypairs'
        keys.mkdir()
        (keys / 'first').touch()
        self.assertEqual(
            own | {(namenode, str(keys / 'first'))}, self.list_logins(*args)
        )
        self.assertEqual(
            own | {(namenode, '/other')},
            self.list_logins(*args, '--hdfs-key', '/other'),
        )

    def test_virtual_racks_that_scaling_kept(self) -> None:
        self.serve_nodes('10.0.0.2 /rack3\n10.0.0.3 /rack3')
        args = ('topology', 'second', '--refresh', '--key', '/own')
        status, out, err = self.run_main(*args, '--dry-run', '-f', 'json')
        self.assertEqual(0, status, err)
        expected = {row['Expected'] for row in json.loads(out)}
        self.assertEqual({'/rack3'}, expected)
        self.assertNotEqual(0, self.run_main(*args)[0])
        table = (self.directory / 'ssh.table').read_text()
        for index in range(1, 7):
            self.assertIn(f'10.0.0.{index} /rack3\n', table)
        self.assertNotIn('/rack1', table)

    def test_an_hdfs_that_a_compute_cluster_uses(self) -> None:
        conn = self.cloud.connect()
        entry = journal.note(
            'stack', {'name': 'first', 'id': 's1'}, connection.scope(conn)
        )
        journal.hand_over([entry], 'cluster first')
        for args in ((), ('--dry-run',)):
            status, out, err = self.run_main('delete', 'first', *args)
            self.assertEqual((2, ''), (status, out))
            self.assertIn('the compute clusters second use its HDFS', err)
        self.assertEqual(1, len(journal.entries()))


class NetworkTest(OnHostsTest):
    services: Mapping[str, str] = MappingProxyType({'network': fake.NEUTRON})

    def test_missing_network_past_the_switches(self) -> None:
        networks = f'{fake.NEUTRON}/networks'
        self.cloud.http.get(networks, json={'networks': []})
        self.cloud.http.get(f'{networks}/direct', status_code=404)
        args = ('create', 'mine', '--dry-run')
        self.assertEqual(0, self.run_main(*args)[0])
        status, out, err = self.run_main(*args, '--vnic', 'macvtap')
        self.assertEqual((2, ''), (status, out), err)
        self.assertIn("the network 'direct' does not exist", err)

    def test_stateless_security_group(self) -> None:
        extensions = f'{fake.NEUTRON}/extensions'
        self.cloud.http.get(extensions, json={'extensions': []})
        self.cloud.http.get(
            f'{extensions}/stateful-security-group', status_code=404
        )
        args = ('create', 'mine', '--dry-run', '--stateless-security-group')
        status, out, err = self.run_main(*args)
        self.assertEqual((2, ''), (status, out), err)
        self.assertIn('Neutron has no extension', err)
        networks = f'{fake.NEUTRON}/networks'
        self.cloud.http.get(
            networks, json={'networks': [{'id': 'n2', 'name': 'direct'}]}
        )
        self.cloud.http.get(f'{networks}/direct', status_code=404)
        status, out, err = self.run_main(*args, '--vnic', 'macvtap')
        self.assertEqual((2, ''), (status, out), err)
        self.assertIn('no security group is in force', err)


class EnvironmentTest(ClusterTest):
    services: Mapping[str, str] = MappingProxyType({'network': fake.NEUTRON})

    def setUp(self) -> None:
        super().setUp()
        self.cloud.resources()
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits(NOVA))
        self.cloud.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={
                'flavors': [
                    flavor('shared'),
                    flavor('own', **{'hw:cpu_policy': 'dedicated'}),
                    flavor('nvme', **{'pci_passthrough:alias': 'nvme:5'}),
                ]
            },
        )

    def call(self, *args: str) -> tuple[int, str, str]:
        return self.run_main('environment', '--key-name', 'key', *args)

    def test_it_is_printed(self) -> None:
        status, out, err = self.call(
            *('--worker-flavor', 'shared', '--hosts', '3'),
            *('--configuration', 'i2', '--workers', '5'),
        )
        self.assertEqual((0, ''), (status, err))
        values = yaml.safe_load(out)['parameters']
        self.assertEqual('shared', values['worker_flavor'])
        self.assertEqual('shared', values['controller_flavor'])
        self.assertEqual((5, 2), (values['worker_count'], 2))
        self.assertIn('%CONTROLLER%', values['core_site'])
        self.assertIn('<value>3</value>', values['hdfs_site'])
        self.assertEqual(2, values['deployment'])
        self.assertEqual('vsphere6', values['os_profile'])

    def test_connection_of_the_nodes(self) -> None:
        direct = {'id': 'n2', 'name': 'direct', 'subnets': ['s']}
        for name in ('direct', 'n2'):
            self.cloud.http.get(
                f'{fake.NEUTRON}/networks/{name}', json={'network': direct}
            )
        macvtap = ('--vnic', 'macvtap')
        for args, network, vnic_type in (
            ((), 'provider', None),
            (macvtap, 'direct', 'baremetal'),
            ((*macvtap, '--network', 'provider'), 'provider', 'baremetal'),
        ):
            status, out, err = self.call(
                *('--worker-flavor', 'shared', '--hosts', '2', *args)
            )
            self.assertEqual((0, ''), (status, err))
            values = yaml.safe_load(out)['parameters']
            self.assertEqual(network, values['network'])
            self.assertEqual(vnic_type, values.get('vnic_type'))

    def test_stateless_security_group(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.stateless_groups.list_reply_cidrs',
                lambda _conn, network: (f'cidr of {network}',),
            )
        )
        args = ('--worker-flavor', 'shared', '--hosts', '2')
        for options, expected in (
            ((), (None, None)),
            (
                ('--stateless-security-group',),
                (True, ['cidr of provider']),
            ),
        ):
            status, out, err = self.call(*args, *options)
            self.assertEqual((0, ''), (status, err))
            values = yaml.safe_load(out)['parameters']
            names = ('stateless_security_group', 'reply_cidrs')
            self.assertEqual(expected, tuple(map(values.get, names)))

    def have_hdfs(self) -> None:
        """Let the cloud have a stack with an HDFS, and a compute cluster."""
        have_stack(self.cloud, 'first', 's1', FIRST)
        have_stack(self.cloud, 'second', 's2', SECOND)
        self.cloud.http.get(
            f'{fake.NOVA}/servers/c',
            json={'server': {'id': 'c', 'image': {'id': 'i1'}}},
        )

    def test_a_compute_cluster(self) -> None:
        self.have_hdfs()
        status, out, err = self.call(
            *('--worker-flavor', 'shared', '--hosts', '1'),
            *('--hdfs-of', 'first', '--compute-per-host', '3'),
        )
        self.assertEqual(0, status, err)
        self.assertIn('topology NAME --refresh', err)
        values = yaml.safe_load(out)['parameters']
        self.assertEqual((3, 3), (values['compute_count'], 3))
        self.assertEqual('10.0.0.1', values['hdfs_address'])
        self.assertEqual('s1', values['hdfs_stack'])
        self.assertFalse(values['secondary_namenode'])
        self.assertIn('dfs.replication</name><value>2<', values['hdfs_site'])

    def test_compute_clusters_that_are_refused(self) -> None:
        self.have_hdfs()
        args = ('--worker-flavor', 'shared', '--hosts', '1', '--hdfs-of')
        for part, *options in (
            ('--workers with', 'first', '--workers', '2'),
            ('--deployment with', 'first', '--deployment', '3'),
            ('separate with', 'first', '--controllers', 'separate'),
            ('--controller-slots with', 'first', '--controller-slots', '1'),
            ('without disk pinning', 'first', '--configuration', 'i2-pinned'),
            ('replication 3', 'first', '--replication', '3'),
            ('Omit --readiness', 'first', '--readiness'),
            ('compute cluster itself', 'second'),
            ('Use --node-groups', 'first', '--no-node-groups'),
            ('the quota is too small', 'first', '--compute-per-host', '30'),
        ):
            message = self.refused(*args, *options)
            self.assertIn(part.lower(), message.lower())

    def test_profiles(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        parameter_sets = [
            yaml.safe_load(self.call(*args, *profile_args)[1])['parameters']
            for profile_args in (
                (),
                ('--tuning', 'vsan', '--os-profile', 'amd'),
            )
        ]
        self.assertEqual(
            ['hvstack', 'vsan'],
            [parameters['tuning'] for parameters in parameter_sets],
        )
        self.assertNotEqual(
            *(parameters['mapred_site'] for parameters in parameter_sets)
        )
        self.assertIn('os_profile=amd\n', parameter_sets[1]['node_setup'])

    def test_handlers(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '2')
        _, out, _ = self.call(*args, '--namenode-handlers', '1')
        self.assertIn(
            'dfs.namenode.handler.count</name><value>1<',
            yaml.safe_load(out)['parameters']['hdfs_site'],
        )
        self.assertIn(
            '--namenode-handlers 0',
            self.refused(*args, '--namenode-handlers', '0'),
        )

    def test_without_node_groups(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '2')
        _, out, _ = self.call(*args, '--no-node-groups')
        values = yaml.safe_load(out)['parameters']
        self.assertFalse(values['node_groups'])
        self.assertNotIn('WithNodeGroup', values['hdfs_site'])

    def test_gateway(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '3', '--gateway')
        values = yaml.safe_load(self.call(*args)[1])['parameters']
        self.assertEqual(
            (True, 2), (values['gateway'], values['worker_count'])
        )
        self.assertIn('Use 1 to 2', self.refused(*args, '--workers', '3'))

    def test_readiness(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '2')
        for extra_args in ((), ('--readiness',)):
            values = yaml.safe_load(self.call(*args, *extra_args)[1])[
                'parameters'
            ]
            self.assertIs(bool(extra_args), values['readiness'])

    def test_it_is_written(self) -> None:
        path = self.directory / 'mine.yaml'
        status, out, err = self.call(
            *(str(path), '--worker-flavor', 'own', '--hosts', '2'),
            *('--configuration', 'i1-dedicated', '--controllers', 'separate'),
        )
        self.assertEqual((0, '', ''), (status, out, err))
        values = yaml.safe_load(path.read_text())['parameters']
        self.assertEqual('separate', values['controllers'])
        self.assertEqual('dedicated', values['cpu_policy'])

    def test_resources_that_do_not_exist(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        for option, name, remedy in (
            ('--image', 'debian', 'openstack image list'),
            ('--network', 'lan', '--network'),
            ('--key-name', 'other', 'openstack keypair list'),
            ('--worker-flavor', 'm1.tiny', 'openstack flavor list'),
        ):
            message = self.refused(*args, option, name)
            self.assertIn(f"'{name}'", message)
            self.assertIn(remedy, message)

    def test_a_network_that_members_cannot_use(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        for fields, reason in (
            ({'router:external': True}, 'only administrators'),
            ({'router:external': True, 'shared': True}, ''),
            ({'subnets': []}, 'no subnet'),
        ):
            self.cloud.resources(**fields)
            if reason:
                message = self.refused(*args, '--network', 'provider')
                self.assertIn(reason, message)
            else:
                self.assertEqual(0, self.call(*args)[0])

    def test_a_network_with_too_few_addresses(self) -> None:
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        self.cloud.resources()
        self.cloud.pool('10.252.0.100', '10.252.0.101')
        message = self.refused(*args, '--network', 'provider')
        self.assertIn('have 2 IPv4 addresses, and the cluster has', message)
        # The environment file network-new.yaml creates another network.
        status, _, err = self.call(*args)
        self.assertEqual((0, 1), (status, err.count('\n')))
        self.assertIn('have 2 IPv4 addresses', err)
        self.cloud.pool('10.252.0.100', '10.252.0.250')
        self.assertEqual(0, self.call(*args, '--network', 'provider')[0])

    def test_a_network_whose_first_addresses_are_ipv6(self) -> None:
        """Neutron sorts the addresses of a port as texts."""
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        self.cloud.resources()
        for first, last, ipv6, reason in (
            ('198.51.100.9', '198.51.100.250', '2001:db8::/64', ''),
            ('10.0.0.2', '10.0.0.250', 'fd00:1::/64', ''),
            ('20.0.0.2', '20.0.0.250', '2001:db8::/64', ''),
            ('203.0.113.9', '203.0.113.250', 'fd00:1::/64', ''),
            (
                *('203.0.113.9', '203.0.113.250', '2001:db8::/64'),
                'a port has an address of 2001:db8::/64 before its IPv4',
            ),
            (
                *('45.0.0.2', '45.0.0.250', '2001:db8::/64'),
                'a port has an address of 2001:db8::/64 before its IPv4',
            ),
            ('', '', 'fd00:1::/64', 'it has no IPv4 subnet with'),
        ):
            self.cloud.pool(first, last, ipv6=ipv6)
            if reason:
                message = self.refused(*args, '--network', 'provider')
                self.assertIn(reason, message)
            else:
                status, _, err = self.call(*args, '--network', 'provider')
                self.assertEqual((0, ''), (status, err))

    def test_a_network_without_port_security(self) -> None:
        """Neutron would reject ports with the cluster's security group."""
        self.cloud.resources(port_security_enabled=False)
        message = self.refused(
            *('--worker-flavor', 'shared', '--hosts', '3'),
            *('--network', 'provider'),
        )
        self.assertIn('no port security', message)

    def test_a_network_past_the_switches_without_port_security(self) -> None:
        """No port has a security group, which Neutron would reject."""
        network = {'id': 'n1', 'name': 'provider', 'subnets': ['s1']}
        args = (
            *('--worker-flavor', 'shared', '--hosts', '3'),
            *('--network', 'provider', '--vnic', 'macvtap'),
        )
        for fields, expected in (
            ({}, None),
            ({'port_security_enabled': True}, None),
            ({'port_security_enabled': False}, False),
        ):
            self.cloud.resources(**network, **fields)
            status, out, err = self.call(*args)
            self.assertEqual((0, ''), (status, err))
            values = yaml.safe_load(out)['parameters']
            self.assertIs(expected, values.get('port_security'))

    def test_the_network_of_the_configuration_need_not_exist(self) -> None:
        """The environment file network-new.yaml creates another one."""
        self.cloud.http.get(
            f'{fake.NEUTRON}/networks/provider', status_code=404
        )
        status, out, err = self.call(
            '--worker-flavor', 'shared', '--hosts', '3'
        )
        self.assertEqual((0, 1), (status, err.count('\n')))
        self.assertIn("'provider'", err)
        self.assertIn('network-new.yaml', err)
        self.assertEqual('key', yaml.safe_load(out)['parameters']['key_name'])

    def test_a_credential_that_cannot_create_the_stack(self) -> None:
        """The user can create it with a password."""
        tokens = f'{fake.KEYSTONE}/auth/tokens'
        token = requests.post(tokens, timeout=10).json()
        token['token']['application_credential'] = {'id': 'a1'}
        self.cloud.http.post(
            tokens, json=token, headers={'X-Subject-Token': 'token-of-test'}
        )
        self.cloud.http.post(
            f'{fake.KEYSTONE}/OS-TRUST/trusts', status_code=403, json={}
        )
        status, out, err = self.call(
            '--worker-flavor', 'shared', '--hosts', '3'
        )
        self.assertEqual((0, 1), (status, err.count('\n')))
        self.assertIn('application credential', err)
        self.assertIn('worker_flavor', out)

    def test_a_controller_of_several_slots(self) -> None:
        """It comes first, and its user is told what it waits for."""
        args = ('--worker-flavor', 'shared', '--hosts', '3')
        for slots in (1, 2):
            status, out, err = self.call(
                *(*args, '--configuration', 'i2'),
                *('--controller-slots', str(slots)),
            )
            self.assertEqual(0, status, err)
            values = yaml.safe_load(out)['parameters']
            self.assertEqual(slots > 1, values.get('controllers_first', False))
            self.assertEqual(slots > 1, 'topology NAME --refresh' in err)

    def test_a_cluster_that_needs_more_than_an_hour(self) -> None:
        """The option of Heat's client is that of hvstack's own request."""
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_CLOUD__MAX_RESOURCES_PER_STACK', '-1'
            )
        )
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits({}))
        self.cloud.pool('10.0.0.1', '10.0.9.1')
        args = ('--worker-flavor', 'shared', '--configuration', 'i20')
        for hosts, minutes in (('9', 0), ('32', 105)):
            status, out, err = self.call(*args, '--hosts', hosts)
            self.assertEqual(0, status, err)
            self.assertIn('key_name: key', out)
            self.assertEqual(
                minutes > 0,
                f"'openstack stack create --timeout {minutes}'" in err,
                err,
            )
            self.assertEqual(minutes > 0, '--timeout' in err, err)

    def refused(self, *args: str) -> str:
        status, out, err = self.call(*args)
        self.assertEqual((2, ''), (status, out))
        self.assertEqual(1, err.count('\n'), err)
        return err

    def test_hosts_that_controllers_fill(self) -> None:
        """No replica is on them."""
        common_args = ('--worker-flavor', 'shared', '--hosts', '3')
        for slots, controllers, replicas in (
            ('0', 'combined', 3),
            ('1', 'combined', 3),
            ('2', 'combined', 2),
            # One of each host's two slots.
            ('2', 'separate', 3),
            ('4', 'separate', 1),
        ):
            args = (
                *(*common_args, '--configuration', 'i2', '--controller-slots'),
                *(slots, '--controllers', controllers),
            )
            status, out, err = self.call(*args)
            self.assertEqual(0, status, err)
            self.assertIn(
                f'<name>dfs.replication</name><value>{replicas}<',
                yaml.safe_load(out)['parameters']['hdfs_site'],
            )
            message = self.refused(*args, '--replication', str(replicas + 1))
            self.assertIn(f'Cannot use replication {replicas + 1}', message)

    def test_volume_types(self) -> None:
        """Each of them must be there."""
        volume_types = [kind(f'disk-slot-{slot}') for slot in (1, 2)]
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json=lambda *_: {'volume_types': volume_types},
        )
        self.cloud.http.get(f'{fake.CINDER}/limits', json=limits({}))
        args = (
            *('--worker-flavor', 'shared', '--hosts', '2'),
            *('--configuration', 'i2-pinned'),
        )
        self.assertEqual(0, self.call(*args)[0])
        volume_types.pop()
        self.assertIn(
            "volume type 'disk-slot-2': Cinder has disk-slot-1.",
            self.refused(*args),
        )

    def test_disks_that_are_passed_through(self) -> None:
        """They come with the flavor: Cinder need not even exist."""
        status, out, err = self.call(
            *('--worker-flavor', 'nvme', '--hosts', '2'),
            *('--configuration', 'i2-pinned'),
        )
        self.assertEqual((0, ''), (status, err))
        values = yaml.safe_load(out)['parameters']
        self.assertEqual([[], []], values['volume_types'])
        self.assertNotIn('local_volumes', values)

    def test_refusals(self) -> None:
        for part, *args in (
            ('Cannot place 31 workers', '--hosts', '8', '--workers', '31'),
            ('replication 4', '--hosts', '3', '--replication', '4'),
            (
                "Cannot find flavor 'no'",
                '--hosts',
                '3',
                '--worker-flavor',
                'no',
            ),
            ('--hosts 0', '--hosts', '0'),
            (
                '--controller-slots -1',
                '--hosts',
                '2',
                '--controller-slots',
                '-1',
            ),
            ('--disks 0', '--hosts', '2', '--disks', '0'),
            ('--disk-gb 0', '--hosts', '2', '--disk-gb', '0'),
            (
                *('volumes of 1 GB', '--hosts', '2', '--disk-gb', '1'),
                *('--configuration', 'i2-ceph'),
            ),
            (
                '--compute-per-host 0',
                '--hosts',
                '2',
                '--compute-per-host',
                '0',
            ),
            (
                "flavor 'shared'",
                '--hosts',
                '2',
                '--configuration',
                'dedicated',
            ),
            ("'nfs' is unknown", '--hosts', '2', '--configuration', 'i2-nfs'),
            ('the quota is too small', '--hosts', '9'),
            ('max_resources_per_stack', '--hosts', '300'),
            ('deployment 2', '--hosts', '2', '--deployment', '2'),
            (
                *('Omit --readiness', '--hosts', '2', '--readiness'),
                *('--controllers', 'separate'),
            ),
            (
                *("flavor 'shared'", '--hosts', '2'),
                *('--configuration', 'dedicated', '--deployment', '3'),
                *('--compute-flavor', 'own'),
            ),
        ):
            if '--worker-flavor' not in args:
                args += ['--worker-flavor', 'shared']
            self.assertIn(part, self.refused(*args))
