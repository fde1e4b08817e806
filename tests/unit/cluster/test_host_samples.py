# SPDX-License-Identifier: Apache-2.0
"""Samples of a compute host, as its sampler prints them."""

import re
import shutil
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils, shell_scripts
from hvstack.cluster import host_samples
from hvstack.results.host_telemetry import HostSeries

DATA = Path(__file__).parent / 'telemetry' / 'compute-host.txt'


class ParseTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.text = DATA.read_text()

    def build(self) -> HostSeries:
        """Return the series of the samples; the second request was quick."""
        return host_samples.build_series(
            'compute1',
            host_samples.parse(self.text),
            [5000.0, 5005.2, 5010.1, 5015.0],
        )

    def test_torn_sample_is_left_out(self) -> None:
        output = host_samples.parse(self.text)
        self.assertEqual(3, len(output.samples))
        self.assertEqual((100, 64), (output.ticks, output.cpus))

    def test_times_are_those_of_the_quickest_request(self) -> None:
        self.assertEqual([5000.2, 5005.2, 5010.2], self.build().times)

    def test_cpu_time_of_the_host(self) -> None:
        series = self.build()
        # User, nice, system and softirq time, without iowait and steal.
        self.assertEqual([4.0, 1.0], series.rates['busy'])
        self.assertEqual([0.1, 0.0], series.rates['steal'])
        self.assertEqual([2.6, 0.6], series.rates['guest_time'])
        self.assertEqual(64, series.cpus)

    def test_guests_have_emulators_and_threads_of_the_kernel(self) -> None:
        """Of the third sample, a guest is missing, and its number is used."""
        self.assertEqual(
            [(700 + 100 + 50 + 600 + 50) / 500, 200 / 500],
            self.build().rates['guests'],
        )

    def test_agents(self) -> None:
        """Ended children do not count, nor does the past of another name."""
        self.assertEqual(
            [(60 + 15 + 10 + 5 + 40 + 20 + 30 + 20) / 500, 10 / 500],
            self.build().rates['agents'],
        )

    def test_disks(self) -> None:
        disks = self.build().disks
        self.assertEqual({'sda', 'nvme0n1'}, set(disks))
        self.assertEqual(
            {
                'read': [102400.0, 0.0],
                'write': [204800.0, 0.0],
                'busy': [0.5, 0.0],
            },
            disks['sda'],
        )
        # A disk that was replaced counts from 0 again.
        self.assertEqual([40960.0, None], disks['nvme0n1']['read'])

    def test_disk_with_several_paths(self) -> None:
        expected = self.build().disks
        zeros = ' 0' * 17
        path = r'   0       0 nvme0c0n1\1'
        other_path = f'   0       0 nvme0c1n1{zeros}'
        for disk in (
            # Linux before 6.2 counts the paths, later versions the disk, too.
            f' 259       0 nvme0n1{zeros}',
            r'\g<0>',
        ):
            self.text = re.sub(
                r'(?m)^ 259       0 nvme0n1((?: \d+)+)$',
                f'{path}\n{other_path}\n{disk}',
                DATA.read_text(),
            )
            self.assertIn('nvme0c0n1 18211', self.text)
            self.assertEqual(expected, self.build().disks)

    def test_network_interfaces(self) -> None:
        series = self.build()
        self.assertEqual({'ens1f0', 'ens1f1'}, set(series.nics))
        expected = {
            'rx': [1e8, 0.0],
            'rx_packets': [80000.0, 0.0],
            'rx_dropped': [2.0, 0.0],
            'tx': [2e6, 0.0],
            'tx_packets': [2000.0, 0.0],
            'tx_dropped': [0.2, 0.0],
        }
        self.assertEqual(expected, series.nics['ens1f0'])
        for name, values in expected.items():
            self.assertEqual(values, series.rates[name])

    def test_kernel_without_guest_time(self) -> None:
        self.text = re.sub(r'(cpu ( \d+){8}) .*', r'\1', self.text)
        series = self.build()
        self.assertEqual([None, None], series.rates['guest_time'])
        self.assertEqual([4.0, 1.0], series.rates['busy'])

    def test_other_output(self) -> None:
        for text in (
            '',
            'Permission denied\n',
            self.text.replace('host 100', 'motd 100'),
            self.text.replace('cpu  ', 'cpu0 '),
            self.text.replace('sample 1000.00', 'sample now'),
        ):
            self.assertRaises(ValueError, host_samples.parse, text)

    def test_one_sample(self) -> None:
        self.text = self.text.partition('sample 1005')[0]
        self.assertRaises(ValueError, self.build)


class ProgramTest(testtools.TestCase):
    """The program on the host, with files as the kernel writes them."""

    def setUp(self) -> None:
        super().setUp()
        if not shutil.which('timeout'):
            self.skipTest('needs coreutils')
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        sample = DATA.read_text().partition('sample 1005')[0].splitlines()
        processes = [line for line in sample if re.match(r'\d+ \(', line)]
        for line in (*processes, '77 (bash) S 1 77 77 0 -1 4 8 0 0 0 9 9'):
            self.write(f'proc/{line.split()[0]}/stat', f'{line}\n')
        cpu = next(line for line in sample if line.startswith('cpu '))
        cpus = ''.join(f'cpu{index} 1 2 3 4\n' for index in range(4))
        self.write('proc/stat', f'{cpu}\n{cpus}intr 3 1\nctxt 8\n')
        self.write('proc/uptime', '1000.00 64000.00\n')
        disks = [line for line in sample if re.match(r' +\d+ +\d+ ', line)]
        partition = disks[0].replace('sda', 'sda1')
        self.write('proc/diskstats', '\n'.join([*disks, partition, '']))
        for name in ('sda', 'nvme0n1', 'dm-0', 'loop0'):
            self.write(f'sys/block/{name}/size', '1\n')
        nics = [line for line in sample if re.match(r' *\w+: \d', line)]
        tap = nics[-1].replace('ens1f1', 'tap01')
        self.write(
            'proc/net/dev',
            'Inter-|   Receive                   |  Transmit\n'
            ' face |bytes    packets errs drop   |bytes    packets\n'
            + '\n'.join([*nics, tap, '']),
        )
        for name in ('ens1f0', 'ens1f1'):
            self.write(f'sys/class/net/{name}/device/vendor', '0x8086\n')
        self.write('sys/class/net/tap01/address', '\n')

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_program(self, requests: str, idle: str = '5') -> str:
        program = (
            shell_scripts.load('compute-host-sampler')
            .replace('/proc/', f'{self.root}/proc/')
            .replace('/sys/', f'{self.root}/sys/')
        )
        return processutils.run(
            ['sh', '-c', program, 'sampler', idle, host_samples.PROCESSES],
            stdin=requests,
            check=False,
            timeout=20,
        ).stdout

    def test_a_sample_for_each_request_until_the_input_ends(self) -> None:
        output = host_samples.parse(self.run_program('\n\n'))
        self.assertEqual(4, output.cpus)
        self.assertEqual(2, len(output.samples))
        expected = host_samples.parse(DATA.read_text()).samples[0]
        for sample in output.samples:
            self.assertEqual(expected, sample)

    def test_host_without_interfaces_of_its_own(self) -> None:
        shutil.rmtree(self.root / 'sys/class')
        output = host_samples.parse(self.run_program('\n'))
        self.assertEqual(
            {'ens1f0', 'ens1f1', 'tap01'}, set(output.samples[0].nics)
        )

    def test_nothing_remains_without_requests(self) -> None:
        """The input stays open, as after the loss of a network."""
        script = self.root / 'program'
        script.write_text(
            shell_scripts.load('compute-host-sampler').replace(
                '/proc/', f'{self.root}/proc/'
            )
        )
        result = processutils.run(
            [
                *('sh', '-c'),
                'mkfifo "$1/input"; exec 3<>"$1/input"; '
                'sh "$0" 0.1 x <"$1/input"; echo ended',
                *(script, self.root),
            ],
            timeout=10,
        )
        self.assertIn('ended', result.stdout)
        self.assertNotIn('sample', result.stdout)
