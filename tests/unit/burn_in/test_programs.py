# SPDX-License-Identifier: Apache-2.0
"""Shell programs of a burn-in, with substitutes of the tools."""

import os
import socket
import subprocess
import time
from pathlib import Path

import fixtures
import testtools

from hvstack import shell_scripts
from hvstack.burn_in import measures
from tests.unit.burn_in import outputs

FIO = """#!/bin/sh
echo "$PWD $*" >>"$0.log"
case "$*" in
*--rw=write*) head -c "${FIO_BYTES:-2097152}" /dev/zero >data ;;
esac
[ -z "${FIO_FAILS:-}" ] || { echo 'fio: broken' >&2; exit 1; }
echo '{"jobs": []}'
"""
IPERF3 = """#!/bin/sh
count=$(cat "$0.count" 2>/dev/null)
echo $((${count:-0} + 1)) >"$0.count"
[ "${count:-0}" -gt 0 ] || { echo '{"error": "busy"}'; exit 1; }
echo "{\\"arguments\\": \\"$*\\"}"
"""
HADOOP = """#!/bin/sh
echo "$HADOOP_CLASSPATH $*" >>"$0.log"
[ "$1" != fs ] || exit 1
exec 3>&1
case "$*" in *MRBench*) exec >&2 ;; esac
echo 'log of the job'
[ -z "${HADOOP_FAILS:-}" ] || { echo 'no DataNode'; exit 1; }
case "$*" in
*NNBench*) echo "result of nnbench, $TZ" >>NNBench_results.log ;;
*MRBench*) echo 'result of mrbench' >&3 ;;
*) case "$*" in *' -write '*) verb=write ;; *) verb=read ;; esac
    for result; do :; done
    echo "result of $verb" >>"$result" ;;
esac
"""


class ProgramsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.disk = self.directory / 'a disk'
        self.disk.mkdir()

    def tool(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_program(
        self, name: str, *args: str | int, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_text(shell_scripts.render(name, *args), **env)

    def run_text(
        self, program: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        path = f'{self.directory}:{os.environ["PATH"]}'
        return subprocess.run(
            ['sh', '-c', program],
            capture_output=True,
            text=True,
            env={**os.environ, 'PATH': path, **env},
            check=False,
        )

    def run_disk(
        self, mode: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_program(
            'burn-in-disk', mode, str(self.disk), 'ab12', 2, 60, **env
        )

    def test_write(self) -> None:
        tool = self.tool('fio', FIO)
        result = self.run_disk('write')
        self.assertEqual((0, '{"jobs": []}\n'), result_of(result))
        (line,) = tool.with_name('fio.log').read_text().splitlines()
        self.assertIn(f'{self.disk}/.hvstack-burn-in-ab12 ', line)
        for option in ('--filename=data', '--direct=1', '--size=2M'):
            self.assertIn(f' {option} ', line)
        self.assertEqual([], list(self.disk.iterdir()))

    def test_read(self) -> None:
        """What a slow disk did not write is not read."""
        tool = self.tool('fio', FIO)
        for size, mib in ((2 << 20, 2), (1 << 20, 1)):
            result = self.run_disk('read', FIO_BYTES=str(size))
            self.assertEqual((0, '{"jobs": []}\n'), result_of(result))
            line = tool.with_name('fio.log').read_text().splitlines()[-1]
            self.assertIn(' --rw=read ', line)
            self.assertIn(f' --size={mib}M ', line)
        result = self.run_disk('read', FIO_BYTES='0')
        self.assertEqual(1, result.returncode)
        self.assertIn('took no data', result.stderr)
        self.assertEqual([], list(self.disk.iterdir()))

    def test_failure(self) -> None:
        self.tool('fio', FIO)
        for mode in ('write', 'read'):
            result = self.run_disk(mode, FIO_FAILS='yes')
            self.assertEqual(1, result.returncode)
            self.assertIn('fio: broken', result.stderr)
            self.assertEqual([], list(self.disk.iterdir()))

    def test_files_of_an_earlier_burn_in(self) -> None:
        """Only directories with their own token, which no process has."""
        self.tool('fio', FIO)
        running = subprocess.Popen(
            ['sleep', '60'], env={'HVSTACK_BURN_IN': 'cd34', **os.environ}
        )
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        for name, token in (('ef56', 'ef56'), ('cd34', 'cd34'), ('xy', '')):
            directory = self.disk / f'.hvstack-burn-in-{name}'
            directory.mkdir()
            if token:
                (directory / 'token').write_text(f'{token}\n')
        self.run_disk('write')
        self.assertEqual(
            {'.hvstack-burn-in-cd34', '.hvstack-burn-in-xy'},
            {path.name for path in self.disk.iterdir()},
        )

    def test_end(self) -> None:
        """Programs with the token end, others stay."""
        processes = [
            subprocess.Popen(
                ['sleep', '60'],
                env={'HVSTACK_BURN_IN': token, **os.environ},
            )
            for token in ('ab12', 'ab1')
        ]
        for process in processes:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        directory = self.disk / '.hvstack-burn-in-ab12'
        directory.mkdir()
        other = self.disk / '.hvstack-burn-in-ab1'
        other.mkdir()
        # A zombie has no environment any more.
        begin = time.monotonic()
        result = self.run_program('burn-in-end', 'ab12', str(self.disk))
        self.assertEqual((0, ''), result_of(result))
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(-15, processes[0].wait(5))
        self.assertIsNone(processes[1].poll())
        self.assertEqual([other], list(self.disk.iterdir()))

    def test_node(self) -> None:
        self.tool(
            'numactl',
            '#!/bin/sh\ncase $1 in --show) echo "nodebind: 0 1 2 " ;;\n'
            f'*) cat <<"END"\n{outputs.NUMACTL}END\nesac\n',
        )
        self.tool('lscpu', '#!/bin/sh\necho "NUMA node(s):          3"\n')
        self.tool(
            'mountpoint', '#!/bin/sh\ncase $2 in */1) exit 0; esac\nexit 1\n'
        )
        for name in ('0', '1'):
            (self.disk / name).mkdir()
        result = self.run_program('burn-in-node', str(self.directory / 'none'))
        self.assertIn(' /srv\n', result.stdout)
        disk = self.directory / 'disk'
        self.disk.rename(disk)
        result = self.run_program('burn-in-node', str(disk))
        node = measures.parse_node(result.stdout)
        self.assertEqual([f'{disk}/1'], list(node.disks))
        self.assertEqual(3, node.cell_count)
        # The third one has no processors.
        self.assertEqual({0: 4, 1: 2}, node.cells)
        self.assertLess(1 << 20, node.disks[f'{disk}/1'])

    def test_memory(self) -> None:
        self.tool(
            'stress-ng',
            '#!/bin/sh\n[ "$1" != --help ] || echo --no-oom-adjust\n'
            'echo "stress-ng $*" >&2\n',
        )
        self.tool('numactl', '#!/bin/sh\necho "$*"\n')
        result = self.run_program('burn-in-memory', 'all', 2, 10, 1)
        self.assertRegex(
            result.stdout,
            r'processes 2\nstress-ng --stream 2 --stream-l3-size \d+K '
            r'--timeout 10 --no-oom-adjust\n',
        )
        result = self.run_program('burn-in-memory', 1, 4, 10, 2)
        self.assertIn(
            '--cpunodebind=1 --membind=1 stress-ng --stream 4 ', result.stdout
        )

    def test_memory_is_larger_than_all_caches(self) -> None:
        """Two of eight processors each share a cache."""
        self.tool('stress-ng', '#!/bin/sh\necho "$*"\n')
        self.tool('numactl', '#!/bin/sh\necho "$*"\n')
        devices = self.directory / 'system'
        for processor in range(8):
            first = processor // 2 * 2
            for parent in ('cpu', f'node/node{processor // 4}'):
                cache = devices / parent / f'cpu{processor}/cache/index3'
                cache.mkdir(parents=True)
                shared = f'{first}-{first + 1}\n'
                (cache / 'shared_cpu_list').write_text(shared)
                (cache / 'size').write_text('131072K\n')
        meminfo = self.directory / 'meminfo'
        for gib, cell, cells, kib in (
            (64, 'all', 1, 4 * 131072),
            (64, 1, 2, 2 * 131072),
            # A guest has no such files, or shows the cache of a small model.
            (64, 7, 1, 262144),
            # The limit by the memory applies to all of them.
            (8, 'all', 1, 131072),
        ):
            meminfo.write_text(f'MemTotal: {gib * 2**20} kB\n')
            program = (
                shell_scripts.render('burn-in-memory', cell, 4, 10, cells)
                .replace('/sys/devices/system', str(devices))
                .replace('/proc/meminfo', str(meminfo))
            )
            result = self.run_text(program)
            self.assertIn(f'--stream-l3-size {kib}K ', result.stdout)

    def test_client(self) -> None:
        """It tries again while the server is busy."""
        self.tool('iperf3', IPERF3)
        self.tool('sleep', '#!/bin/sh\n')
        result = self.run_program('burn-in-client', '10.0.0.3', 5201, 5)
        first, second = result.stdout.splitlines()
        self.assertIn('--client 10.0.0.3 --port 5201 --time 5', first)
        self.assertNotIn('--reverse', first)
        self.assertIn('--reverse', second)

    def test_server(self) -> None:
        self.tool('iperf3', '#!/bin/sh\necho "address in use" >&2; exit 1\n')
        with socket.create_server(('127.0.0.1', 0)) as listener:
            port = listener.getsockname()[1]
            result = self.run_program('burn-in-server', port, 2)
            self.assertEqual(1, result.returncode)
            self.assertIn('address in use', result.stderr)
            self.tool('iperf3', '#!/bin/sh\nexec sleep 2\n')
            result = self.run_program('burn-in-server', port, 2)
            self.assertEqual((0, ''), result_of(result))

    def test_server_that_does_not_listen(self) -> None:
        self.tool('iperf3', '#!/bin/sh\nexec sleep 2\n')
        self.tool(
            'sleep', '#!/bin/sh\n[ "$1" = 0.3 ] || exec /bin/sleep "$1"\n'
        )
        with socket.create_server(('127.0.0.1', 0)) as listener:
            port = listener.getsockname()[1]
        result = self.run_program('burn-in-server', port, 2)
        self.assertEqual(1, result.returncode)
        self.assertIn(f'does not listen on port {port}', result.stderr)

    def run_job(
        self, program: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a job of Hadoop with a substitute of its client."""
        return self.run_program(
            *('micro-benchmark', program, '/benchmarks/ab12', 4, '244MB'),
            '-Dmapreduce.job.tags=ab12',
            HADOOP_HOME=str(self.directory / 'release'),
            **env,
        )

    def make_hadoop(self) -> Path:
        """Make a client, and the jar of a release."""
        jar = (
            self.directory
            / 'release/share/hadoop/mapreduce'
            / 'hadoop-mapreduce-client-jobclient-3.5.0-tests.jar'
        )
        jar.parent.mkdir(parents=True)
        jar.touch()
        return self.tool('hadoop', HADOOP)

    def test_job(self) -> None:
        tool = self.make_hadoop()
        log = tool.with_name('hadoop.log')
        for program, lines in (
            ('write', ['-write -nrFiles 4 -size 244MB']),
            ('read', ['-read -nrFiles 4 -size 244MB']),
            (
                'write-and-read',
                ['fs -test', '-write -nrFiles 4', '-read -nrFiles 4'],
            ),
            ('nnbench', ['-operation create_write -maps 4']),
            ('nnbench-open', ['-operation open_read -maps 4']),
            ('nnbench-delete', ['-operation delete -maps 4']),
            ('mrbench', ['-numRuns 10 -maps 4 -reduces 1 -inputLines 4']),
        ):
            result = self.run_job(program)
            name = program.removeprefix('write-and-')
            if 'nnbench' in program:
                name = 'nnbench, UTC'
            self.assertEqual((0, f'result of {name}\n'), result_of(result))
            calls = log.read_text().splitlines()
            self.assertEqual(len(lines), len(calls))
            for part, call in zip(lines, calls, strict=True):
                self.assertIn(part, call)
                self.assertIn('/benchmarks/ab12/', call)
                self.assertIn('-3.5.0-tests.jar', call)
            self.assertIn(' -Dmapreduce.job.tags=ab12 -', calls[-1])
            self.assertIn('log of the job', result.stderr)
            log.unlink()

    def test_job_that_fails(self) -> None:
        self.make_hadoop()
        for program in ('write', 'read', 'nnbench', 'mrbench'):
            result = self.run_job(program, HADOOP_FAILS='yes')
            self.assertEqual((1, ''), result_of(result))
            self.assertIn('no DataNode', result.stderr)

    def test_job_without_the_jar(self) -> None:
        self.tool('hadoop', HADOOP)
        result = self.run_job('write')
        self.assertEqual((1, ''), result_of(result))
        self.assertIn(
            'hadoop-mapreduce-client-jobclient-tests.jar is not installed',
            result.stderr,
        )


def result_of(result: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Return the exit status and the standard output of a program."""
    return result.returncode, result.stdout
