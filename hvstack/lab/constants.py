# SPDX-License-Identifier: Apache-2.0
"""The lab's fixed addresses, ports and names, and what templates are given.

One address, :data:`MGMT`, carries every API: the lab's management bridge.
"""

import base64
import struct
import uuid
from pathlib import Path
from typing import Any

from hvstack import paths
from hvstack.lab import pools, venv
from hvstack.lab import settings as lab_settings
from hvstack.model.cinder_conf import CINDER_FILTERS

#: Address of the control plane on the management bridge ``hv-mgmt``.
MGMT = '10.251.0.1'
#: The machine's address on the provider bridge ``hv-prov``.
PROVIDER = '10.252.0.1'
#: The machine's address on the bridge of bare metal's data, ``hv-data``.
DATA = '10.253.0.1'
#: Bridges in the machine's own network namespace, and their addresses.
BRIDGES = {
    'hv-mgmt': f'{MGMT}/24',
    'hv-prov': f'{PROVIDER}/24',
    'hv-data': f'{DATA}/24',
}
REGION = 'RegionOne'
#: Name of the flat provider network, and of its physical network.
PHYSNET = 'provider'
#: Likewise of the network on ``hv-data``, whose ports libvirt connects to the
#: hosts' links by macvtap, past Open vSwitch.
DIRECT_PHYSNET = 'direct'
#: VLAN on the links to ``hv-prov`` that has the tunnels of tenant networks.
TUNNEL_VLAN = 4094
#: Ports on :data:`MGMT`.
PORTS = {
    'keystone': 5000,
    'placement': 8778,
    'glance': 9292,
    'nova': 8774,
    'nova-metadata': 8775,
    'neutron': 9696,
    'heat': 8004,
    'heat-cfn': 8000,
    'rabbitmq': 5672,
    'ovn-sb': 6642,
    'cinder': 8776,
    'ceph-mon': 3300,
    'ceph-mon-v1': 6789,
}
#: Those of them that guests and other machines reach: APIs that ask for a
#: token, or for the signature of a signal (heat-cfn).
PUBLIC_PORTS = (
    'keystone',
    'placement',
    'glance',
    'nova',
    'neutron',
    'heat',
    'heat-cfn',
    'cinder',
)
#: Those of them that only a lab with Ceph uses, and that of Cinder.
CEPH_PORTS = ('ceph-mon', 'ceph-mon-v1')
CINDER_PORT = 'cinder'
#: Ports on the loopback interface.
LOOPBACK_PORTS = {'memcached': 11211, 'epmd': 4371, 'rabbitmq-dist': 25671}
#: Volume types that each host has as volume groups of its own, in a lab with
#: LVM.
LOCAL_SLOTS = pools.SLOTS[:2]
#: TCP port on which each host exports its volumes.
VOLUME_PORT = 4420
#: Services with a keystone user of their own.
SERVICE_USERS = ('placement', 'glance', 'nova', 'neutron', 'heat')


def url(service: str) -> str:
    """Return the base URL of an API of the lab's."""
    return f'http://{MGMT}:{PORTS[service]}'


def transport_url() -> str:
    """Return RabbitMQ's URL for oslo.messaging; it holds the password."""
    password = lab_settings.secret('rabbit')
    return f'rabbit://hvstack:{password}@{MGMT}:{PORTS["rabbitmq"]}/'


def database_user(database: str) -> str:
    """Return whose a database is: ``nova`` for ``nova_api``."""
    return database.partition('_')[0]


def database_url(name: str, sockets: Path = paths.RUN / 'mysql') -> str:
    """Return a database's SQLAlchemy URL; it holds the password.

    :param name: the database; its user is the part before a ``_``.
    :param sockets: directory of MariaDB's socket.
    """
    user = database_user(name)
    password = lab_settings.secret(f'db_{user}')
    return (
        f'mysql+pymysql://{user}:{password}@localhost/{name}'
        f'?unix_socket={sockets}/mysql.sock&charset=utf8mb4'
    )


def generated_uuid(name: str) -> str:
    """Return a generated UUID, the same one at every call."""
    return str(uuid.UUID(lab_settings.secret(name)))


def ceph_key(entity: str) -> str:
    """Return the generated key of a user or daemon of Ceph's.

    Its form is that of ``ceph-authtool --gen-key``: type (1 for AES), time
    of making, length, 16 random bytes.
    """
    raw = bytes.fromhex(lab_settings.secret(f'ceph_{entity}'))
    header = struct.pack('<HIIH', 1, 0, 0, len(raw))
    return base64.b64encode(header + raw).decode()


def compute_quotas() -> dict[str, int]:
    """Return the default quotas of a project for all hosts of the lab.

    A stack can use all hosts, with fake hosts: 20 workers and a controller,
    256 vCPUs and 512 GiB each. A lab with few hosts has the lower bounds.
    """
    loaded = lab_settings.load() or lab_settings.LabSettings()
    hosts = loaded.hosts + loaded.fake_hosts
    instances = max(500, 21 * hosts)
    return {
        'instances': instances,
        'cores': max(2000, 256 * hosts),
        'ram': max(4_000_000, 512 * 1024 * hosts),
        'ports': max(2000, 2 * instances),
    }


def cinder_filters() -> tuple[str, ...]:
    """Return the filters of Cinder's scheduler whose backends are on hosts.

    The setting ``locality`` of the lab can turn off the filter that selects
    the host of the server, to test what hvstack then does.
    """
    loaded = lab_settings.load() or lab_settings.LabSettings()
    if loaded.options.get('locality', True):
        return (*CINDER_FILTERS, 'InstanceLocalityFilter')
    return CINDER_FILTERS


def context() -> dict[str, Any]:
    """Return everything that templates of ``etc/lab`` may name.

    ``auth`` gives a service's ``[keystone_authtoken]``-like lines,
    ``password`` a generated secret.
    """
    return {
        'mgmt': MGMT,
        'provider': PROVIDER,
        'region': REGION,
        'physnet': PHYSNET,
        'direct_physnet': DIRECT_PHYSNET,
        'tunnel_vlan': TUNNEL_VLAN,
        'ports': PORTS,
        'loopback_ports': LOOPBACK_PORTS,
        'url': url,
        'transport_url': transport_url(),
        'database_url': database_url,
        'password': lab_settings.secret,
        'auth': auth,
        'generated_uuid': generated_uuid,
        'ceph_key': ceph_key,
        'osds': range(lab_settings.OSDS),
        'pools': pools.list_pools(
            lab_settings.load() or lab_settings.LabSettings()
        ),
        'lvm': lab_settings.has_lvm(),
        'host_affinity': lab_settings.has_host_affinity(),
        'slots': LOCAL_SLOTS,
        'volume_port': VOLUME_PORT,
        'cinder_filters': cinder_filters(),
        'quotas': compute_quotas(),
        'state': lab_settings.LAB,
        'run': paths.RUN,
        'etc': lab_settings.LAB / 'etc',
        'venv': venv.directory(),
    }


def auth(user: str, project: str = 'service') -> str:
    """Return keystoneauth's options for a service's user, as INI lines."""
    return '\n'.join(
        [
            'auth_type = password',
            f'auth_url = {url("keystone")}/v3',
            f'username = {user}',
            f'password = {lab_settings.secret(user)}',
            f'project_name = {project}',
            'user_domain_name = Default',
            'project_domain_name = Default',
            f'region_name = {REGION}',
        ]
    )


#: Begin of a command line. When the memory of the machine is used up, the
#: kernel ends processes of the lab before those of the user (proc(5)). Without
#: the right to set it, a score that is higher already remains.
FIRST_VICTIM = (
    *('/bin/sh', '-c'),
    '{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"',
    'sh',
)
