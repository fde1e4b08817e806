# SPDX-License-Identifier: Apache-2.0
"""What nodes are and really get, as seen from within."""

import re
from collections.abc import Sequence
from typing import Any

from hvstack import errors
from hvstack.cluster.base import Node
from hvstack.hadoop.daemon_http import run_on_nodes

#: One "key=value" line each; what a node does not have stays out.
_HARDWARE = r"""
put() { [ -z "$2" ] || echo "$1=$2"; }
first() { cat "$1" 2>/dev/null | head -n 1; }
put cpu_model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
put smt "$(first /sys/devices/system/cpu/smt/active)"
put governor "$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
put thp "$(first /sys/kernel/mm/transparent_hugepage/enabled)"
"""
_LIBVIRT = """
put libvirt "$(PATH=$PATH:/usr/sbin libvirtd --version 2>/dev/null |
    sed 's/.* //')"
"""
_FACTS = r"""
put kernel "$(uname -r)"
put os_release "$(. /etc/os-release; echo "$PRETTY_NAME")"
put jre "$(json java)"
put hadoop "$(json hadoop)"
put image_digest "$(json digest)"
dev=$(ip -4 -o addr | sed -n "s:^[0-9]*\: \([^ ]*\) *inet $1/.*:\1:p")
put mtu "$(first "/sys/class/net/$dev/mtu")"
# File systems for data; the root file system counts where it is the only one.
put data_disks "$(df -P / /srv /srv/* /srv/data/* 2>/dev/null | awk '
NR == 2 { root = $1 }
NR > 2 && $1 != root && !seen[$1]++ { n++ }
END { print n ? n : 1 }')"
put disk "$(df -PT /srv | awk 'NR == 2 { print $2 }')"
"""
_JSON = (
    'json() { sed -n "s/.*\\"$1\\": *\\"\\([^\\"]*\\)\\".*/\\1/p" '
    '/etc/hvstack/image.json 2>/dev/null | head -n 1; }\n'
)

#: CPU seconds of busy children: user and system, after they are waited for.
_BUSY = """
cat /proc/uptime
for n in $(seq {count}); do timeout {seconds} sha256sum /dev/zero & done
wait
cat /proc/uptime
times
"""
_TIME = re.compile(r'(\d+)m([\d.]+)s')

#: A process killed in a capped group, or one of Hadoop's anywhere. Others that
#: the machine kills are no matter of the run.
_OOM = re.compile(
    r'oom-kill:constraint=CONSTRAINT_MEMCG|oom-kill:.*,task=java,'
    r'|[Oo]ut of memory: Killed process \d+ \(java\)'
)


def facts(node: Node) -> dict[str, str]:
    """Return what a node says of its hardware and software."""
    return _read_facts(
        node, f'set -- {node.address}\n{_JSON}{_HARDWARE}{_FACTS}'
    )


def host(node: Node) -> dict[str, str]:
    """Return what a host says that its guests, and Nova's API, do not."""
    return _read_facts(node, _HARDWARE + _LIBVIRT)


def _read_facts(node: Node, script: str) -> dict[str, str]:
    lines = node.run(script, timeout=60).stdout.splitlines()
    return dict(line.split('=', 1) for line in lines if '=' in line)


def cpu_shares(
    nodes: Sequence[Node], processors: int, seconds: int = 3
) -> dict[str, float]:
    """Measure the cores that each node gets when all are busy.

    :param processors: busy processes on each.
    :returns: CPU seconds per second, by node.
    :raises hvstack.errors.CommandFailed: a node cannot be measured.
    """
    command = _BUSY.format(count=processors, seconds=seconds)
    results = run_on_nodes(nodes, command, timeout=seconds * 10 + 60)
    return {
        node.name: cores(result.stdout)
        for node, result in zip(nodes, results, strict=True)
    }


def cores(text: str) -> float:
    """Return CPU seconds per second from what the busy loop printed."""
    lines = text.splitlines()
    try:
        uptime_before, ended = (float(line.split()[0]) for line in lines[:2])
        spent = sum(
            int(minutes) * 60 + float(seconds)
            for minutes, seconds in _TIME.findall(lines[3])
        )
        return round(spent / (ended - uptime_before), 3)
    except (ValueError, IndexError, ZeroDivisionError) as exc:
        raise errors.CommandFailed(['times'], 0, text) from exc


def oom_lines(nodes: Sequence[Node]) -> set[str]:
    """Return the kernel's lines about killing for want of memory.

    Nodes of one machine see the same kernel's log. A node whose log cannot
    be read adds none.
    """
    logs = run_on_nodes(nodes, 'dmesg', check=False, timeout=60)
    return set().union(*(oom(log.stdout) for log in logs))


def oom(log: str) -> set[str]:
    """Pick the lines about killing for want of memory."""
    return {line for line in log.splitlines() if _OOM.search(line)}


def memory(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return each node's memory in MiB, as it sees it."""
    results = run_on_nodes(
        nodes, "sed -n 's/^MemTotal: *//p' /proc/meminfo", timeout=60
    )
    return {
        node.name: int(result.stdout.split()[0]) // 1024
        for node, result in zip(nodes, results, strict=True)
        if result.stdout.split()
    }
