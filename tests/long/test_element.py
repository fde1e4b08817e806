# SPDX-License-Identifier: Apache-2.0
"""An image of diskimage-builder with the element hvstack-hadoop.

The tests require no lab. ``HVSTACK_ELEMENT_TREE`` is the path of a tar file
(``-t tar``), whose programs run in a name space; ``HVSTACK_ELEMENT_DISK`` is
the path of a disk (``-t qcow2`` or ``-t raw``) that an emulated machine boots.
"""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools
import yaml

from hvstack import processutils, share
from hvstack.hadoop import site_files
from hvstack.hadoop.sizing import size_node
from hvstack.lab.images import class_data_sharing

TREE = os.environ.get('HVSTACK_ELEMENT_TREE', '')
DISK = os.environ.get('HVSTACK_ELEMENT_DISK', '')
OVMF = Path('/usr/share/OVMF')
#: Addresses of the guest and of this machine in the user network of QEMU.
GUEST, MACHINE = '10.0.2.15', '10.0.2.2'
NAME = 'element-controller'
#: Seconds for the first boot, and for a step in the booted guest.
BOOT_SECONDS, STEP_SECONDS = 1500, 900


class TreeTest(testtools.TestCase):
    """Runs programs in the tree, with nothing booted."""

    root: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if not TREE or os.geteuid() != 0:
            return
        cls.root = Path(tempfile.mkdtemp(dir=Path(TREE).parent))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        processutils.run(
            ['tar', '-x', '-p', '--numeric-owner', '-f', TREE, '-C', cls.root]
        )
        # diskimage-builder leaves these out of the file.
        for name in ('proc', 'sys'):
            (cls.root / name).mkdir(exist_ok=True)

    def setUp(self) -> None:
        super().setUp()
        if not TREE or os.geteuid() != 0:
            self.skipTest('needs HVSTACK_ELEMENT_TREE and root')

    def run_in_tree(self, command: str) -> processutils.Result:
        """Run a shell command in the tree."""
        return processutils.run(
            [
                *('unshare', '--mount', '--net', '--uts', '--pid', '--fork'),
                *('--kill-child', '--root', self.root, '--wd', '/'),
                *('--mount-proc', 'env', '-i', 'HOME=/root'),
                *('PATH=/usr/sbin:/usr/bin', 'sh', '-c', command),
            ],
            check=False,
            timeout=STEP_SECONDS,
        )

    def test_image_is_complete(self) -> None:
        result = self.run_in_tree('/usr/lib/hvstack/check-image')
        self.assertEqual((0, ''), (result.returncode, result.stderr))
        identity = json.loads(
            (self.root / 'etc/hvstack/image.json').read_text()
        )
        self.assertRegex(identity['digest'], '^[0-9a-f]{12}$')
        self.assertRegex(identity['java'], r'^17\.')
        # Each node gets host keys of its own.
        self.assertEqual([], list((self.root / 'etc/ssh').glob('*_key*')))

    def test_units_are_valid(self) -> None:
        result = self.run_in_tree(
            'systemd-analyze verify --man=no hvstack-hosts.service '
            'hvstack-node.service hvstack-ready.service cloud-init.target'
        )
        messages = [
            line
            for line in result.stderr.splitlines()
            if 'hvstack' in line or 'cycle' in line
        ]
        self.assertEqual([], messages)

    def test_cloud_init_takes_its_settings(self) -> None:
        result = self.run_in_tree(
            "python3 -c '"
            'from cloudinit import stages; init = stages.Init(); '
            'init.read_cfg(); '
            'print(init.cfg["disable_root"], init.cfg["mounts"])'
            "'"
        )
        self.assertEqual(
            "False [['ephemeral0']]\n", result.stdout, result.stderr
        )

    def test_sshd_lets_root_in_by_key(self) -> None:
        result = self.run_in_tree(
            'mkdir -p /run/sshd && '
            'ssh-keygen -q -t ed25519 -N "" -f /tmp/key && '
            'sshd -T -h /tmp/key'
        )
        self.assertIn('permitrootlogin without-password', result.stdout)

    def test_java_takes_the_class_data(self) -> None:
        result = self.run_in_tree(
            '. /usr/lib/hvstack/hadoop-env && java -Xshare:on '
            '$shared_archive -XX:+UseSerialGC -cp "$shared_classpath" '
            'org.apache.hadoop.util.VersionInfo'
        )
        self.assertIn('Hadoop 3', result.stdout, result.stderr)

    def test_hadoop_runs(self) -> None:
        """HDFS and YARN start, and a sort of a few rows is validated."""
        hosts = self.root / 'etc/hosts'
        hosts.write_text('127.0.0.1 localhost\n')
        classes = class_data_sharing.run_hadoop(self.root)
        self.assertIn('org/apache/hadoop/examples/terasort/TeraSort', classes)


class Heat(BaseHTTPRequestHandler):
    """Receives the signals of the node."""

    signals: ClassVar[dict[str, Any]] = {}

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers['Content-Length']))
        type(self).signals[self.path] = json.loads(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


def render_user_data(port: int) -> str:
    """Return the user data of a controller, as the Heat template sends it.

    The node has a DataNode, too.

    :param port: port of the signals on this machine.
    """
    template = yaml.safe_load(
        (share.HEAT_TEMPLATES / 'hadoop-cluster.yaml').read_text()
    )

    def get_template(name: str) -> str:
        value = template['resources'][name]['properties']['value']
        return str(value['str_replace']['template'])

    site = site_files.render_site_files(
        size_node(2, 4096), controller=GUEST, replication=1, node_groups=False
    )
    text = get_template('controller_files')
    for key, value in {
        '%FILES%': get_template('files'),
        '%NODE_ENV%': site_files.render_node_env('', 1)
        + 'READY_SECONDS=7200\n',
        '%CORE_SITE%': site['core-site.xml'],
        '%HDFS_SITE%': site['hdfs-site.xml'],
        '%YARN_SITE%': site['yarn-site.xml'],
        '%MAPRED_SITE%': site['mapred-site.xml'],
        '%HADOOP_ENV%': '',
        '%NODE_SETUP%': '',
        '%DISKS%': '0',
        '%FIRST%': '',
        '%TOPOLOGY%': f'{GUEST} /default-rack\n{NAME} /default-rack',
        '%CONTROLLER_ADDRESS%': GUEST,
        '%CONTROLLER_NAME%': NAME,
        '%PATH%': '/default-rack',
        '%MANAGER%': '',
        '%READY_SIGNAL%': json.dumps(
            {'alarm_url': f'http://{MACHINE}:{port}/ready'}
        ),
        '%HOST_KEY_SIGNAL%': json.dumps(
            {'alarm_url': f'http://{MACHINE}:{port}/host_key'}
        ),
    }.items():
        text = text.replace(key, value)
    return f"{text}\nbegin 'namenode datanode'\n"


class BootTest(testtools.TestCase):
    """Boots the disk by UEFI, with a config drive, without acceleration."""

    def setUp(self) -> None:
        super().setUp()
        if not DISK:
            self.skipTest('needs HVSTACK_ELEMENT_DISK')
        for program in ('qemu-system-x86_64', 'genisoimage', 'ssh-keygen'):
            if shutil.which(program) is None:
                self.skipTest(f'needs {program}')
        self.temp_dir = Path(
            self.useFixture(fixtures.TempDir(str(Path(DISK).parent))).path
        )
        Heat.signals.clear()
        self.server = HTTPServer(('127.0.0.1', 0), Heat)
        self.addCleanup(self.server.server_close)
        thread = threading.Thread(
            target=self.server.serve_forever, daemon=True
        )
        thread.start()
        self.addCleanup(self.server.shutdown)
        self.port = 20000 + os.getpid() % 10000
        self.key = self.temp_dir / 'key'
        processutils.run(
            ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', self.key]
        )
        self.write_config_drive()
        self.boot()

    def write_config_drive(self) -> None:
        """Write the config drive that Nova gives a server."""
        directory = self.temp_dir / 'drive/openstack/latest'
        directory.mkdir(parents=True)
        metadata = {
            'uuid': '83679162-1378-4288-a2d4-70e13ec132aa',
            'name': NAME,
            'hostname': f'{NAME}.novalocal',
            'public_keys': {'key': self.key.with_suffix('.pub').read_text()},
        }
        (directory / 'meta_data.json').write_text(json.dumps(metadata))
        (directory / 'user_data').write_text(
            render_user_data(self.server.server_port)
        )
        processutils.run(
            [
                *('genisoimage', '-quiet', '-R', '-J', '-V', 'config-2'),
                *('-o', self.temp_dir / 'drive.iso', self.temp_dir / 'drive'),
            ]
        )

    def boot(self) -> None:
        """Start the emulated machine with a larger disk than the image."""
        disk = self.temp_dir / 'disk.qcow2'
        disk_format = 'raw' if DISK.endswith('.raw') else 'qcow2'
        processutils.run(
            [
                *('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', DISK),
                *('-F', disk_format, disk, '10G'),
            ]
        )
        variables = self.temp_dir / 'vars.fd'
        shutil.copyfile(OVMF / 'OVMF_VARS_4M.fd', variables)
        flash = 'if=pflash,format=raw,unit='
        firmware = f'{flash}0,readonly=on,file={OVMF}/OVMF_CODE_4M.fd'
        network = f'user,id=n,hostfwd=tcp:127.0.0.1:{self.port}-:22'
        self.console = self.temp_dir / 'console'
        machine = subprocess.Popen(
            [
                *('qemu-system-x86_64', '-machine', 'q35,accel=tcg'),
                *('-cpu', 'Nehalem', '-smp', '2', '-m', '2048'),
                *('-display', 'none'),
                *('-drive', firmware),
                *('-drive', f'{flash}1,file={variables}'),
                *('-drive', f'if=virtio,file={disk},cache=unsafe'),
                *('-cdrom', str(self.temp_dir / 'drive.iso')),
                *('-netdev', network, '-device', 'virtio-net-pci,netdev=n'),
                *('-device', 'virtio-rng-pci'),
                *('-serial', f'file:{self.console}'),
            ],
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(machine.wait)
        self.addCleanup(machine.kill)

    def ssh(self, command: str) -> processutils.Result:
        """Run a command in the guest."""
        return processutils.run(
            [
                *('ssh', '-i', self.key, '-p', str(self.port)),
                *('-o', 'BatchMode=yes', '-o', 'ConnectTimeout=60'),
                *('-o', 'StrictHostKeyChecking=no', '-o', 'LogLevel=ERROR'),
                *('-o', 'UserKnownHostsFile=/dev/null'),
                *('root@127.0.0.1', command),
            ],
            timeout=STEP_SECONDS,
        )

    def wait(self, command: str, expected: str, seconds: int) -> str:
        """Wait until a command in the guest prints a text."""
        out = ''

        def is_printed() -> bool:
            nonlocal out
            out = self.ssh(command).stdout
            return expected in out

        processutils.wait_for(
            is_printed, f"'{expected}'", timeout=seconds, interval=10
        )
        return out

    def test_node_is_ready_and_comes_back_after_a_reboot(self) -> None:
        processutils.wait_for(
            lambda: '/ready' in Heat.signals,
            'the signal of the node',
            timeout=BOOT_SECONDS,
            get_reason=lambda: self.console.read_text(errors='replace')[-900:],
        )
        self.assertEqual('SUCCESS', Heat.signals['/ready']['status'])
        key = self.ssh('cat /etc/ssh/ssh_host_ed25519_key.pub').stdout
        self.assertIn(Heat.signals['/host_key']['data'], key)
        self.assertTrue(Heat.signals['/host_key']['data'])
        self.assertEqual(f'{NAME}\n', self.ssh('hostname').stdout)
        hosts = self.ssh('getent ahostsv4 $(hostname)').stdout
        addresses = {row.split()[0] for row in hosts.splitlines()}
        self.assertEqual({GUEST}, addresses)
        size = int(self.ssh('df -m / | tail -n 1').stdout.split()[1])
        self.assertGreater(size, 8000)
        self.ssh('[ -d /sys/firmware/efi ] && /usr/lib/hvstack/check-image')
        self.ssh('hdfs dfs -put -f /etc/hvstack/image.json /x')
        identifier = self.ssh('cat /proc/sys/kernel/random/boot_id').stdout
        self.ssh('systemd-run --on-active=1 systemctl reboot')
        self.wait(
            f'grep -q {identifier.strip()} /proc/sys/kernel/random/boot_id '
            '|| /usr/lib/hvstack/node status',
            'datanode running',
            BOOT_SECONDS,
        )
        service = self.ssh('systemctl show -p ActiveState hvstack-node').stdout
        self.assertEqual('ActiveState=active\n', service)
        self.wait('hdfs dfs -cat /x', '"name": "hvstack-hadoop"', BOOT_SECONDS)
