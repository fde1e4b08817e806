# SPDX-License-Identifier: Apache-2.0
"""The lab's control plane, seen from outside. The lab is up."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import openstack
import psutil
import requests
import testtools
from openstack import exceptions

from hvstack import errors, paths, pid_files, processutils
from hvstack.cloud import stacks
from hvstack.lab import (
    constants,
    control_plane,
    identity,
    lock,
    process_cgroup,
    services,
    settings,
    supervisord,
)

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class LabTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')

    def cloud(self, name: str = 'hvstack-lab') -> Any:
        cloud = openstack.connect(cloud=name)
        self.addCleanup(cloud.close)
        return cloud


class IdentityTest(LabTest):
    def test_tokens_outlive_another_up(self) -> None:
        """Services keep their passwords; a different password is set again."""
        admin = identity.connect()
        member = identity.connect(identity.TENANT, identity.MEMBER)
        token = member.auth_token
        identity.fill(admin)
        response = admin.identity.get(
            '/auth/tokens', headers={'X-Subject-Token': token}
        )
        self.assertEqual(200, response.status_code, response.text)
        admin.identity.update_user(member.current_user_id, password='another')
        identity.fill(admin)
        again = identity.connect(identity.TENANT, identity.MEMBER)
        self.assertNotEqual('', again.auth_token)


class RunningLabTest(LabTest):
    def test_up_again_restarts_nothing(self) -> None:
        before = {s.name: s.pid for s in supervisord.status().values()}
        processutils.run([HVSTACK, 'lab', 'up'], timeout=120)
        after = {s.name: s.pid for s in supervisord.status().values()}
        self.assertEqual(before, after)

    def test_status_is_machine_readable(self) -> None:
        text = processutils.run(
            [HVSTACK, 'lab', 'status', '-f', 'json']
        ).stdout
        states = {
            row['Name']: row['State']
            for row in json.loads(text)
            if row['Kind'] == 'program'
        }
        self.assertEqual({'RUNNING'}, set(states.values()))
        self.assertIn('nova-scheduler', states)

    def test_daemons_have_no_master_process(self) -> None:
        if settings.get_release() in services.EVENTLET_RELEASES:
            self.skipTest('hvstack does not change how daemons start')
        children = {
            name: [child.name() for child in process.children()]
            for name, state in supervisord.status().items()
            if name.startswith(('nova-c', 'nova-s', 'neutron-'))
            for process in (psutil.Process(state.pid),)
        }
        daemons = (
            'neutron-ovn-maintenance',
            'nova-conductor',
            'nova-scheduler',
        )
        self.assertEqual({name: [] for name in daemons}, children)

    def test_doctor_finds_no_fault(self) -> None:
        text = processutils.run(
            [HVSTACK, 'lab', 'doctor', '-f', 'json']
        ).stdout
        faults = [row for row in json.loads(text) if row['State'] == 'fault']
        self.assertEqual([], faults)

    def test_second_command_is_told_who_holds_the_lock(self) -> None:
        with lock.exclusive():
            done = processutils.run(
                [HVSTACK, 'lab', 'up'], check=False, timeout=60
            )
        self.assertNotEqual(0, done.returncode)
        self.assertIn(f'pid {os.getpid()}', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_nothing_listens_beyond_loopback_and_lab(self) -> None:
        lab_pids = process_cgroup.members()
        addresses = {
            entry.laddr.ip
            for entry in psutil.net_connections('inet')
            if entry.pid in lab_pids and entry.status == psutil.CONN_LISTEN
        }
        self.assertEqual(
            set(), addresses - {'127.0.0.1', '::1', constants.MGMT}
        )
        self.assertIn(constants.MGMT, addresses)

    def test_no_file_with_a_password_is_readable_by_others(self) -> None:
        passwords = set(
            json.loads((settings.LAB / 'secrets.json').read_text()).values()
        )
        for directory in (
            settings.LAB / 'etc',
            settings.LAB / 'supervisord.d',
        ):
            for path in directory.rglob('*'):
                if not path.is_file() or not path.stat().st_mode & 0o007:
                    continue
                text = path.read_text(errors='replace')
                for password in passwords:
                    self.assertNotIn(password, text, path)

    def test_killed_service_comes_back(self) -> None:
        _kill_service('placement')
        processutils.wait_for(
            lambda: _status(constants.url('placement')) == 200,
            'placement to answer',
            timeout=60,
        )
        processutils.wait_for(
            lambda: supervisord.status()['placement'].state == 'RUNNING',
            'placement to count as started',
            timeout=30,
        )

    def test_service_that_does_not_come_up_shows_its_log(self) -> None:
        script = 'echo cannot open x.conf; exit 3'
        bad = services.Service(
            supervisord.Program('hv-bad', ('/bin/sh', '-c', script))
        )
        self.addCleanup(settings.log_path('hv-bad').unlink)
        self.addCleanup(supervisord.remove, 'hv-bad')
        control_plane.launch([bad])
        exc = self.assertRaises(
            errors.CommandError,
            control_plane.wait,
            'hv-bad',
            lambda: False,
            60,
        )
        self.assertIn('cannot open x.conf', str(exc))
        self.assertIn(str(settings.log_path('hv-bad')), str(exc))

    def test_pid_file_names_the_running_supervisor(self) -> None:
        pid = pid_files.read(paths.RUN / 'supervisord.pid.json')
        self.assertIn('supervisord', ' '.join(psutil.Process(pid).cmdline()))


def _kill_service(name: str) -> None:
    """Kill a service, and wait until supervisord starts it again."""
    before = supervisord.status()[name].pid
    os.kill(before, signal.SIGKILL)
    processutils.wait_for(
        lambda: supervisord.status()[name].pid not in (0, before),
        f'{name} to be started again',
        timeout=30,
    )


def _status(url: str) -> int:
    try:
        return requests.get(url, timeout=5).status_code
    except requests.RequestException:
        return 0


class CloudTest(LabTest):
    def test_every_endpoint_answers(self) -> None:
        admin = self.cloud()
        for endpoint in admin.identity.endpoints():
            url = endpoint.url.partition('%(')[0]
            self.assertTrue(url.startswith(f'http://{constants.MGMT}:'), url)
            self.assertIn(_status(url), (200, 300, 400, 401, 404), url)

    def test_services_report(self) -> None:
        states = {
            service.binary: service.state
            for service in self.cloud().compute.services()
        }
        self.assertEqual('up', states['nova-scheduler'])
        self.assertEqual('up', states['nova-conductor'])

    def test_provider_network_is_shared_with_the_member(self) -> None:
        member = self.cloud('hvstack-lab-member')
        network = member.network.find_network('provider')
        self.assertTrue(network.is_shared)
        (subnet,) = member.network.subnets(network_id=network.id)
        self.assertEqual('10.252.0.0/24', subnet.cidr)

    def test_member_is_no_admin(self) -> None:
        member = self.cloud('hvstack-lab-member')
        self.assertRaises(
            exceptions.ForbiddenException,
            lambda: list(member.compute.services()),
        )

    def test_nova_checks_extra_specs(self) -> None:
        admin = self.cloud()
        flavor = admin.compute.create_flavor(
            name=f'hv-test-{uuid.uuid4().hex[:8]}',
            ram=64,
            vcpus=1,
            disk=1,
            is_public=False,
        )
        self.addCleanup(admin.compute.delete_flavor, flavor)
        self.assertRaises(
            exceptions.BadRequestException,
            admin.compute.create_flavor_extra_specs,
            flavor,
            {'hw:cpu_policy': 'sometimes'},
        )

    def create_stack(self, cloud: Any, name: str, **sections: Any) -> Any:
        """Create a stack, which is deleted after the test, and wait."""
        template = {'heat_template_version': 'wallaby', **sections}
        stack = cloud.orchestration.create_stack(
            name=name, template=template, timeout_mins=3
        )
        self.addCleanup(cloud.delete_stack, stack.id, wait=True)
        return cloud.orchestration.wait_for_status(
            stack,
            status='CREATE_COMPLETE',
            failures=['CREATE_FAILED'],
            interval=1,
            wait=90,
        )

    def test_member_gets_a_stack_that_is_signalled(self) -> None:
        """Engine, stack domain, trusts and the CFN API work together."""
        member = self.cloud('hvstack-lab-member')
        name = f'hv-test-{uuid.uuid4().hex[:8]}'
        handle = {
            'type': 'OS::Heat::WaitConditionHandle',
            'properties': {'signal_transport': 'CFN_SIGNAL'},
        }
        port = {
            'type': 'OS::Neutron::Port',
            'properties': {'network': 'provider'},
        }
        stack = self.create_stack(
            member,
            name,
            resources={'handle': handle, 'port': port},
            outputs={'url': {'value': {'get_attr': ['handle', 'endpoint']}}},
        )
        self.assertEqual('CREATE_COMPLETE', stack.status)

    def test_the_name_of_another_network(self) -> None:
        """Heat's cache does not keep the ID of a network that is gone."""
        member = self.cloud('hvstack-lab-member')
        name = f'hv-test-{uuid.uuid4().hex[:8]}'
        port = {
            'type': 'OS::Neutron::Port',
            'properties': {'network': name},
        }
        for _ in range(2):
            network = member.network.create_network(name=name)
            self.addCleanup(member.network.delete_network, network.id)
            stack = self.create_stack(member, name, resources={'port': port})
            member.delete_stack(stack.id, wait=True)
            member.network.delete_network(network.id)

    def test_a_deletion_that_heat_forgot(self) -> None:
        """An engine that starts again does not continue a deletion."""
        member = self.cloud('hvstack-lab-member')
        name = f'hv-test-{uuid.uuid4().hex[:8]}'
        slow = {
            'type': 'OS::Heat::TestResource',
            'properties': {'action_wait_secs': {'delete': 5}},
        }
        stack = self.create_stack(member, name, resources={'slow': slow})
        member.delete_stack(stack.id)
        _kill_service('heat-engine')
        # Heat waits 15 s for its old engine after the second request.
        stacks.delete(member, name, timeout=80)
        self.assertIsNone(member.orchestration.find_stack(stack.id))


class EnvTest(LabTest):
    def test_a_fresh_shell_can_use_it(self) -> None:
        script = (
            f'eval "$({HVSTACK} lab env --member)" && '
            f'{Path(HVSTACK).with_name("openstack")} token issue -f value '
            '-c project_id'
        )
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith('OS_')
        }
        done = subprocess.run(
            ['sh', '-ec', script],
            env={**clean, 'HOME': '/nonexistent'},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        member = self.cloud('hvstack-lab-member')
        self.assertEqual(member.current_project_id, done.stdout.strip())
