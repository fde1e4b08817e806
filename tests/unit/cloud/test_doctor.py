# SPDX-License-Identifier: Apache-2.0
"""A cloud is inspected before anything is made on it."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import fixtures
import testtools
import yaml
from keystoneauth1 import fixture as ksa

from hvstack import errors, host_profiles
from hvstack.cloud import connection, doctor, host_checks, signal_check
from hvstack.cloud.connection import access
from hvstack.cloud.diagnosis import (
    FAULT,
    NOTE,
    OK,
    UNCHECKED,
    CloudNeeds,
    Diagnosis,
)
from hvstack.model import host_files, neutron_conf
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import compute_host_settings
from tests.unit.cloud import fake
from tests.unit.lab.written import LabProfiles

UUID = '11111111-2222-3333-4444-555555555555'


def quota(limit: int, used: int = 0) -> dict[str, int]:
    return {'limit': limit, 'in_use': used, 'used': used}


def volume_service(host: str, state: str = 'up') -> dict[str, str]:
    """Return a volume service as Cinder lists it."""
    return {
        'binary': 'cinder-volume',
        'host': host,
        'state': state,
        'status': 'enabled',
    }


class DoctorTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.inventories: dict[str, Any] = {
            'VCPU': {'total': 40, 'reserved': 0, 'allocation_ratio': 1.0},
            'MEMORY_MB': {
                'total': 262144,
                'reserved': 8192,
                'allocation_ratio': 1.0,
            },
        }
        self.hypervisors: list[dict[str, Any]] = [
            {
                'id': UUID,
                'hypervisor_hostname': 'compute1',
                'hypervisor_type': 'QEMU',
                'hypervisor_version': 7002000,
                'state': 'up',
                'status': 'enabled',
            }
        ]
        self.volume_services = [
            volume_service(f'compute1@disk-slot-{number}')
            for number in range(1, 21)
        ]
        self.nova = {
            name: quota(10000)
            for name in ('instances', 'cores', 'ram', 'key_pairs')
        } | {
            name: quota(100)
            for name in ('server_groups', 'server_group_members')
        }
        http = self.cloud.http
        http.get(
            re.compile(f'({fake.NOVA}|{fake.PLACEMENT}|{fake.HEAT})/.'),
            status_code=404,
        )
        http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json=lambda *_: {'hypervisors': self.hypervisors},
        )
        provider = f'{fake.PLACEMENT}/resource_providers'
        http.get(
            provider,
            json={
                'resource_providers': [
                    {
                        'name': 'compute1',
                        'uuid': UUID,
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )
        self.cloud.take_raw_images_only()
        http.get(
            f'{provider}/{UUID}/inventories',
            json=lambda *_: {'inventories': self.inventories},
        )
        self.consumers: dict[str, Any] = {}
        http.get(
            f'{provider}/{UUID}/allocations',
            json=lambda *_: {'allocations': self.consumers},
        )
        http.get(
            f'{fake.HEAT}/template_versions',
            json={'template_versions': [{'version': 'old.2013-05-23'}]},
        )
        http.get(
            f'{fake.CINDER}/os-services',
            json=lambda *_: {'services': self.volume_services},
        )
        http.get(
            f'{fake.NOVA}/os-quota-sets/p1/detail',
            json=lambda *_: {'quota_set': self.nova},
        )

    def request(
        self,
        profile: HostProfile,
        label: str,
        controllers: int = 1,
        workers: int = 31,
    ) -> CloudNeeds:
        """Return the request for a cluster."""
        configuration = parse(label)
        return CloudNeeds(
            profile=profile,
            configuration=configuration,
            nodes=(
                (derive_flavor(profile, configuration), workers),
                (
                    derive_flavor(profile, configuration, 'controller'),
                    controllers,
                ),
            ),
            image='hvstack-hadoop',
            network='provider',
        )

    def examine(
        self,
        label: str = 'i1',
        controllers: int = 1,
        zone: str = '',
        workers: int = 31,
        **fields: Any,
    ) -> dict[str, Diagnosis]:
        """Return findings by check.

        :param fields: fields of the host profile.
        """
        profile = replace(host_profiles.load('vsphere6'), **fields)
        request = self.request(profile, label, controllers, workers)
        request = replace(request, zone=zone)
        findings = doctor.examine(self.cloud.connect(), request)
        for finding in findings:
            self.assertNotIn('\n', finding.detail + finding.remedy)
            if finding.state not in (OK, NOTE):
                self.assertNotEqual('', finding.remedy, finding)
        return {finding.check: finding for finding in findings}

    def test_good_host(self) -> None:
        findings = self.examine()
        for check in ('ratios', 'VCPU', 'memory'):
            self.assertEqual(OK, findings[f'{check} of compute1'].state)
        self.assertEqual(OK, findings['compute services'].state)
        self.assertEqual(OK, findings['compute API'].state)

    def test_private_ca(self) -> None:
        """A node knows only the CAs of the image."""
        profile = host_profiles.load('vsphere6')
        for scheme, tls, sends_host_keys, expected in (
            ('https', {'https_cacert': '/ca.pem'}, True, 'by /ca.pem'),
            ('https', {'https_insecure': True}, True, 'does not verify'),
            ('https', {'https_cacert': '/ca.pem'}, False, ''),
            ('https', {}, True, ''),
            ('http', {'https_cacert': '/ca.pem'}, True, ''),
        ):
            services = {'cloudformation': f'{scheme}://heat-cfn.test/v1'}
            request = CloudNeeds(
                profile,
                parse('i1'),
                nodes=(),
                image='hvstack-hadoop',
                network='provider',
                sends_host_keys=sends_host_keys,
            )
            with fake.FakeCloud(services=services):
                conn = connection.connect(
                    credential={**fake.CREDENTIAL, **tls}
                )
                notes = list(signal_check.host_keys(conn, request))
            self.assertEqual(bool(expected), bool(notes))
            for note in notes:
                self.assertEqual(NOTE, note.state)
                self.assertIn(expected, note.detail)
                self.assertIn('https://heat-cfn.test/v1', note.detail)
                self.assertIn('host_key_source = console', note.remedy)

    def test_hosts_that_are_down(self) -> None:
        """The last update shows whether a service has started."""
        for name, state, status in (
            ('compute2', 'down', 'enabled'),
            ('compute3', 'up', 'disabled'),
        ):
            self.hypervisors.append(
                self.hypervisors[0]
                | {
                    'id': f'u-{name}',
                    'hypervisor_hostname': f'{name}.example.com',
                    'service': {'id': 1, 'host': name},
                    'state': state,
                    'status': status,
                }
            )
        for services, detail in (
            (
                {'status_code': 403},
                '1 of 3 hosts up; down: compute2.example.com; disabled: '
                'compute3.example.com',
            ),
            (
                {
                    'json': {
                        'services': [
                            {
                                'id': 's2',
                                'host': 'compute2',
                                'binary': 'nova-compute',
                                'updated_at': '2026-11-26T04:12:33.000000',
                            }
                        ]
                    }
                },
                '1 of 3 hosts up; down: compute2.example.com (last update '
                '2026-11-26 04:12:33 UTC); disabled: compute3.example.com',
            ),
        ):
            self.cloud.http.get(f'{fake.NOVA}/os-services', **services)
            finding = self.examine()['compute services']
            self.assertEqual((FAULT, detail), (finding.state, finding.detail))
            self.assertIn('wait for the next report', finding.remedy)
            self.assertIn('service set --enable', finding.remedy)

    def test_hosts_that_no_node_can_be_on(self) -> None:
        """Of hundreds of hosts, some are always disabled or down."""
        self.hypervisors.append(
            self.hypervisors[0]
            | {
                'id': 'u2',
                'hypervisor_hostname': 'compute2',
                'status': 'disabled',
            }
        )
        self.cloud.http.get(f'{fake.NOVA}/os-services', status_code=403)
        traits = {'worker': 'CUSTOM_W', 'controller': 'CUSTOM_C'}
        finding = self.examine(traits=traits)['compute services']
        self.assertEqual(
            (OK, '1 of 1 hosts up; 1 of 1 other hosts not up'),
            (finding.state, finding.detail),
        )
        # Controllers can be on all hosts.
        finding = self.examine(traits={'worker': 'CUSTOM_W'})[
            'compute services'
        ]
        self.assertEqual(FAULT, finding.state)

    def test_compute_api(self) -> None:
        """Nova's extra specs are checked from 2.86 on, as in Victoria."""
        version = {
            'id': 'v2.1',
            'status': 'CURRENT',
            'min_version': '2.1',
            'links': [{'rel': 'self', 'href': fake.NOVA}],
        }
        for newest, state in (('2.86', OK), ('2.85', FAULT)):
            self.cloud.http.get(
                fake.NOVA, json={'version': {**version, 'version': newest}}
            )
            self.assertEqual(state, self.examine()['compute API'].state)

    def test_ratio(self) -> None:
        self.inventories['VCPU']['allocation_ratio'] = 4.0
        finding = self.examine()['ratios of compute1']
        self.assertEqual(FAULT, finding.state)
        self.assertEqual('VCPU 4', finding.detail)
        self.assertIn('initial_cpu_allocation_ratio = 1.0', finding.nova_conf)

    def test_no_dedicated_cpus(self) -> None:
        findings = self.examine('i2-dedicated')
        self.assertEqual(FAULT, findings['PCPU of compute1'].state)
        self.assertIn(
            'cpu_dedicated_set = 0-39', findings['PCPU of compute1'].nova_conf
        )
        self.assertIn('hugepages=123392,', findings['large pages'].remedy)
        self.assertIn('61696 in cell 1', findings['large pages'].remedy)

    def test_too_few_dedicated_cpus(self) -> None:
        self.inventories['PCPU'] = {
            'total': 36,
            'reserved': 0,
            'allocation_ratio': 1.0,
        }
        for label, state in (('i3-dedicated', OK), ('i2-dedicated', FAULT)):
            finding = self.examine(label)['PCPU of compute1']
            self.assertEqual(state, finding.state, finding)

    def test_cpus_that_are_reserved(self) -> None:
        """Placement gives guests none of reserved_host_cpus."""
        for total, state in ((42, FAULT), (44, OK)):
            self.inventories['VCPU'] |= {'total': total, 'reserved': 4}
            finding = self.examine()['VCPU of compute1']
            self.assertEqual(state, finding.state, finding)
        self.inventories['VCPU']['total'] = 40
        finding = self.examine()['VCPU of compute1']
        self.assertEqual(
            'VCPU 36 (40, of which 4 reserved) of 40 that the workers need',
            finding.detail,
        )
        self.assertIn('reserved_host_cpus', finding.remedy)

    def test_ratio_of_the_configuration(self) -> None:
        """A sweep sets it: the CPUs of the host are enough."""
        for label in ('i2-c2', 'i3-c1.2'):
            finding = self.examine(label)['VCPU of compute1']
            self.assertEqual(OK, finding.state, finding)

    def test_too_much_reserved(self) -> None:
        self.inventories['MEMORY_MB']['reserved'] = 65536
        finding = self.examine()['memory of compute1']
        self.assertEqual(FAULT, finding.state)
        self.assertIn('reserved_host_memory_mb = 15360', finding.nova_conf)

    def test_memory_that_nova_reports(self) -> None:
        """The kernel keeps some: what is reserved follows from its total."""
        self.inventories['MEMORY_MB'] |= {'total': 257500, 'reserved': 15360}
        finding = self.examine()['memory of compute1']
        self.assertEqual(FAULT, finding.state)
        self.assertIn('reserved_host_memory_mb = 10716', finding.nova_conf)
        self.inventories['MEMORY_MB']['reserved'] = 10716
        self.assertEqual(OK, self.examine()['memory of compute1'].state)
        self.inventories['MEMORY_MB'] |= {'total': 131072, 'reserved': 0}
        finding = self.examine()['memory of compute1']
        self.assertEqual(FAULT, finding.state)
        self.assertEqual('', finding.nova_conf)
        self.assertIn('host detect', finding.remedy)

    def test_quota(self) -> None:
        self.assertEqual(FAULT, self.examine()['quotas of nova'].state)
        self.nova['ram'] = quota(-1)
        self.assertEqual(OK, self.examine()['quotas of nova'].state)
        self.nova['server_group_members'] = quota(10)
        finding = self.examine()['quotas of nova']
        self.assertEqual(
            'server_group_members: 31 needed, 10 less 0 used', finding.detail
        )
        self.assertIn('--server-group-members 31', finding.remedy)

    def test_limits_in_keystone(self) -> None:
        """Nova counts Placement's classes, and reports 0 without a limit."""
        self.nova |= {
            'instances': quota(40),
            'cores': quota(0),
            'ram': quota(0),
            'server_groups': quota(0),
        }
        service = next(
            item['id']
            for item in access(self.cloud.connect()).service_catalog.catalog
            if item['type'] == 'compute'
        )
        http = self.cloud.http
        http.get(
            f'{fake.KEYSTONE}/registered_limits',
            json={
                'registered_limits': [
                    {
                        'service_id': service,
                        'region_id': None,
                        'resource_name': name,
                        'default_limit': limit,
                    }
                    for name, limit in (('servers', 40), ('class:PCPU', 9))
                ]
            },
        )
        http.get(f'{fake.KEYSTONE}/limits', json={'limits': []})
        findings = self.examine()
        self.assertEqual(OK, findings['quotas of nova'].state)
        self.assertIn('class:VCPU', findings['limits in Keystone'].detail)
        finding = self.examine('i1-dedicated')['quotas of nova']
        self.assertRegex(finding.detail, '^class:PCPU: [0-9]+ needed, 9 less')
        self.assertRegex(
            finding.remedy,
            f"^'openstack limit create --project PROJECT --service {service} "
            "--resource-limit [0-9]+ class:PCPU'$",
        )

    def test_server_groups(self) -> None:
        """One, one for each slot of pinned disks, one for controllers."""
        for label, controllers, groups, members in (
            ('i1', 1, 1, 31),
            ('i4', 2, 2, 31),
            ('i4-pinned', 2, 5, 8),
        ):
            self.nova |= {
                'server_groups': quota(groups - 1),
                'server_group_members': quota(members - 1),
            }
            finding = self.examine(label, controllers)['quotas of nova']
            self.assertIn(f'server_groups: {groups} needed', finding.detail)
            self.assertIn(
                f'server_group_members: {members} needed', finding.detail
            )

    def test_what_cannot_be_seen_is_never_ok(self) -> None:
        findings = self.examine()
        for check in (
            "Nova's filters",
            'nova.conf that overwrites ratios',
            'network',
            'image',
        ):
            self.assertEqual(UNCHECKED, findings[check].state)

    def test_refused_is_worse_than_hidden(self) -> None:
        """Only what no API shows leaves the cloud ready."""
        findings = self.examine()
        for check in ("Nova's filters", 'nova.conf that overwrites ratios'):
            self.assertFalse(findings[check].bad, check)
        for check in ('network', 'image'):
            self.assertTrue(findings[check].bad, check)
            self.assertIn('registered', findings[check].remedy)

    def test_external_network(self) -> None:
        for roles, state in ((('member',), FAULT), (('admin',), OK)):
            self.use_images_and_networks(roles, **{'router:external': True})
            finding = self.examine()['network']
            self.assertEqual(state, finding.state)
            self.assertIn('only administrators', finding.detail)
            if state == FAULT:
                self.assertIn('network-new.yaml', finding.remedy)

    def use_images_and_networks(
        self, roles: tuple[str, ...] = (), **network: object
    ) -> None:
        """Use a cloud in which Glance and Neutron alone have resources."""
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON},
                roles=roles,
            )
        )
        self.cloud.http.get(
            re.compile(f'({fake.NOVA}|{fake.PLACEMENT}|{fake.HEAT})/.'),
            status_code=404,
        )
        self.cloud.resources(**network)

    def test_network_whose_first_addresses_are_ipv6(self) -> None:
        self.use_images_and_networks()
        self.cloud.pool('45.0.0.2', '45.0.0.250', ipv6='2001:db8::/64')
        finding = self.examine()['network']
        self.assertEqual('fault', finding.state)
        self.assertIn('2001:db8::/64 before its IPv4', finding.detail)
        self.assertIn('without IPv6 subnets', finding.remedy)

    def test_network_without_port_security(self) -> None:
        self.use_images_and_networks(port_security_enabled=False)
        finding = self.examine()['network']
        self.assertEqual(FAULT, finding.state)
        self.assertIn('it has no port security', finding.detail)
        self.assertIn('--enable-port-security', finding.remedy)
        self.use_images_and_networks(port_security_enabled=True)
        self.assertEqual(OK, self.examine()['network'].state)

    def test_network_without_dhcp(self) -> None:
        self.use_images_and_networks()
        for enable_dhcp, is_noted in ((False, True), (True, False)):
            self.cloud.pool(
                '10.252.0.2', '10.252.9.9', enable_dhcp=enable_dhcp
            )
            self.assertEqual(is_noted, 'DHCP' in self.examine())

    def test_network_without_jumbo_frames(self) -> None:
        for mtu, is_noted in ((1500, True), (1442, True), (8942, False)):
            self.use_images_and_networks(mtu=mtu)
            finding = self.examine().get('MTU of the network')
            self.assertEqual(is_noted, finding is not None, mtu)

    def test_mtu_is_that_of_the_snippet(self) -> None:
        self.use_images_and_networks(mtu=neutron_conf.STANDARD_MTU)
        findings = self.examine()
        finding = findings['MTU of the network']
        [option] = {
            option.value
            for option in neutron_conf.list_neutron_options()
            if 'mtu' in option.name
        }
        self.assertIn(f'jumbo frames of {option} bytes', finding.detail)
        self.assertIn('--file neutron', finding.remedy)

    def test_ports_are_those_of_the_snippet(self) -> None:
        self.use_images_and_networks()
        self.cloud.http.get(
            f'{fake.NOVA}/os-quota-sets/p1/detail',
            json={'quota_set': self.nova},
        )
        self.cloud.http.get(
            f'{fake.NEUTRON}/quotas/p1/details.json',
            json={'quota': {'port': quota(0), 'security_group': quota(0)}},
        )
        needed = neutron_conf.count_quotas(32)
        self.assertEqual(
            '; '.join(
                f'{name}: {count} needed, 0 less 0 used'
                for name, count in needed.items()
            ),
            self.examine()['quotas of neutron'].detail,
        )

    def test_network_with_a_qos_policy(self) -> None:
        self.use_images_and_networks(qos_policy_id='q1')
        self.cloud.http.get(
            f'{fake.NEUTRON}/qos/policies/q1',
            json={
                'policy': {
                    'id': 'q1',
                    'name': 'gold',
                    'rules': [{'type': 'bandwidth_limit', 'max_kbps': 9}],
                }
            },
        )
        finding = self.examine()['QoS of the network']
        self.assertEqual(NOTE, finding.state)
        self.assertIn(
            'provider has QoS policy gold: egress at most 9 kbit/s: ',
            finding.detail,
        )

    def test_network_with_too_few_addresses(self) -> None:
        """31 workers and a controller do not fit into 31 addresses."""
        self.use_images_and_networks()
        for last, state in ((130, FAULT), (131, OK)):
            self.cloud.pool('10.252.0.100', f'10.252.0.{last}')
            self.assertEqual(state, self.examine()['network'].state)

    def test_image_that_is_too_large_for_a_flavor(self) -> None:
        """The smallest flavor counts, and Nova compares the memory, too."""
        self.use_images_and_networks()
        url = f'{fake.GLANCE}/images/hvstack-hadoop'
        image = {'id': 'i1', 'status': 'active', 'hvstack_digest': 'a'}
        profile = host_profiles.load('vsphere6')
        disks = [
            derive_flavor(profile, parse('i1'), role).disk
            for role in ('worker', 'controller')
        ]
        for fields, part in (
            ({}, ''),
            ({'min_disk': min(disks)}, ''),
            ({'min_disk': max(disks) + 1}, 'needs a disk of'),
            ({'min_ram': 2**20}, 'needs 1048576 MiB of memory'),
        ):
            self.cloud.http.get(url, json={**image, **fields})
            finding = self.examine()['image']
            self.assertEqual(FAULT if part else OK, finding.state, fields)
            self.assertIn(part, finding.detail)

    def test_image_that_hvstack_did_not_upload(self) -> None:
        self.use_images_and_networks()
        url = f'{fake.GLANCE}/images/hvstack-hadoop'
        image = {'id': 'i1', 'name': 'hvstack-hadoop', 'status': 'active'}
        self.cloud.http.get(url, json=image)
        finding = self.examine()['content of the image']
        self.assertEqual((NOTE, False), (finding.state, finding.bad))
        self.assertIn('check-image', finding.remedy)
        self.cloud.http.get(url, json={**image, 'hvstack_digest': 'a'})
        findings = self.examine()
        self.assertEqual(OK, findings['image'].state)
        self.assertNotIn('content of the image', findings)

    def test_remedies_need_no_plugin_of_the_openstack_client(self) -> None:
        self.inventories['VCPU']['allocation_ratio'] = 4.0
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={'resource_providers': []},
        )
        findings = self.examine(traits={'worker': 'CUSTOM_HADOOP'})
        hosts = findings["workers' hosts"]
        self.assertEqual(FAULT, hosts.state)
        text = hosts.remedy.split('hvstack.yaml: ')[1]
        file = yaml.safe_load(text.rpartition(', then')[0])
        self.assertEqual(
            ['CUSTOM_HADOOP'], file['providers'][0]['traits']['additional']
        )
        self.assertIn('nova-compute', self.examine()["workers' hosts"].remedy)
        for finding in findings.values():
            self.assertNotIn('openstack resource provider', finding.remedy)
            self.assertNotIn('openstack trait', finding.remedy)

    def test_trait_of_a_storage(self) -> None:
        """Workers can be on no other hosts, whose ratios do not matter."""
        self.inventories['VCPU']['allocation_ratio'] = 4.0
        self.cloud.give_trait('CUSTOM_L')
        findings = self.examine(traits={'local': 'CUSTOM_L'})
        hosts = findings["workers' hosts"]
        self.assertEqual(
            (FAULT, '0 with trait CUSTOM_L'), (hosts.state, hosts.detail)
        )
        self.assertNotIn('ratios of compute1', findings)
        traits = {'worker': 'CUSTOM_W', 'local': 'CUSTOM_L'}
        self.cloud.give_trait('CUSTOM_W,CUSTOM_L')
        hosts = self.examine(traits=traits)["workers' hosts"]
        self.assertIn('additional: [CUSTOM_W, CUSTOM_L]', hosts.remedy)
        findings = self.examine('i1-ceph', traits={'local': 'CUSTOM_L'})
        self.assertIn('ratios of compute1', findings)

    def test_member(self) -> None:
        for path in (
            f'{fake.NOVA}/os-hypervisors/detail',
            f'{fake.PLACEMENT}/resource_providers',
        ):
            self.cloud.http.get(path, status_code=403)
        findings = self.examine()
        self.assertEqual(FAULT, findings['rights'].state)
        for check in ('hosts', 'inventories'):
            self.assertTrue(findings[check].bad, check)
            self.assertIn('administrator', findings[check].remedy)

    def test_trait_of_nobody(self) -> None:
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers', status_code=400
        )
        self.useFixture(LabProfiles())
        profile = host_profiles.load('lab-worker')
        conn = self.cloud.connect()
        self.assertEqual(
            {}, host_checks.workers_hosts(conn, profile, parse('i1'))
        )
        self.assertRaises(
            errors.CloudError,
            host_checks.workers_hosts,
            *(conn, host_profiles.load('vsphere6'), parse('i1')),
        )

    def test_availability_zone(self) -> None:
        """Hosts of other zones do not count."""
        self.assertNotIn('availability zone', self.examine())
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/os-availability-zone',
            json={
                'availabilityZoneInfo': [
                    {'zoneName': name, 'zoneState': {'available': True}}
                    for name in ('az1', 'az2')
                ]
            },
        )
        http.get(
            f'{fake.NOVA}/os-services?binary=nova-compute',
            json={
                'services': [
                    {'id': 's1', 'host': 'compute1', 'zone': 'az1'},
                    {'id': 's2', 'host': 'c2', 'zone': 'az2'},
                ]
            },
        )
        self.hypervisors.append(
            self.hypervisors[0]
            | {
                'id': 'u2',
                'hypervisor_hostname': 'compute2',
                'service': {'id': 2, 'host': 'c2'},
                'status': 'disabled',
            }
        )
        for zone, state, hosts, services in (
            ('az1', OK, 1, '1 of 1 hosts up; 1 of 1 other hosts not up'),
            ('az2', OK, 0, '0 of 1 hosts up; disabled: compute2'),
            ('az9', FAULT, 0, '0 of 0 hosts up; 1 of 2 other hosts not up'),
        ):
            findings = self.examine(zone=zone)
            self.assertEqual(state, findings['availability zone'].state)
            detail = findings["workers' hosts"].detail
            self.assertTrue(detail.startswith(f'{hosts} '), detail)
            finding = findings['compute services']
            self.assertEqual(services, finding.detail)
            self.assertEqual(OK if hosts else FAULT, finding.state)
        # Only compute1 has the traits, in the other zone.
        traits = {'worker': 'CUSTOM_W', 'controller': 'CUSTOM_C'}
        finding = self.examine(zone='az2', traits=traits)['compute services']
        self.assertEqual(
            (FAULT, '0 of 0 hosts up; 1 of 2 other hosts not up'),
            (finding.state, finding.detail),
        )

    def test_volumes_of_no_type(self) -> None:
        self.assertNotIn('volume types', self.examine())
        findings = self.examine('i2-ceph')
        self.assertEqual(UNCHECKED, findings['volume types'].state)
        self.assertIn('service cinder', findings)

    def test_volume_types(self) -> None:
        """Private types exist, and a member sees the backend of none."""
        specs = {'volume_backend_name': 'ceph1'}
        request = replace(
            self.request(host_profiles.load('vsphere6'), 'i2-ceph'),
            volume_types=('ceph',),
        )
        for role, fields, state in (
            ('admin', {'name': 'ceph', 'extra_specs': specs}, OK),
            ('admin', {'name': 'ceph', 'extra_specs': {}}, FAULT),
            ('member', {'name': 'ceph'}, UNCHECKED),
            ('member', {'name': 'other'}, FAULT),
        ):
            with fake.FakeCloud(roles=(role,)) as cloud:
                urls = '|'.join(
                    (fake.NOVA, fake.PLACEMENT, fake.HEAT, fake.CINDER)
                )
                cloud.http.get(re.compile(f'({urls})/.'), status_code=404)
                cloud.http.get(
                    f'{fake.CINDER}/types?is_public=None',
                    json={'volume_types': [{'id': 't1', **fields}]},
                )
                cloud.http.get(
                    f'{fake.CINDER}/types/t1/encryption', status_code=403
                )
                findings = doctor.examine(cloud.connect(), request)
            (finding,) = (
                item for item in findings if item.check == 'volume type ceph'
            )
            self.assertEqual(state, finding.state)

    def test_disks_that_are_passed_through(self) -> None:
        """They need no volumes, and are not the disks of Nova."""
        disks = host_profiles.load('vsphere6').disks
        assert disks
        self.cloud.take_raw_images_only('compute1')
        findings = self.examine(
            'i2-pinned', disks=replace(disks, pci_alias='nvme')
        )
        self.assertFalse(
            {'service cinder', 'volume types', 'local disks'} & set(findings)
        )

    def test_old_or_missing_services(self) -> None:
        findings = self.examine()
        self.assertEqual(OK, findings['service nova'].state)
        self.assertEqual(FAULT, findings['service glance'].state)
        self.assertEqual(FAULT, findings['Heat templates'].state)

    def test_service_of_another_region(self) -> None:
        """A region can lack a service that another one of the cloud has."""
        token = ksa.V3Token(project_id='p1', user_id='u1')
        for service_type, url, region in (
            ('compute', fake.NOVA, 'RegionOne'),
            ('placement', fake.PLACEMENT, 'RegionOne'),
            ('orchestration', fake.HEAT, 'RegionTwo'),
            ('volumev3', fake.CINDER, 'RegionOne'),
        ):
            token.add_service(service_type).add_standard_endpoints(
                public=url, region=region
            )
        self.cloud.http.post(
            f'{fake.KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'token-of-test'},
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.cloud.fake.CREDENTIAL',
                fake.CREDENTIAL | {'region_name': 'RegionOne'},
            )
        )
        findings = self.examine('i2-ceph')
        self.assertEqual(OK, findings['service nova'].state)
        self.assertEqual(OK, findings['service cinder'].state)
        heat = findings['service heat']
        self.assertEqual(FAULT, heat.state)
        self.assertEqual('has no endpoint (public, RegionOne)', heat.detail)

    def test_lines_are_those_of_the_snippets(self) -> None:
        """What doctor prints is what 'hvstack host nova-conf' prints."""
        profile = host_profiles.load('vsphere6')
        self.inventories.pop('VCPU')
        self.inventories['PCPU'] = {
            'total': 2,
            'reserved': 0,
            'allocation_ratio': 2.0,
        }
        self.inventories['MEMORY_MB']['reserved'] = 65536
        for label in ('i1', 'i1-dedicated'):
            configuration = parse(label)
            texts = host_files.render_files(
                profile,
                configuration,
                compute_host_settings(profile, configuration.cpu_policy),
            )
            lines = '\n'.join(texts.values()).splitlines()
            doctor_lines = [
                line
                for finding in self.examine(label).values()
                for line in finding.nova_conf.splitlines()
            ]
            self.assertEqual(set(), set(doctor_lines) - set(lines))
            for name in ('cpu_', 'reserved_host_memory_mb', 'enabled_filters'):
                self.assertTrue(
                    any(line.startswith(name) for line in doctor_lines), name
                )

    def test_shared_storage_is_no_host(self) -> None:
        """Placement has other providers than those of compute nodes."""
        self.examine()
        queries = {
            tuple(request.qs['required'])
            for request in self.cloud.http.request_history
            if request.path.endswith('/resource_providers')
        }
        self.assertNotEqual(set(), queries)
        for query in queries:
            self.assertIn('compute_node', query[0].split(','))

    def test_servers_on_the_hosts(self) -> None:
        check = "servers on the workers' hosts"
        self.assertNotIn(check, self.examine())
        self.consumers = {
            'w1': {'resources': {'VCPU': 4, 'MEMORY_MB': 2048}},
            'w2': {'resources': {'VCPU': 2, 'DISK_GB': 10}},
        }
        finding = self.examine()[check]
        self.assertEqual(NOTE, finding.state)
        self.assertEqual(
            'compute1: 2 servers (DISK_GB 10, MEMORY_MB 2048, VCPU 6)',
            finding.detail,
        )
        self.assertIn('--all-projects --host compute1', finding.remedy)

    def test_room(self) -> None:
        finding = self.examine()['room for workers']
        self.assertEqual((FAULT, '1 of 31'), (finding.state, finding.detail))
        self.assertIn('--host compute1', finding.remedy)
        self.assertNotIn('instances_path', finding.remedy)
        finding = self.examine('i2', workers=2)['room for workers']
        self.assertEqual((OK, '2 of 2'), (finding.state, finding.detail))
        self.consumers['a'] = {'resources': {'VCPU': 1, 'MEMORY_MB': 4096}}
        findings = self.examine('i2', workers=2)
        self.assertEqual(
            '1 of 2 (compute1: 1 fit, VCPU 39 free, 20 for each)',
            findings['room for workers'].detail,
        )
        self.assertEqual(OK, findings['room for controllers'].state)
        self.assertTrue(
            any(
                ',!COMPUTE_STATUS_DISABLED' in unquote(request.url)
                for request in self.cloud.http.request_history
            )
        )
        # A sweep sets the ratios of the configuration.
        findings = self.examine('i2-c1.5', workers=2)
        self.assertEqual(
            '1 of 2 (compute1: 1 fit, VCPU 59 free, 30 for each)',
            findings['room for workers'].detail,
        )

    def test_room_for_all_nodes(self) -> None:
        """A controller takes the room of a worker."""
        check = 'room for all nodes'
        self.assertNotIn(check, self.examine())
        finding = self.examine('i2', workers=1)[check]
        self.assertEqual(
            (OK, '1 of 1 workers beside 1 controller'),
            (finding.state, finding.detail),
        )
        findings = self.examine('i2', workers=2)
        self.assertEqual(OK, findings['room for workers'].state)
        self.assertEqual(OK, findings['room for controllers'].state)
        self.assertEqual(
            (FAULT, '1 of 2 workers beside 1 controller'),
            (findings[check].state, findings[check].detail),
        )
        self.assertIn('--host compute1', findings[check].remedy)

    def test_room_for_disks(self) -> None:
        self.inventories['DISK_GB'] = {
            'total': 30000,
            'reserved': 0,
            'allocation_ratio': 1.5,
            'max_unit': 30000,
        }
        flavor = derive_flavor(host_profiles.load('vsphere6'), parse('i1'))
        gigabytes = flavor.disk + flavor.ephemeral
        for total, max_unit, state in (
            (gigabytes, gigabytes, OK),
            (gigabytes // 1.5 + 1, gigabytes, OK),
            (gigabytes // 1.5 - 1, gigabytes, FAULT),
            (gigabytes, gigabytes - 1, FAULT),
        ):
            self.inventories['DISK_GB'] |= {
                'total': total,
                'max_unit': max_unit,
            }
            finding = self.examine(workers=1)['room for workers']
            self.assertEqual(state, finding.state, finding)
            if state == FAULT:
                self.assertIn('DISK_GB', finding.detail)
                self.assertIn('host nova-conf vsphere6', finding.remedy)

    def test_hosts_that_take_raw_images_only(self) -> None:
        """Local disks can be on Ceph with images_type rbd, not with lvm."""
        self.assertNotIn('local disks', self.examine())
        self.cloud.take_raw_images_only('compute1', 'others')
        finding = self.examine()['local disks']
        self.assertEqual(NOTE, finding.state)
        self.assertIn(
            'images_type of Nova is rbd or lvm on compute1: ', finding.detail
        )
        # Their data is on volumes, whatever the root disk is.
        self.assertNotIn('local disks', self.examine('i4-ceph'))
        self.hypervisors[0]['hypervisor_type'] = 'fake'
        self.assertNotIn('local disks', self.examine())

    def test_local_disks(self) -> None:
        """Cinder needs the names of Nova's hosts, and a backend a disk."""
        findings = self.examine('i4-pinned')
        self.assertEqual(OK, findings["Cinder's hosts"].state)
        for check in ("Cinder's filters", "Cinder's account in Nova"):
            self.assertEqual(UNCHECKED, findings[check].state)
            self.assertFalse(findings[check].bad)
        self.assertIn(
            'InstanceLocalityFilter', findings["Cinder's filters"].remedy
        )
        services = self.volume_services
        for self.volume_services, detail in (
            ([volume_service('control@ceph')], 'compute1 has no cinder'),
            (services[1:], 'compute1 has 19 of 20 backends up'),
            (
                [*services[1:], volume_service('compute1@d', 'down')],
                'compute1 has 19 of 20 backends up',
            ),
        ):
            finding = self.examine('i4-pinned')["Cinder's hosts"]
            self.assertEqual(FAULT, finding.state)
            self.assertIn(detail, finding.detail)
            self.assertIn('host nova-conf', finding.remedy)

    def test_name_of_the_compute_service(self) -> None:
        """It is that of servers; the hypervisor may have a longer name."""
        (hypervisor,) = self.hypervisors
        hypervisor['service'] = {
            'id': 1,
            'host': 'c1',
            'disabled_reason': None,
        }
        finding = self.examine('i4-pinned')["Cinder's hosts"]
        self.assertIn('c1 has no cinder-volume', finding.detail)
        self.volume_services = [
            volume_service(service['host'].replace('compute1', 'c1'))
            for service in self.volume_services
        ]
        finding = self.examine('i4-pinned')["Cinder's hosts"]
        self.assertEqual(OK, finding.state)

    def test_a_member_sees_no_volume_services(self) -> None:
        self.cloud.http.get(f'{fake.CINDER}/os-services', status_code=403)
        findings = self.examine('i4-pinned')
        self.assertEqual(UNCHECKED, findings['cinder hosts'].state)
        self.assertIn('administrator', findings['cinder hosts'].remedy)

    def test_pinned_disks_of_other_kinds(self) -> None:
        """Ceph is on no compute host: nothing is to follow a server."""
        checks = set(self.examine('i4-ceph-pinned'))
        self.assertFalse({"Cinder's filters", "Cinder's hosts"} & checks)
