#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Publishing flavors, beside Ansible and openstack-flavor-manager.

The same flavors of eight extra specs each are published to the lab's Nova
with hvstack, with Ansible's ``openstack.cloud.compute_flavor`` (of the package
``ansible``) and with ``openstack-flavor-manager``, in turns: first publish,
publish again, and a difference where the tool can tell one. The tools get
environments of their own in a temporary directory; what was made is deleted.
Run it on a lab that is up: .venv/bin/python benchmarks/flavors.py
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hvstack import processutils
from hvstack.cloud import connection, nova_flavors

BIN = Path(sys.executable).parent
CLOUD = 'hvstack-lab'
PREFIX = 'hv-bench-'
SPECS = {
    'hw:cpu_policy': 'dedicated',
    'hw:cpu_thread_policy': 'prefer',
    'hw:cpu_sockets': '1',
    'hw:cpu_threads': '1',
    'hw:emulator_threads_policy': 'share',
    'hw:mem_page_size': 'large',
    'hw:numa_nodes': '1',
    'hw:vif_multiqueue_enabled': 'true',
}
PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: {python}
  tasks:
    - openstack.cloud.compute_flavor:
        cloud: {cloud}
        name: "{{{{ item.name }}}}"
        vcpus: "{{{{ item.vcpus }}}}"
        ram: "{{{{ item.ram }}}}"
        disk: "{{{{ item.disk }}}}"
        is_public: false
        extra_specs: "{{{{ item.extra_specs }}}}"
      loop: "{{{{ flavors }}}}"
      loop_control:
        label: "{{{{ item.name }}}}"
"""


def flavors(count: int) -> list[dict[str, Any]]:
    """Return flavors, no two of one size."""
    return [
        {
            'name': f'{PREFIX}{index:03}',
            'vcpus': 1 + index % 8,
            'ram': 1024 + 256 * index,
            'disk': 10,
            # A copy: YAML would write an alias, which catalogues refuse.
            'extra_specs': dict(SPECS),
        }
        for index in range(count)
    ]


class Tools:
    """The three tools' commands for the same flavors.

    :param directory: for their environments and inputs.
    """

    def __init__(self, directory: Path, count: int) -> None:
        self.directory = directory
        self.flavors = flavors(count)

    def venv(self, name: str, *packages: str) -> Path:
        """Make an environment and return its directory of programs."""
        target = self.directory / name
        uv = str(BIN / 'uv')
        processutils.run([uv, 'venv', '-q', '-p', '/usr/bin/python3', target])
        processutils.run(
            [
                *(uv, 'pip', 'install', '-q', '-p'),
                *(str(target / 'bin/python'), *packages),
            ],
            timeout=1800,
        )
        return target / 'bin'

    def hvstack(self) -> dict[str, list[str]]:
        """Return the command lines of hvstack by kind of work."""
        path = self.directory / 'catalogue.yaml'
        data = {
            'host': 'vsphere6',
            'flavors': [
                {'role': 'worker', 'configuration': 'i1', **flavor}
                for flavor in self.flavors
            ],
        }
        path.write_text(yaml.safe_dump(data))
        arguments = [
            str(path),
            *('--include-candidates', '--no-lint', '-f', 'json'),
            *('--os-cloud', CLOUD),
        ]
        command = str(BIN / 'hvstack')
        again = [command, 'flavor', 'publish', *arguments]
        return {
            'first publish': again,
            'publish again': again,
            'difference': [command, 'flavor', 'diff', *arguments],
        }

    def ansible(self) -> dict[str, list[str]]:
        """Return the command lines of Ansible by kind of work."""
        # Its collection does not know later releases of the SDK.
        programs = self.venv('ansible', 'ansible', 'openstacksdk<=4.7.0')
        playbook = self.directory / 'playbook.yaml'
        playbook.write_text(
            PLAYBOOK.format(python=programs / 'python', cloud=CLOUD)
        )
        values = self.directory / 'values.yaml'
        values.write_text(yaml.safe_dump({'flavors': self.flavors}))
        again = [
            str(programs / 'ansible-playbook'),
            *('-i', 'localhost,', '-e', f'@{values}', str(playbook)),
        ]
        return {
            'first publish': again,
            'publish again': again,
            'difference': [*again, '--check', '--diff'],
        }

    def flavor_manager(self) -> dict[str, list[str]]:
        """Return the command lines of openstack-flavor-manager."""
        programs = self.venv('manager', 'openstack-flavor-manager')
        path = self.directory / 'definitions.yaml'
        data = {
            'reference': [{'field': 'public', 'default': False}],
            'mandatory': [
                {
                    **{key: flavor[key] for key in ('name', 'ram', 'disk')},
                    'cpus': flavor['vcpus'],
                    **SPECS,
                }
                for flavor in self.flavors
            ],
        }
        path.write_text(yaml.safe_dump(data))
        again = [
            str(programs / 'openstack-flavor-manager'),
            *('--name', 'local', '--url', f'file://{path}'),
            *('--cloud', CLOUD),
        ]
        return {'first publish': again, 'publish again': again}


def clean() -> int:
    """Delete the flavors, and return how many there were."""
    conn = connection.connect(CLOUD)
    published = [
        flavor
        for name, flavor in nova_flavors.list_flavors(conn).items()
        if name.startswith(PREFIX)
    ]
    for flavor in published:
        conn.compute.delete_flavor(flavor)
    return len(published)


def seconds(argv: list[str]) -> float:
    """Return how long a command takes."""
    begin = time.monotonic()
    # Ansible refuses to work where the locale is not UTF-8.
    processutils.run(argv, timeout=3600, env={'LC_ALL': 'C.UTF-8'})
    return time.monotonic() - begin


def main() -> int:
    """Measure and print a table; status 1 if a tool did not publish all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--flavors', type=int, default=200, metavar='N')
    count = parser.parse_args().flavors
    clean()
    with tempfile.TemporaryDirectory(prefix='hvbench') as directory:
        tools = Tools(Path(directory), count)
        makers: dict[str, Callable[[], dict[str, list[str]]]] = {
            'hvstack': tools.hvstack,
            'openstack-flavor-manager': tools.flavor_manager,
            'ansible': tools.ansible,
        }
        took: dict[tuple[str, str], float] = {}
        for name, maker in makers.items():
            commands = maker()
            try:
                for step, argv in commands.items():
                    took[name, step] = seconds(argv)
                    ratio = took[name, step] / took['hvstack', step]
                    print(
                        f'{name:25} {step:14} {took[name, step]:8.1f} s'
                        f' {ratio:7.1f} x',
                        flush=True,
                    )
            finally:
                published_count = clean()
            if published_count != count:
                print(f'{name} published {published_count} of {count} flavors')
                return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
