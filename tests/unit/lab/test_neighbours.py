# SPDX-License-Identifier: Apache-2.0
"""Test the detection of firewalls and of services on the machine."""

import io

import fixtures
import testtools

from hvstack.lab import control_plane, neighbours
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress

#: Base chains as ufw and Docker make them; a chain without a hook has no
#: policy.
UFW = {
    'family': 'ip',
    'table': 'filter',
    'name': 'INPUT',
    'handle': 1,
    'type': 'filter',
    'hook': 'input',
    'prio': 0,
    'policy': 'drop',
}
DOCKER = {**UFW, 'name': 'FORWARD', 'hook': 'forward'}
ACCEPTS = {**UFW, 'policy': 'accept'}
REGULAR = {'family': 'ip', 'table': 'filter', 'name': 'DOCKER', 'handle': 9}


class FirewallTest(testtools.TestCase):
    def test_input_that_is_dropped(self) -> None:
        [neighbour] = neighbours.firewall([UFW, ACCEPTS, REGULAR], False)
        self.assertEqual('firewall ip filter INPUT', neighbour.subject)
        self.assertIn(
            "'ufw allow in on hv-mgmt && ufw allow in on hv-prov && "
            "ufw allow in on hv-data'",
            neighbour.remedy,
        )
        self.assertEqual(
            [], list(neighbours.firewall([{**UFW, 'family': 'ip6'}], False))
        )

    def test_rules_that_the_user_made(self) -> None:
        rules = 'iifname "hv-mgmt" accept\niifname "hv-prov" accept\n'
        self.assertFalse(neighbours.has_rules('input', rules))
        rules += 'iifname "hv-data" accept\n'
        self.assertTrue(neighbours.has_rules('input', rules))
        self.assertFalse(neighbours.has_rules('forward', rules))
        rules = 'iifname "hv-*" oifname "hv-*" accept'
        self.assertTrue(neighbours.has_rules('forward', rules))
        # It accepted no packets to the control plane, but hid that.
        self.assertFalse(neighbours.has_rules('input', rules))
        rules += '\niif { "hv-data", "hv-mgmt", "hv-prov" } accept'
        self.assertTrue(neighbours.has_rules('input', rules))

    def test_start_of_a_lab_behind_a_firewall(self) -> None:
        """Hosts did not reach the control plane, for no visible reason."""
        calls: list[bool] = []
        for name, value in (
            ('hvstack.lab.bridges.ensure', calls.append),
            ('hvstack.lab.neighbours._nft_chains', lambda: [UFW]),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        stream = io.StringIO()
        stages = control_plane.plan(
            LabSettings(), Progress(stream=stream), lambda: None
        )
        (stage,) = (stage for stage in stages if stage.title == 'bridges')
        stage.action()
        self.assertEqual([False], calls)
        self.assertIn('firewall ip filter INPUT drops', stream.getvalue())
        self.assertIn('ufw allow in on hv-mgmt', stream.getvalue())

    def test_firewalld(self) -> None:
        """Its chains accept by default, and end with a rule that rejects."""
        chain = {
            **ACCEPTS,
            'family': 'inet',
            'table': 'firewalld',
            'name': 'filter_INPUT',
        }
        nat = {**chain, 'type': 'nat', 'hook': 'prerouting'}
        [neighbour] = neighbours.firewall([chain, nat], False)
        self.assertIn(
            'firewall-cmd --zone=trusted --add-interface=hv-mgmt ',
            neighbour.remedy,
        )

    def test_forwarding_counts_where_bridges_are_filtered(self) -> None:
        self.assertEqual([], list(neighbours.firewall([DOCKER], False)))
        [neighbour] = neighbours.firewall([DOCKER], True)
        self.assertIn('br_netfilter', neighbour.effect)


class ApparmorTest(testtools.TestCase):
    def test_programs_of_the_lab_that_are_confined(self) -> None:
        profiles = (
            '/usr/sbin/mariadbd (enforce)\n'
            'libvirtd (enforce)\n'
            'libvirtd//qemu_bridge_helper (enforce)\n'
            '/usr/sbin/haproxy (complain)\n'
            'firefox (enforce)\n'
        )
        self.assertEqual(
            ['AppArmor /usr/sbin/mariadbd', 'AppArmor libvirtd'],
            [neighbour.subject for neighbour in neighbours.apparmor(profiles)],
        )


class HypervisorsTest(testtools.TestCase):
    def test_programs_of_the_user(self) -> None:
        hypervisors = neighbours.hypervisors({'dockerd', 'sshd', 'libvirtd'})
        self.assertEqual(
            ['dockerd', 'libvirtd'],
            [neighbour.subject for neighbour in hypervisors],
        )


class ExamineTest(testtools.TestCase):
    def test_this_machine(self) -> None:
        for entry in neighbours.examine():
            self.assertNotEqual('', entry.remedy)
