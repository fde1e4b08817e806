# SPDX-License-Identifier: Apache-2.0
"""The program that runs Hadoop's daemons on a node, with a fake java."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.lab.images import recipes

NODE = recipes.FILES / 'hadoop/usr/lib/hvstack/node'
#: Notes how it was called; formats at once, else stays.
JAVA = """\
#!/bin/sh
echo "$@" >>"$HVSTACK_ROOT/calls"
case "$*" in
*-format*)
    mkdir -p "$HVSTACK_ROOT/srv/hdfs/name/current"
    touch "$HVSTACK_ROOT/srv/hdfs/name/current/VERSION"
    exit ;;
esac
exec sleep 60
"""
SITE = """\
<configuration><property>
  <name>dfs.namenode.name.dir</name><value>file:///srv/hdfs/name</value>
</property></configuration>
"""


class TestNode(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        (self.root / 'bin').mkdir()
        (self.root / 'bin/java').write_text(JAVA)
        (self.root / 'bin/java').chmod(0o755)
        (self.root / 'etc/hadoop').mkdir(parents=True)
        (self.root / 'etc/hadoop/hdfs-site.xml').write_text(SITE)
        self.env_file('datanode nodemanager')
        self.addCleanup(self.kill_all)

    def env_file(self, roles: str, *lines: str) -> None:
        """Write the node's settings."""
        (self.root / 'etc/hvstack').mkdir(exist_ok=True)
        (self.root / 'etc/hvstack/node.env').write_text(
            '\n'.join([f'ROLES="{roles}"', 'ADDRESS=192.0.2.7', *lines]) + '\n'
        )

    def node(self, *args: str) -> processutils.Result:
        """Run the program."""
        return processutils.run(
            ['sh', NODE, *args],
            check=False,
            timeout=30,
            env={
                'HVSTACK_ROOT': str(self.root),
                'PATH': f'{self.root}/bin:{os.environ["PATH"]}',
            },
        )

    def pid(self, role: str) -> int:
        """Return the process id in a role's pid file."""
        return int(
            (self.root / f'run/hadoop/{role}.pid').read_text().split()[0]
        )

    def calls(self, count: int) -> list[str]:
        """Return how java was called, once it was called that often."""
        path = self.root / 'calls'
        processutils.wait_for(
            lambda: (
                path.exists() and len(path.read_text().splitlines()) >= count
            ),
            f'{count} calls of java',
            timeout=10,
            interval=0.02,
        )
        return path.read_text().splitlines()

    def kill_all(self) -> None:
        """End what a test left running."""
        for path in (self.root / 'run/hadoop').glob('*.pid'):
            pid, start_time = path.read_text().split()
            stat = Path(f'/proc/{pid}/stat')
            if stat.exists() and f' {start_time} ' in stat.read_text(
                encoding='utf-8'
            ):
                os.kill(int(pid), signal.SIGKILL)

    def test_start_status_stop(self) -> None:
        self.assertEqual(0, self.node('start').returncode)
        status = self.node('status')
        self.assertEqual(0, status.returncode)
        self.assertEqual(
            [
                f'datanode running {self.pid("datanode")}',
                f'nodemanager running {self.pid("nodemanager")}',
            ],
            status.stdout.splitlines(),
        )
        self.calls(2)
        self.assertEqual(0, self.node('stop').returncode)
        status = self.node('status')
        self.assertEqual(1, status.returncode)
        self.assertEqual(
            'datanode dead -\nnodemanager dead -\n', status.stdout
        )

    def test_start_is_idempotent_and_starts_what_died(self) -> None:
        self.node('start')
        self.calls(2)
        first = self.pid('datanode'), self.pid('nodemanager')
        os.kill(first[1], signal.SIGKILL)
        processutils.wait_for(
            lambda: self.node('status', 'nodemanager').returncode == 1,
            'its death',
            timeout=5,
            interval=0.02,
        )
        self.node('start')
        self.calls(3)
        self.assertEqual(first[0], self.pid('datanode'))
        self.assertNotEqual(first[1], self.pid('nodemanager'))
        self.assertEqual(3, len(self.calls(3)))

    def test_a_nodemanager_waits_for_the_controller_of_a_large_stack(
        self,
    ) -> None:
        """By default, it ends after 15 minutes without a ResourceManager."""
        self.node('start')
        calls = {call.split()[0]: call for call in self.calls(2)}
        waits = '-D yarn.nodemanager.resourcemanager.connect.max-wait.ms='
        self.assertTrue(
            calls['-Dproc_nodemanager'].endswith(
                f'.nodemanager.NodeManager {waits}86400000'
            ),
            calls,
        )
        self.assertNotIn(waits, calls['-Dproc_datanode'])

    def test_a_history_server_waits_for_the_host_of_the_namenode(
        self,
    ) -> None:
        """It ended with NoRouteToHostException after a power failure."""
        (self.root / 'etc/hadoop/core-site.xml').write_text(
            '<property><name>fs.defaultFS</name>'
            '<value>hdfs://192.0.2.8:8020</value></property>'
        )
        (self.root / 'bin/busybox').write_text(
            '#!/bin/sh\necho "$@" >>"$HVSTACK_ROOT/asked"\n'
            '[ -e "$HVSTACK_ROOT/is-up" ]\n'
        )
        (self.root / 'bin/busybox').chmod(0o755)
        (self.root / 'bin/sleep').write_text(
            '#!/bin/sh\n[ $1 != 2 ] || set -- 0.05\nexec /bin/sleep "$@"\n'
        )
        (self.root / 'bin/sleep').chmod(0o755)
        self.env_file('resourcemanager historyserver')
        self.node('start')
        (call,) = self.calls(1)
        self.assertIn('-Dproc_resourcemanager', call)
        requests = self.root / 'asked'
        processutils.wait_for(
            lambda: (
                requests.exists() and len(requests.read_text().split('\n')) > 2
            ),
            'two questions',
            timeout=10,
            interval=0.02,
        )
        self.assertEqual(
            'timeout 10 busybox wget -q -O /dev/null '
            'http://192.0.2.8:9870/jmx?qry=none:*',
            requests.read_text().split('\n')[0],
        )
        self.assertEqual(1, len(self.calls(1)))
        # It counts as running, and can be stopped.
        self.assertEqual(0, self.node('status', 'historyserver').returncode)
        self.node('stop', 'historyserver')
        self.assertEqual(1, self.node('status', 'historyserver').returncode)
        self.node('start')
        (self.root / 'is-up').touch()
        self.assertIn('-Dproc_historyserver', self.calls(2)[1])
        # A NameNode on the same node is waited for by Hadoop.
        self.node('stop')
        requests.unlink()
        self.env_file('namenode historyserver')
        self.node('start', 'historyserver')
        self.calls(3)
        self.assertFalse(requests.exists())

    def test_two_starts_at_once_start_once(self) -> None:
        with ThreadPoolExecutor() as pool:
            done = list(pool.map(lambda _: self.node('start'), range(4)))
        self.assertEqual([0] * 4, [result.returncode for result in done])
        self.assertEqual(2, len(self.calls(2)))

    def test_pid_of_another_program_is_stale(self) -> None:
        (self.root / 'run/hadoop').mkdir(parents=True)
        (self.root / 'run/hadoop/datanode.pid').write_text(
            f'{os.getpid()} 1\n'
        )
        self.assertEqual(1, self.node('status', 'datanode').returncode)
        self.assertEqual(0, self.node('stop', 'datanode').returncode)
        self.node('start', 'datanode')
        self.assertNotEqual(os.getpid(), self.pid('datanode'))

    def test_namenode_is_formatted_once(self) -> None:
        self.env_file('namenode')
        for count in (2, 3):
            self.node('start')
            self.calls(count)
            self.node('stop')
        formats = [call for call in self.calls(3) if '-format' in call]
        self.assertEqual(1, len(formats))

    def test_interrupted_format_is_begun_anew(self) -> None:
        current = self.root / 'srv/hdfs/name/current'
        current.mkdir(parents=True)
        (current / 'VERSION').touch()
        (current / 'half').touch()
        mark = self.root / 'srv/hdfs/name.formatting'
        mark.touch()
        self.node('start', 'namenode')
        self.assertIn('-format', self.calls(2)[0])
        self.assertFalse((current / 'half').exists())
        self.assertFalse(mark.exists())

    def test_settings_come_before_the_daemons(self) -> None:
        (self.root / 'etc/hvstack/node-setup').write_text(
            'echo "set up" >>"$HVSTACK_ROOT/calls"\n'
            'prlimit --pid "$OS_PID" --nofile=321:321\nexit 3\n'
        )
        done = self.node('start')
        self.assertEqual(0, done.returncode)
        self.assertIn('node-setup exited with status 3', done.stderr)
        self.assertEqual('set up', self.calls(3)[0])
        limits = Path(f'/proc/{self.pid("datanode")}/limits').read_text(
            encoding='utf-8'
        )
        self.assertRegex(limits, r'Max open files +321 +321')
        # Once all run nothing is set again.
        self.node('start')
        self.assertEqual(3, len(self.calls(3)))

    def test_a_node_without_its_volumes_does_not_start(self) -> None:
        (self.root / 'etc/hvstack/node-setup').write_text('exit 9\n')
        done = self.node('start')
        self.assertEqual(1, done.returncode)
        reason = 'no volume is mounted. Attach the volumes and start the node.'
        self.assertIn(f'node: Cannot start Hadoop: {reason}', done.stderr)
        self.assertEqual(1, self.node('status').returncode)
        self.assertFalse((self.root / 'calls').exists())
        # The program ready reports this file to Heat.
        self.assertEqual(
            f'node: Cannot start datanode: {reason}\n',
            (self.root / 'var/log/hadoop/datanode.out').read_text(),
        )

    def test_format_and_clean_refuse_while_running(self) -> None:
        self.node('start', 'namenode', 'datanode')
        self.calls(3)
        for command in ('format', 'clean'):
            self.assertEqual(1, self.node(command).returncode)
        self.assertTrue((self.root / 'srv/hdfs/name/current').exists())
        # What still runs counts, not what the node's settings name.
        self.node('stop', 'namenode')
        self.env_file('nodemanager')
        self.assertIn('datanode still runs', self.node('clean').stderr)
        self.node('stop', 'datanode')
        self.assertEqual(0, self.node('clean').returncode)
        self.assertEqual([], list((self.root / 'srv/hdfs').iterdir()))
        self.assertEqual([], list((self.root / 'var/log/hadoop').iterdir()))

    def test_options(self) -> None:
        self.env_file(
            'datanode',
            'HEAP_datanode=333',
            'JAVA_PROCESSORS=3',
            'JAVA_OPTS_datanode="-Done -Dtwo"',
        )
        self.node('start')
        args = self.calls(1)[0].split()
        for word in (
            '-Xmx333m',
            '-XX:+UseSerialGC',
            '-XX:ActiveProcessorCount=3',
            '-Done',
            '-Dtwo',
        ):
            self.assertIn(word, args)
        self.assertEqual(
            'org.apache.hadoop.hdfs.server.datanode.DataNode', args[-1]
        )
        self.env_file('nodemanager', 'JAVA_OPTS="-XX:+UseParallelGC"')
        self.node('start')
        args = self.calls(2)[1].split()
        self.assertIn('-XX:+UseParallelGC', args)
        self.assertNotIn('-XX:+UseSerialGC', args)

    def test_own_address_is_filled_in(self) -> None:
        site = self.root / 'etc/hadoop/hdfs-site.xml'
        site.write_text('<value>%ADDRESS%:1 %HOSTNAME%</value>')
        self.node('start')
        name = processutils.run(['hostname']).stdout.strip()
        self.assertEqual(
            f'<value>192.0.2.7:1 {name}</value>', site.read_text()
        )

    def test_an_address_that_comes_late(self) -> None:
        """Site files had 127.0.0.1 for ever."""
        self.env_file('datanode', 'ADDRESS=', 'ADDRESS_SECONDS=4')
        site = self.root / 'etc/hadoop/hdfs-site.xml'
        site.write_text('<value>%ADDRESS%</value>')
        address = self.root / 'address'
        for name, text in (
            ('ip', f'[ "$3" != get ] || cat {address} 2>/dev/null'),
            ('sleep', f'echo "$1" >>{self.root}/sleeps'),
        ):
            (self.root / 'bin' / name).write_text(f'#!/bin/sh\n{text}\n')
            (self.root / 'bin' / name).chmod(0o755)
        done = self.node('start')
        self.assertEqual(1, done.returncode)
        reason = 'this node has no IPv4 address. Check DHCP in its network.'
        self.assertIn(f'node: Cannot start Hadoop: {reason}', done.stderr)
        self.assertFalse((self.root / 'calls').exists())
        self.assertEqual('<value>%ADDRESS%</value>', site.read_text())
        sleeps = self.root / 'sleeps'
        self.assertEqual('2\n2\n', sleeps.read_text())
        sleeps.unlink()
        # It comes during the first pause.
        (self.root / 'bin/sleep').write_text(
            '#!/bin/sh\n'
            f'echo "1.0.0.0 dev eth0 src 192.0.2.9 uid 0" >{address}\n'
        )
        self.assertEqual(0, self.node('start').returncode)
        self.calls(1)
        self.assertEqual('<value>192.0.2.9</value>', site.read_text())

    def test_name_directory_of_the_site_file(self) -> None:
        (self.root / 'etc/hadoop/hdfs-site.xml').write_text(
            '<property><name>dfs.namenode.name.dir</name>\n'
            '  <value>file:///srv/other,file:///srv/second</value>'
            '</property>\n<property><name>x</name><value>y</value></property>'
        )
        (self.root / 'srv/other/current').mkdir(parents=True)
        (self.root / 'srv/other/current/VERSION').touch()
        self.node('start', 'namenode')
        self.assertNotIn('-format', self.calls(1)[0])

    def test_name_directory_that_no_site_file_names(self) -> None:
        (self.root / 'etc/hadoop/hdfs-site.xml').unlink()
        (self.root / 'etc/hadoop/core-site.xml').write_text(
            '<property><name>hadoop.tmp.dir</name><value>/srv/t</value>'
            '</property>'
        )
        (self.root / 'srv/t/dfs/name/current').mkdir(parents=True)
        (self.root / 'srv/t/dfs/name/current/VERSION').touch()
        self.node('start', 'namenode')
        self.assertNotIn('-format', self.calls(1)[0])

    def test_wrong_usage(self) -> None:
        for args in ((), ('jump',), ('start', 'tasktracker')):
            result = self.node(*args)
            self.assertEqual(2, result.returncode)
            self.assertEqual(1, len(result.stderr.splitlines()))
        self.env_file('')
        self.assertIn('set ROLES', self.node('start').stderr)

    def test_start_returns_at_once(self) -> None:
        # Standard output must be closed by processes in the background,
        # or whoever reads it would wait for the daemons' end.
        self.node('start')
        self.assertTrue(Path(f'/proc/{self.pid("datanode")}').exists())

    def test_stubborn_daemon_is_killed(self) -> None:
        (self.root / 'bin/java').write_text(
            '#!/bin/sh\ntrap "" TERM\n: >"$HVSTACK_ROOT/up"\n'
            'while :; do sleep 0.1; done\n'
        )
        # Ten seconds would be long for a test: time runs faster here.
        (self.root / 'bin/sleep').write_text('#!/bin/sh\nexec true\n')
        (self.root / 'bin/sleep').chmod(0o755)
        self.node('start', 'datanode')
        processutils.wait_for(
            (self.root / 'up').exists, 'java', timeout=5, interval=0.02
        )
        pid = self.pid('datanode')
        self.node('stop', 'datanode')
        for _ in range(50):
            if not Path(f'/proc/{pid}/exe').exists():
                break
            time.sleep(0.02)
        self.assertFalse(Path(f'/proc/{pid}/exe').exists())
