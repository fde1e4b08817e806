# SPDX-License-Identifier: Apache-2.0
"""What the cloud consists of, in a file that outlives the process."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from hvstack import paths

#: The directory has a short name: sockets of ssh below it have at most 107
#: characters.
BASE = Path('/var/lib/hvother')
REGION = 'other-1'
PROJECT = 'other-hadoop'
MEMBER, ADMIN = 'other-member', 'other-admin'
#: Entries of clouds.yaml: the member's password, his application credential,
#: the administrator, and the member without the certificate of the CA.
CLOUD, APPLICATION_CLOUD = 'other', 'other-app'
ADMIN_CLOUD, BLIND_CLOUD = 'other-admin', 'other-blind'
EXTERNAL = 'provider'
NETWORK, SUBNET, ROUTER = 'other-net', 'other-subnet', 'other-router'
CIDR, ADDRESSES = '10.77.0.0/24', '10.77.0.*'
#: Addresses of the network that network-new.yaml creates.
NEW_CIDR = '10.42.0.0/20'
WORKER_TRAIT = 'CUSTOM_OTHER_WORKER'
CONTROLLER_TRAIT = 'CUSTOM_OTHER_CONTROLLER'
#: Host profiles, which are in the names of the flavors.
WORKER_PROFILE, CONTROLLER_PROFILE = 'otherhosts', 'othercontrollers'
JUMP = 'other-jump'
IMAGE = 'hvstack-hadoop'
#: Name of the lab's own image while another one has its name.
HIDDEN_IMAGE = 'hvstack-hadoop-of-the-lab'


def has_tenant_network() -> bool:
    """Return whether clusters are on a network behind a router.

    ``HVSTACK_OTHER_CLOUD_NETWORK=tenant`` selects it. By default, clusters
    are on the flat network: the tunnels of the lab's userspace datapath carry
    no packets, so that nodes on other hosts than that of the router do not
    reach it.
    """
    return os.environ.get('HVSTACK_OTHER_CLOUD_NETWORK') == 'tenant'


class State:
    """IDs, passwords and results, stored at each change.

    :param path: file, readable by root alone.
    """

    def __init__(self, path: Path = BASE / 'state.json') -> None:
        self.path = path
        self.stage = ''
        self.values: dict[str, Any] = {}
        if path.exists():
            self.values = json.loads(path.read_text('utf-8'))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default for a missing one."""
        return self.values.get(key, default)

    def note(self, key: str, value: Any) -> None:
        """Store a value."""
        self.values[key] = value
        paths.write_whole(
            self.path, json.dumps(self.values, indent=1), mode=0o600
        )

    def append(self, key: str, value: Any) -> None:
        """Add a value to a list."""
        self.note(key, [*self.get(key, []), value])

    def expect(self, condition: object, message: str) -> bool:
        """Note a failure that later stages do not depend on.

        :param condition: what should be true.
        :param message: what is not as documented.
        :returns: whether the condition is true.
        """
        if not condition:
            say(f'NOT AS DOCUMENTED: {message}')
            self.append('failures', [self.stage, message])
        return bool(condition)

    def begin(self, stage: str) -> None:
        """Note that a stage begins, without failures of an earlier attempt."""
        self.stage = stage
        attempts = self.get('attempts', {})
        self.note('attempts', {**attempts, stage: attempts.get(stage, 0) + 1})
        self.note(
            'failures',
            [item for item in self.get('failures', []) if item[0] != stage],
        )

    def is_retry(self) -> bool:
        """Return whether the stage ran before."""
        return bool(self.get('attempts', {}).get(self.stage, 0) > 1)

    def list_failures(self) -> list[str]:
        """Return the failures of all stages as lines."""
        return [': '.join(item) for item in self.get('failures', [])]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, file=sys.stderr, flush=True)
