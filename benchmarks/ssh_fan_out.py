#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long hvstack needs to check the topology of many nodes over ssh.

The nodes are a stub: one sshd of this machine has all their addresses, and
answers the commands of the check as nodes of Hadoop with an empty HDFS would.
So this is the time of hvstack and of ssh alone, on a machine that also runs
the other ends of the connections. Times of nodes, networks and HDFS come on
top. The first check opens a connection to each node, the second one uses the
same connections, and 'close' closes them.

It runs in namespaces of its own, so that neither the network nor other
processes of this machine are used, and nothing remains. It needs root and
sshd (Debian: openssh-server): .venv/bin/python benchmarks/ssh_fan_out.py
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from growth_results import (
    CONTROLLERS,
    GOAL_EXPONENT,
    SIZES,
    WORKERS_PER_HOST,
    Size,
    fit_exponent,
    parse_sizes,
)

from hvstack import errors, processutils
from hvstack.cluster import topology_refresh
from hvstack.cluster.ssh import SSHNode
from hvstack.cluster.stack import StackCluster
from hvstack.cluster.topology_refresh import StackNode
from hvstack.model.topology import Topology

STAGES = ('first check', 'second check', 'close')
#: sshd of the stub needs a user and a directory, which this machine may lack.
NAMESPACE = """
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/shadow" /etc/shadow
"$2" -D -e -f "$1/sshd_config" 2>"$1/sshd.log" &
shift 2
exec "$@"
"""
#: All nodes are the same sshd, which would drop connections by its default.
CONFIG = """
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
ForceCommand sh {directory}/node
MaxStartups 1000
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""
#: What a node answers.
NODE = """
case "$SSH_ORIGINAL_COMMAND" in
"cat "*) cat {directory}/table ;;
*net.topology.impl*) echo org.apache.hadoop.net.NetworkTopologyWithNodeGroup ;;
*/jmx*) cat {directory}/hdfs.json ;;
*/ws/v1/cluster/nodes*) cat {directory}/yarn.json ;;
*fsck*) echo Status: HEALTHY ;;
esac
"""


def create_nodes(size: Size) -> list[StackNode]:
    """Return the nodes of a cluster, the controllers first.

    :param size: size of the cluster.
    """
    nodes = []
    for index in range(size.servers):
        worker = index - CONTROLLERS
        number = worker // WORKERS_PER_HOST if worker >= 0 else index
        nodes.append(
            StackNode(
                f'node{index}',
                f'127.1.{index // 250}.{index % 250 + 1}',
                'worker' if worker >= 0 else 'controller',
                f'server{index}',
                f'host{number}',
            )
        )
    return nodes


def write_answers(
    directory: Path, nodes: Sequence[StackNode], topology: Topology
) -> None:
    """Write what the nodes answer.

    :param topology: locations of the nodes.
    """
    paths = topology.map_paths(node_groups=True)
    workers = [node for node in nodes if node.role == 'worker']
    live = {
        node.name: {
            'xferaddr': f'{node.address}:9866',
            'location': paths[node.address],
        }
        for node in workers
    }
    running = [
        {
            'nodeHostName': node.name,
            'rack': paths[node.address],
            'state': 'RUNNING',
        }
        for node in workers
    ]
    answers = {
        'table': topology.format_table(node_groups=True),
        'hdfs.json': json.dumps({'beans': [{'LiveNodes': json.dumps(live)}]}),
        'yarn.json': json.dumps({'nodes': {'node': running}}),
    }
    for name, text in answers.items():
        (directory / name).write_text(text, encoding='utf-8')


def write_files(directory: Path) -> None:
    """Write the keys and the configuration of the nodes' sshd."""
    for name in ('key', 'host_key'):
        processutils.run(
            [
                *('ssh-keygen', '-q', '-t', 'ed25519', '-N', ''),
                *('-f', directory / name),
            ]
        )
    host_key = (directory / 'host_key.pub').read_text(encoding='utf-8')
    texts = {
        'passwd': 'root:x:0:0:root:/root:/bin/sh\n'
        'sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n',
        'shadow': 'root:*:19000:0:99999:7:::\n',
        'sshd_config': CONFIG.format(directory=directory),
        'node': NODE.format(directory=directory),
        'known_hosts': f'127.1.* {host_key}',
    }
    for name, text in texts.items():
        (directory / name).write_text(text, encoding='utf-8')


def read_cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children."""
    usages = map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def read_client_mib(directory: Path) -> float:
    """Return the memory (PSS) of the ssh clients with open connections."""
    kib = 0
    for path in Path('/proc').glob('[0-9]*'):
        try:
            command = (path / 'cmdline').read_bytes()
            text = (path / 'smaps_rollup').read_text(encoding='utf-8')
        except OSError:
            continue
        if command.startswith(b'ssh') and os.fsencode(directory) in command:
            kib += next(
                int(line.split()[1])
                for line in text.splitlines()
                if line.startswith('Pss:')
            )
    return kib / 1024


def measure_size(directory: Path, size: Size) -> dict[str, dict[str, float]]:
    """Return the seconds, CPU seconds and MiB of each stage.

    :raises hvstack.errors.HVStackError: a node does not answer, or the check
        finds a mismatch.
    """
    stack_nodes = create_nodes(size)
    topology = topology_refresh.of_nodes(stack_nodes)
    write_answers(directory, stack_nodes, topology)
    sockets = Path(tempfile.mkdtemp(prefix='s', dir=directory))
    controller, manager, *workers = [
        SSHNode(
            name=node.name,
            address=node.address,
            role=node.role,
            host=node.host,
            key=directory / 'key',
            directory=sockets,
            known_hosts=directory / 'known_hosts',
        )
        for node in stack_nodes
    ]
    cluster = StackCluster(
        name='nodes',
        gateway=controller,
        resourcemanager=manager,
        workers=[*workers],
        processors=1,
        directory=sockets,
    )

    def check() -> None:
        mismatches = topology_refresh.check(cluster, topology)
        if mismatches:
            raise errors.HVStackError(
                f'Cannot measure {size.servers} nodes: the check finds '
                f'{len(mismatches)} mismatches, such as {mismatches[0]}.'
            )

    rows = {}
    actions: tuple[Callable[[], None], ...] = (check, check, cluster.close)
    for stage, action in zip(STAGES, actions, strict=True):
        begin, cpu = time.monotonic(), read_cpu_seconds()
        action()
        rows[stage] = {
            'seconds': time.monotonic() - begin,
            'cpu_seconds': read_cpu_seconds() - cpu,
            'mib': read_client_mib(sockets),
        }
    return rows


def print_table(
    sizes: Sequence[Size], rows: Sequence[dict[str, dict[str, float]]]
) -> bool:
    """Print the results of all sizes; return whether a goal is missed."""
    header = ''.join(f'{size.workers:>10}' for size in sizes)
    is_missed = False
    for key, title in (
        ('seconds', f'seconds{header:>37}  exponent, goal {GOAL_EXPONENT}'),
        ('cpu_seconds', 'CPU seconds of hvstack and ssh'),
        ('mib', 'MiB of ssh (PSS), at the end'),
    ):
        print(title)
        for stage in STAGES:
            values = [row[stage][key] for row in rows]
            cells = ''.join(f'{value:>10.1f}' for value in values)
            exponent = fit_exponent(
                [
                    (size.servers, value)
                    for size, value in zip(sizes, values, strict=True)
                ]
            )
            if exponent is not None and key != 'mib':
                is_missed |= exponent > GOAL_EXPONENT
            slope = '-' if exponent is None else f'{exponent:.2f}'
            print(f'  {stage:12}{cells}  {slope}')
    return is_missed


def start_in_namespaces(argv: Sequence[str]) -> int:
    """Run this program again, with the sshd of the nodes.

    :raises hvstack.errors.HVStackError: root or sshd is missing.
    """
    path = f'{os.environ["PATH"]}:/usr/sbin:/usr/local/sbin'
    sshd = os.environ.get('SSHD') or shutil.which('sshd', path=path)
    if sshd is None or os.geteuid() != 0:
        raise errors.MissingPrerequisiteError(
            'Cannot start the nodes: root and sshd are required. Become root, '
            "and install it with 'apt-get install openssh-server', or name "
            'it in the variable SSHD.'
        )
    with tempfile.TemporaryDirectory(prefix='hv-') as directory:
        write_files(Path(directory))
        return subprocess.run(
            [
                *('unshare', '-n', '-m', '-p', '-f', '--mount-proc'),
                *('--kill-child', 'sh', '-e', '-c', NAMESPACE, 'sshd'),
                *(directory, sshd, sys.executable, __file__, *argv),
                *('--directory', directory),
            ],
            check=False,
        ).returncode


def main() -> int:
    """Measure and print; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--workers',
        type=parse_sizes,
        default=[Size(count) for count in SIZES],
        metavar='N,...',
        help='Numbers of workers (default: 40,160,640).',
    )
    parser.add_argument('--directory', type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        if args.directory is None:
            return start_in_namespaces(sys.argv[1:])
        rows = [measure_size(args.directory, size) for size in args.workers]
    except errors.HVStackError as exc:
        print(f'{Path(__file__).name}: {exc}', file=sys.stderr)
        return exc.exit_code
    return int(print_table(args.workers, rows))


if __name__ == '__main__':
    sys.exit(main())
