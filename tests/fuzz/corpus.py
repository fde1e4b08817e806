# SPDX-License-Identifier: Apache-2.0
"""Valid documents of every kind that hvstack reads, and who reads them.

Nothing of hvstack makes these documents, so that a case is the same on every
release.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hvstack.cluster import bare_metal, host_inventory
from hvstack.results import record as records
from tests.fuzz import calls
from tests.fuzz.mutations import Rules

#: Address that a cloud's entry has; replaced when a case is prepared.
CLOUD_URL = 'http://127.0.0.1:9/v3'


@dataclass(frozen=True)
class FileType:
    """A kind of file.

    :param path: where the file is, below the state directory, or below the
        working directory if it starts with ``work/``.
    :param data: a valid document.
    :param readers: command lines that read the file, in which ``FILE``
        stands for its path, or ``call:NAME`` for functions of
        :mod:`tests.fuzz.calls`.
    :param form: ``json``, ``yaml``, ``ini`` or ``lines``.
    :param seal: sets the fields that depend on the other fields.
    :param offline: whether the readers end well with the valid document;
        they do not where they need a cloud.
    :param other_files: other files that the readers need, by path.
    :param lenient: first words of readers that may pass over what is wrong
        without a word, since what they print does not depend on it.
    :param is_foreign: another program reads the file, and hands over data.
    :param mode: permission bits of the file.
    :param only_damage: the file's content does not count, only its type.
    :param is_known: whether the release reads such files at all.
    """

    name: str
    path: str
    data: Any
    readers: tuple[tuple[str, ...], ...]
    rules: Rules = field(default_factory=Rules)
    form: str = 'yaml'
    seal: Callable[[Any], Any] | None = None
    offline: bool = True
    other_files: dict[str, Any] = field(default_factory=dict)
    lenient: tuple[tuple[str, ...], ...] = ()
    is_foreign: bool = False
    mode: int = 0o644
    only_damage: bool = False
    is_known: bool = True


SPECS = {
    'hw:cpu_cores': '7',
    'hw:cpu_policy': 'dedicated',
    'hw:cpu_sockets': '1',
    'hw:cpu_thread_policy': 'require',
    'hw:cpu_threads': '2',
    'hw:mem_page_size': 'large',
    'hw:numa_nodes': '1',
    'hw:pmem': 'a,b',
    'hw:cpu_dedicated_mask': '0-3,^1',
    'hw:numa_cpus.0': '0-13',
    'hw:numa_mem.0': '49152',
    'pci_passthrough:alias': 'nvme:1',
}

PROFILE = {
    'name': 'fuzz',
    'sockets': 2,
    'cores_per_socket': 14,
    'threads_per_core': 2,
    'memory_mib': 262144,
    'reserved_memory_mib': 65536,
    'cells': [
        {'cpus': '0-13,28-41', 'memory_mib': 131072},
        {'cpus': '14-27,42-55', 'memory_mib': 131072},
    ],
    'disks': {
        'count': 14,
        'size_gb': 1600,
        'rotational': False,
        'pci_alias': 'nvme',
    },
    'volumes': {'count': 4, 'size_gb': 400},
    'root_gb': 40,
    'controllers': 'combined',
    'traits': {'worker': 'CUSTOM_WORKER'},
    'large_pages': True,
    'policy': {'cpu_shares': True, 'secondary_namenode': False},
}

PROFILE_RULES = Rules(
    names=('name', 'traits.*', 'disks.pci_alias', 'controllers'),
    required=(
        'name',
        'sockets',
        'cores_per_socket',
        'threads_per_core',
        'memory_mib',
        'disks.count',
        'disks.size_gb',
        'volumes.count',
        'volumes.size_gb',
        'cells.*.cpus',
        'cells.*.memory_mib',
    ),
    strict=('', 'disks', 'volumes', 'traits', 'policy', 'cells.*'),
    bounded=(
        *('sockets', 'cores_per_socket', 'threads_per_core', 'memory_mib'),
        *('disks.count', 'disks.size_gb', 'volumes.count', 'root_gb'),
        *('volumes.size_gb', 'reserved_memory_mib', 'cells.*.memory_mib'),
    ),
    texts=('name', 'disks.pci_alias', 'controllers'),
)

EVIDENCE = {
    'percent': 97.5,
    'low': 95.1,
    'high': 99.8,
    'runs': 3,
    'size_bytes': 1000000000,
    'backend': 'kvm',
    'date': '2026-11-20',
    'releases': {'nova': '34.0.0', 'hadoop': '3.4.2', 'hvstack': '1.0'},
    'configuration': 'i4-c1-m1-local-dedicated-unpinned',
    'host': 'vsan',
    'sweep': 'sweep-20261120-101112-abcd',
    'digest': '0' * 64,
}


def _flavor(status: str, index: int) -> dict[str, Any]:
    return {
        'status': status,
        'configuration': 'i4-c1-m1-local-dedicated-unpinned',
        'name': f'hv-fuzz-worker-{index}',
        'role': 'worker',
        'vcpus': 14,
        'ram': 49152,
        'disk': 40,
        'ephemeral': index,
        'extra_specs': SPECS,
        'disks': 3,
        'disk_size_gb': 400,
        'description': 'worker of virtualized Hadoop',
        **({'evidence': EVIDENCE} if status == 'approved' else {}),
    }


CATALOGUE = {
    'host': 'vsan',
    'min_percent': 90,
    'flavors': [_flavor('candidate', 0), _flavor('approved', 1)],
}

CATALOGUE_RULES = Rules(
    names=('host', 'flavors.*.configuration', 'flavors.*.role'),
    required=(
        'host',
        'flavors',
        'flavors.*.name',
        'flavors.*.configuration',
        'flavors.*.vcpus',
        'flavors.*.ram',
        *(f'flavors.1.evidence.{name}' for name in EVIDENCE),
    ),
    strict=('', 'flavors.*', 'flavors.*.evidence'),
    bounded=(
        *('flavors.*.vcpus', 'flavors.*.ram', 'flavors.*.disks'),
        *('flavors.*.evidence.percent', 'flavors.*.evidence.runs'),
    ),
    texts=('host', 'flavors.*.name', 'flavors.*.configuration'),
)

SPACE = {
    'start': 'i1',
    'values': {
        'instances': [1, 2, 4],
        'cpu_ratio': [1, 2],
        'ram_ratio': [1, 1.2],
        'storage': ['local'],
        'cpu_policy': ['shared', 'dedicated'],
    },
}
SPACE_RULES = Rules(
    names=('start', 'values.storage.*', 'values.cpu_policy.*'),
    required=('values',),
    strict=('', 'values'),
    bounded=(
        *('values.instances.*', 'values.cpu_ratio.*'),
        'values.ram_ratio.*',
    ),
    texts=('start',),
)

INVENTORY: dict[str, Any] = {
    'key': 'key',
    'rootfs': 'key',
    'root': '/var/lib/hvstack-bare/root',
    'hosts': [
        {
            'name': name,
            'role': role,
            'address': f'10.0.0.{index}',
            'vcpus': 8,
            'memory_mib': 16384,
            'data': '/srv/hvstack-data',
            'cpu_cap': 4.5,
        }
        for index, (name, role) in enumerate(
            (('c1', 'controller'), ('w1', 'worker'), ('w2', 'worker')), 1
        )
    ],
}
# Releases that check host keys need to know what to do without them.
if hasattr(host_inventory, '_known_hosts'):
    INVENTORY['first_contact'] = 'accept'
INVENTORY_RULES = Rules(
    names=(
        *('key', 'root', 'hosts.*.name', 'hosts.*.role', 'hosts.*.address'),
        'hosts.*.data',
    ),
    required=(
        *('key', 'hosts', 'hosts.*.name', 'hosts.*.role'),
        *('hosts.*.address', 'hosts.*.vcpus', 'hosts.*.memory_mib'),
    ),
    strict=('', 'hosts.*'),
    bounded=('hosts.*.vcpus', 'hosts.*.memory_mib', 'hosts.*.cpu_cap'),
    texts=('hosts.*.name', 'hosts.*.address', 'key'),
)

BASELINE_HOSTS = [
    {
        'name': name,
        'role': role,
        'address': f'10.0.0.{index}',
        'vcpus': 8,
        'memory_mib': 16384,
        'enter': ['true'],
        'cpu_cap': 0.5,
        'memory_cap_mib': 2048,
        'backend': 'lxc',
    }
    for index, (name, role) in enumerate(
        (('c1', 'controller'), ('w1', 'worker')), 1
    )
]
BASELINE_RULES = Rules(
    names=('*.name', '*.role', '*.address', '*.backend'),
    required=(
        *('*.name', '*.role', '*.address', '*.vcpus', '*.memory_mib'),
        '*.enter',
    ),
    strict=(),
    bounded=('*.vcpus', '*.memory_mib', '*.cpu_cap', '*.memory_cap_mib'),
    texts=('*.name', '*.role', '*.address', '*.enter.*', '*.backend'),
)

TOPOLOGY = {
    f'worker-{index}': {'host': f'h{index}', 'rack': f'r{index % 2}'}
    for index in range(3)
} | {'controller-0': {'host': 'h9', 'rack': 'r1'}}
TOPOLOGY_RULES = Rules(
    names=('*.host', '*.rack'),
    required=('*', '*.host'),
    strict=('*',),
    texts=('*.host', '*.rack'),
)

PHASES = (
    ('HSGen', 0.25),
    ('HSDataCheck', 0.02),
    ('HSSort', 0.5),
    ('HSDataCheck', 0.02),
    ('HSValidate', 0.21),
)
#: Whether records are refused that no key has signed.
UNSIGNED = hasattr(records, 'signing')
SWEEP = 'quick-20261121-054500-abcd'
I1 = 'i1-c1-m1-local-shared-unpinned'


def _id(index: int) -> str:
    return f'00000000-0000-4000-8000-00000000000{index}'


def record(
    number: int, configuration: str, index: int, seconds: float
) -> dict[str, Any]:
    """Return a run record without its digest."""
    started = f'2026-11-21T05:{10 + number * 5}:00Z'
    if UNSIGNED:
        # Releases that check records against themselves need their facts,
        # and only those releases can import the factory.
        from tests.unit.results import factory

        run = factory.run(
            *(configuration, index, seconds), sweep=SWEEP, started=started
        )
        content: dict[str, Any] = json.loads(json.dumps(run.document))
        content['id'] = _id(number)
        return content
    is_baseline = configuration == 'bare-metal'
    facts: dict[str, Any] = {
        'cpu_model': 'Xeon',
        'hosts': ['hv-host1', 'hv-host2', 'hv-host3'],
        'worker_hosts': 2,
        'scale_model': True,
    }
    if not is_baseline:
        facts |= {'backend': 'lxc', 'nova': '34.0.0'}
    counters = {'Map input records': 10_000_000, 'Reduce output records': 3}
    return {
        'sweep': SWEEP,
        'kind': 'baseline' if is_baseline else 'configuration',
        'configuration': configuration,
        'index': index,
        'started': started,
        'ended': f'2026-11-21T05:{14 + number * 5}:00Z',
        'valid': True,
        'size_bytes': 10**9,
        'replication': 2,
        'maps': 6,
        'reduces': 6,
        'reason': '',
        'phases': [
            {
                'name': name,
                'seconds': seconds * part,
                'job_id': 'job_1_1',
                'counters': counters,
            }
            for name, part in PHASES
        ],
        'total_seconds': seconds,
        'rate': 10**9 / 1e12 / (seconds / 3600),
        'environment': facts,
        'seen': {
            'guest_vcpus': 1,
            'flavors': {'worker': {'vcpus': 1, 'ram': 1024}},
            'telemetry': {
                'file': 'telemetry/x.json',
                'sha256': '0' * 64,
                'source': 'sysstat',
                'interval': 5.0,
                'gaps': [],
                'phases': {'HSSort': {'seconds': 60.0, 'cpu': 10.0}},
                'nodes': {
                    'worker-0': {
                        'cpu': 100.0,
                        'steal': 1.0,
                        'role': 'worker',
                        'cpus': 2,
                        'seconds': 120.0,
                        'disks': {'sdb': {'read': 1.0, 'write': 2.0}},
                    }
                },
            },
        },
        'derived': True,
        'id': _id(number),
        'schema': 1,
        'digest': '',
    }


def seal(data: Any) -> Any:
    """Set the digest that a record's content has, if it can have one."""
    if isinstance(data, dict) and isinstance(data.get('digest'), str):
        content = {key: data[key] for key in data if key != 'digest'}
        text = json.dumps(content, sort_keys=True, separators=(',', ':'))
        data['digest'] = hashlib.sha256(text.encode()).hexdigest()
    return data


RECORDS = {
    f'records/2026112{index}T-{name}-{_id(index)}.json': seal(
        record(index, name, *arguments)
    )
    for index, (name, *arguments) in enumerate(
        (
            ('bare-metal', 0, 122.0),
            (I1, 0, 125.0),
            (I1, 1, 128.0),
            ('bare-metal', 1, 130.0),
        )
    )
}
RECORD_RULES = Rules(
    open=(
        'environment',
        'seen',
        'phases.*.counters',
        'phases.*.job_id',
        'reason',
    ),
    names=(
        *('sweep', 'kind', 'configuration', 'started', 'ended', 'id'),
        'phases.*.name',
    ),
    required=(
        *('sweep', 'kind', 'configuration', 'index', 'started', 'ended'),
        *('valid', 'size_bytes', 'replication', 'maps', 'reduces', 'reason'),
        *('phases', 'total_seconds', 'rate', 'environment', 'seen', 'id'),
        *('derived', 'schema', 'digest', 'phases.*.name'),
        'phases.*.seconds',
    ),
    bounded=('index', 'replication', 'maps', 'reduces'),
    texts=('sweep', 'kind', 'configuration', 'started', 'id'),
)

CONFIGURATION = {
    'instances': 1,
    'cpu_ratio': 1.0,
    'ram_ratio': 1.0,
    'storage': 'local',
    'cpu_policy': 'shared',
    'disk_pinning': False,
}
MARKER = {
    'schema': 2,
    'id': SWEEP,
    'configurations': [CONFIGURATION],
    'runs': 2,
    'size_bytes': 10**9,
    'started': '2026-11-21T05:00:00Z',
    'finished': False,
    'spec': {
        'strategy': 'one-at-a-time',
        'values': {'instances': [1, 2], 'cpu_ratio': [], 'storage': []},
        'start': CONFIGURATION,
        'host': 'vsan',
        'backend': 'lxc',
        'missing_capabilities': ['ceph'],
        'kit': '',
        'baseline': '',
        'allow': ['caps'],
    },
    'tuning': 'hvstack',
    'os_profile': 'vsphere6',
}
MARKER_RULES = Rules(
    names=(
        *('id', 'started', 'spec.strategy', 'spec.start.storage'),
        *('configurations.*.storage', 'configurations.*.cpu_policy'),
        *('spec.start.cpu_policy', 'spec.backend', 'tuning', 'os_profile'),
        'spec.missing_capabilities.*',
    ),
    required=(
        *('id', 'configurations', 'runs', 'size_bytes', 'started'),
        *('spec.strategy', 'spec.values', 'spec.start'),
        *('spec.host', 'spec.backend', 'schema'),
    ),
    strict=('', 'spec', 'spec.values', 'spec.start', 'configurations.*'),
    bounded=('runs', 'configurations.*.instances', 'spec.start.instances'),
    texts=(
        *('id', 'started', 'tuning', 'os_profile'),
        *('spec.strategy', 'spec.host'),
    ),
)
QUICK_MARKER = {**MARKER, 'spec': None}

TRIALS_ID = 'trials-20261121-054500-abcd'
TRIALS = {
    'id': TRIALS_ID,
    'configurations': ['bare-metal', I1],
    'trials': 3,
    'runs': 2,
    'size_bytes': 10**9,
    'before': ['', 'true'],
    'after': 'true',
}
TRIALS_RULES = Rules(
    names=('id', 'configurations.*'),
    required=('id', 'configurations', 'trials', 'runs', 'size_bytes'),
    bounded=('trials', 'runs'),
    texts=('id', 'configurations.*', 'before.*', 'after'),
)

SKIPPED = {'i2-c2': 'the hosts are in shared mode', 'i4': 'no Ceph'}

JOURNAL = {
    'kind': 'flavor',
    'data': {'name': 'hv-x', 'id': '1234'},
    'scope': 'http://127.0.0.1 p u',
    'owner': 'cluster',
    'pid': 4194303,
    'start': 1,
    'boot': 'x',
    'created_at': 1763700000.0,
    'id': '00000000-0000-4000-8000-000000000009',
}
# Fields of a newer release are left alone, so that its entries do not stop
# this one.
JOURNAL_RULES = Rules(
    open=('data',),
    strict=(),
    names=('kind', 'id'),
    required=(
        *(
            'kind',
            'data',
            'scope',
            'owner',
            'pid',
            'start',
            'boot',
            'created_at',
        ),
        'id',
    ),
    bounded=('pid',),
    texts=('kind', 'scope', 'owner', 'boot', 'id'),
)

ACQUIRED: dict[str, Any] = {
    'pid': 4194303,
    'started': 1,
    'hosts': [{'name': 'c1', 'release': ['true']}],
}
# Releases that do not store programs have an action.
if hasattr(bare_metal, 'actions'):
    ACQUIRED['hosts'] = [{'name': 'c1', 'action': 'release-lab-host'}]

#: A key pair and another machine's public key.
PRIVATE_KEY = [
    '-----BEGIN PRIVATE KEY-----',
    'MC4CAQAwBQYDK2VwBCIEIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g',
    '-----END PRIVATE KEY-----',
]
PUBLIC_KEYS = [
    f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{text}'
    for text in (
        'EPNwCPSLV+eEH0aBpNFfTXR0Q630hxyEZL1b13kBmXT a@b',
        'Ege3nctoVeFyeWaCGIBuMP5wwcSnj/G1/NKpN/tWBTl c@d',
    )
]
KEY_RULES = Rules(names=('*',), texts=('*',))
#: Releases before keys read none.
HAS_KEYS = UNSIGNED
KNOWN_HOSTS = [
    '# ADDRESS KEY SERVER_ID NAME, written by hvstack',
    f'10.0.0.1 {PUBLIC_KEYS[0].rpartition(" ")[0]} 1234 worker-0',
]
STAMP = {'created_by': 'hvstack', 'path': '/nowhere', 'inode': 4711}
OWNER = {'state': '/var/lib/hvstack'}
LAB_ID = ['00000000-0000-4000-8000-000000000009']

POWER = {'host': 'c1', 'command': 'true {host}'}
LAB_SETTINGS = {
    'hosts': 3,
    'fake_hosts': 0,
    'compute': 'auto',
    'host_compute': {'hv-host2': 'qemu'},
    'racks': 0,
    'ceph': False,
    'ceph_copies': 3,
    'options': {'anything': 1},
}
LAB_MARKS = {'identity': 'done', 'schema:nova': 'a1'}
RELEASE = {'path': '/opt/hadoop-3.5.0.tar.gz', 'sha256': 'f00d' * 16}

CONF = {
    'cloud': {
        'os_cloud': 'fuzz',
        'host_profile': 'vsan',
        'backend': 'lxc',
        'image': 'hvstack-hadoop',
        'network': 'provider',
        'stack_timeout': 900,
        'max_resources_per_stack': 1000,
        'ready_timeout': 300,
    },
    'hadoop': {'tuning': 'hvstack', 'os_profile': 'vsphere6'},
    'sweep': {'baseline_hosts': '/nowhere/baseline.json'},
    'telemetry': {'interval': 5.0},
}
CONF_RULES = Rules(
    strict=('', 'cloud', 'hadoop', 'sweep', 'telemetry'),
    names=('cloud.backend', 'hadoop.tuning', 'hadoop.os_profile'),
    bounded=(
        *('cloud.stack_timeout', 'cloud.ready_timeout'),
        'telemetry.interval',
    ),
)

CLOUDS = {
    'clouds': {
        'fuzz': {
            'auth': {
                'auth_url': CLOUD_URL,
                'username': 'admin',
                'password': 'secret',
                'project_name': 'admin',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            'region_name': 'RegionOne',
            'verify': True,
            'identity_api_version': '3',
        }
    }
}

ACCOUNTS = [
    {
        'username': 'demo',
        'password': 'secret',
        'project_name': 'demo',
        'user_domain_name': 'Default',
        'roles': ['member'],
    },
    {
        'username': 'admin',
        'password': 'secret',
        'project_name': 'admin',
        'types': ['admin'],
    },
]

TASK = {
    'sweep': 'quick',
    'size_bytes': 800_000_000,
    'runs': 2,
    'configurations': ['i1', 'i2-c2'],
}
TASK_RULES = Rules(
    names=('sweep', 'configurations.*'),
    strict=('',),
    bounded=('runs',),
)

HOSTS = {'profiles': {'lab-worker': {**PROFILE, 'name': 'lab-worker'}}}
HOSTS_RULES = Rules(
    names=('profiles.*.name',),
    required=('profiles.*.sockets', 'profiles.*.memory_mib'),
    strict=('profiles.*',),
    bounded=('profiles.*.sockets', 'profiles.*.memory_mib'),
    texts=('profiles.*.name',),
)

ALL = (
    FileType(
        'host profile',
        'work/host.yaml',
        PROFILE,
        (
            ('host', 'show', 'FILE', '-f', 'json'),
            ('host', 'show', 'FILE'),
            ('flavor', 'derive', '--host', 'FILE', '--instances', '4'),
            ('flavor', 'catalogue', '--host', 'FILE', 'i2', 'i4-dedicated'),
            ('flavor', 'lint', 'good.yaml', '--host', 'FILE'),
            (
                *('cluster', 'size', '--host', 'FILE', '--hosts', '4'),
                *('--instances', '4'),
            ),
            (
                *('sweep', 'plan', '--host', 'FILE', '--backend', 'lxc'),
                *('--values', 'instances=1,2', '--run-seconds', '60'),
                *('--setup-seconds', '10'),
            ),
        ),
        PROFILE_RULES,
    ),
    FileType(
        'hosts of the lab',
        'lab/hosts.yaml',
        HOSTS,
        (('host', 'list'), ('host', 'show', 'lab-worker')),
        HOSTS_RULES,
    ),
    FileType(
        'catalogue',
        'work/catalogue.yaml',
        CATALOGUE,
        (
            ('flavor', 'lint', 'FILE'),
            ('flavor', 'lint', 'FILE', '-f', 'json'),
            ('flavor', 'lint', 'FILE', '-f', 'sarif'),
            ('flavor', 'lint', 'FILE', '-f', 'junit'),
        ),
        CATALOGUE_RULES,
    ),
    FileType(
        'catalogue for a cloud',
        'work/catalogue.yaml',
        CATALOGUE,
        (
            (
                *('flavor', 'diff', 'FILE', '--include-candidates'),
                *('--os-cloud', 'fuzz'),
            ),
            (
                *('flavor', 'publish', 'FILE', '--dry-run'),
                *('--include-candidates', '--os-cloud', 'fuzz'),
            ),
            ('flavor', 'approve', 'FILE', '--dry-run'),
            ('accept', '--catalogue', 'FILE', '--os-cloud', 'fuzz'),
        ),
        CATALOGUE_RULES,
        offline=False,
    ),
    FileType(
        'search space',
        'work/space.yaml',
        SPACE,
        (
            (
                *('sweep', 'plan', '--host', 'vsan', '--backend', 'lxc'),
                *('--space', 'FILE', '--run-seconds', '60'),
                *('--setup-seconds', '10'),
            ),
        ),
        SPACE_RULES,
    ),
    FileType(
        'inventory',
        'work/inventory.yaml',
        INVENTORY,
        (('call:hosts', 'FILE'),),
        INVENTORY_RULES,
    ),
    FileType(
        'baseline hosts',
        'lab/baseline.json',
        BASELINE_HOSTS,
        (('call:hosts', 'FILE'),),
        BASELINE_RULES,
        'json',
    ),
    FileType(
        'topology map',
        'work/map.yaml',
        TOPOLOGY,
        (('call:topology', 'FILE'),),
        TOPOLOGY_RULES,
    ),
    FileType(
        'run record',
        f'records/20261129T-i1-{_id(9)}.json',
        record(9, I1, 2, 126.0),
        (
            ('report',),
            ('report', '-f', 'json'),
            ('report', '-f', 'html'),
            ('report', '-f', 'csv'),
            ('report', '-f', 'junit'),
            ('report', '--baseline', 'auto'),
            ('sweep', 'list'),
            ('sweep', 'show', SWEEP),
            (
                *('sweep', 'plan', '--host', 'vsan', '--backend', 'lxc'),
                *('--values', 'instances=1,2', '--size', '1GB'),
            ),
        ),
        RECORD_RULES,
        'json',
        seal,
        other_files={**RECORDS, f'sweeps/{SWEEP}.json': MARKER},
        lenient=(('sweep', 'plan'), ('sweep', 'list'), ('sweep', 'show')),
    ),
    FileType(
        'baseline record',
        f'records/20261129T-bare-metal-{_id(9)}.json',
        record(9, 'bare-metal', 2, 124.0),
        (
            ('baseline', 'list'),
            ('baseline', 'show', '00000000-0000-4000-8000-000000000009'),
            ('baseline', 'import', '--records', 'work/records', 'FILE'),
            ('report', '--baseline', 'FILE'),
            ('report', '--baseline', 'auto'),
        ),
        RECORD_RULES,
        'json',
        seal,
        other_files=RECORDS,
    ),
    FileType(
        'sweep marker',
        f'sweeps/{SWEEP}.json',
        MARKER,
        (
            ('sweep', 'list'),
            ('report',),
            ('sweep', 'show', SWEEP),
            ('sweep', 'show', SWEEP, '-f', 'json'),
        ),
        MARKER_RULES,
        'json',
        other_files=RECORDS,
        lenient=(('report',),),
    ),
    FileType(
        'marker of a quick sweep',
        f'sweeps/{SWEEP}.json',
        QUICK_MARKER,
        (('sweep', 'list'), ('report',)),
        MARKER_RULES,
        'json',
        other_files=RECORDS,
        lenient=(('report',),),
    ),
    FileType(
        'trials marker',
        f'trials/{TRIALS_ID}.json',
        TRIALS,
        (('sweep', 'trials', 'show', TRIALS_ID),),
        TRIALS_RULES,
        'json',
        other_files=RECORDS,
    ),
    FileType(
        'skipped configurations',
        f'records/skipped/{SWEEP}.json',
        SKIPPED,
        (('report',), ('report', '-f', 'csv'), ('report', '-f', 'html')),
        Rules(strict=()),
        'json',
        other_files=RECORDS,
    ),
    FileType(
        'journal entry',
        'journal/1763700000.000000-flavor-x.json',
        JOURNAL,
        (('call:journal',), ('cluster', 'list')),
        JOURNAL_RULES,
        'json',
    ),
    FileType(
        'mark of acquired hosts',
        'journal/hosts/x.json',
        ACQUIRED,
        (('call:acquired',),),
        Rules(
            names=('hosts.*.name',),
            required=('pid', 'started', 'hosts', 'hosts.*.name'),
            bounded=('pid',),
            strict=(),
            texts=('hosts.*.name',),
        ),
        'json',
    ),
    FileType(
        'note of a host without power',
        'work/without-power-c1.json',
        POWER,
        (('call:power',),),
        Rules(
            names=('host',),
            required=('host', 'command'),
            texts=('host', 'command'),
        ),
        'json',
    ),
    FileType(
        'settings of the lab',
        'lab/settings.json',
        LAB_SETTINGS,
        (('call:lab',),),
        Rules(
            open=('options',),
            names=('compute', 'host_compute.*'),
            bounded=('hosts', 'fake_hosts', 'racks', 'ceph_copies'),
            texts=('compute', 'host_compute.*'),
        ),
        'json',
    ),
    FileType(
        'marks of the lab',
        'lab/marks.json',
        LAB_MARKS,
        (('call:lab',),),
        Rules(strict=(), texts=('*',)),
        'json',
    ),
    FileType(
        'chosen Hadoop release',
        'work/hadoop-tarball.json',
        RELEASE,
        (('call:release',),),
        Rules(
            names=('path', 'sha256'),
            required=('path', 'sha256'),
            texts=('path', 'sha256'),
        ),
        'json',
    ),
    FileType(
        'private key',
        'keys/ed25519',
        PRIVATE_KEY,
        (('key', 'show'),),
        Rules(names=('*',), texts=('*',), required=('*',)),
        'lines',
        mode=0o600,
        is_known=HAS_KEYS,
    ),
    FileType(
        'public key of the machine',
        'keys/ed25519.pub',
        PUBLIC_KEYS[:1],
        (('key', 'list'), ('report',)),
        KEY_RULES,
        'lines',
        other_files=RECORDS,
        is_known=HAS_KEYS,
    ),
    FileType(
        'trusted keys',
        'keys/trusted_keys',
        PUBLIC_KEYS,
        (('key', 'list'), ('report',)),
        KEY_RULES,
        'lines',
        other_files=RECORDS,
        is_known=HAS_KEYS,
    ),
    FileType(
        'revoked keys',
        'keys/revoked_keys',
        PUBLIC_KEYS,
        (('key', 'list'), ('report',), ('baseline', 'list')),
        KEY_RULES,
        'lines',
        other_files=RECORDS,
        is_known=HAS_KEYS,
    ),
    FileType(
        'key to trust',
        'work/key.pub',
        PUBLIC_KEYS[:1],
        (('key', 'trust', 'FILE'),),
        Rules(names=('*',), texts=('*',), required=('*',)),
        'lines',
        is_known=HAS_KEYS,
    ),
    FileType(
        'host keys of a cluster',
        'known_hosts/cluster',
        KNOWN_HOSTS,
        (('call:host_keys',),),
        form='lines',
        lenient=(('call:host_keys',),),
        is_known=calls.exists('cloud.host_keys:record'),
    ),
    FileType(
        'owner of the lab',
        'work/lab.json',
        OWNER,
        (('call:owner',),),
        Rules(required=('state',), texts=('state',)),
        'json',
    ),
    FileType(
        'stamp of a directory',
        'work/directory/.hvstack-directory.json',
        STAMP,
        (('call:stamp', 'directory'),),
        Rules(required=('created_by', 'path', 'inode'), texts=('*',)),
        'json',
        is_known=calls.exists('paths:STAMP'),
    ),
    FileType(
        'ID of the lab',
        'lab/id',
        LAB_ID,
        (('call:lab_id',),),
        form='lines',
        lenient=(('call:lab_id',),),
        is_known=calls.exists('lab.settings:lab_id'),
    ),
    *(
        FileType(
            f'lock of {name}',
            path,
            ['1234'],
            (('call:lock', name),),
            form='lines',
            only_damage=True,
            is_known=calls.exists(*calls.LOCKS[name]),
        )
        for name, path in (
            ('keys', 'keys/.lock'),
            ('measurements', 'sweeps/.lock'),
            ('journal', 'journal/.lock'),
            ('hosts', 'journal/hosts/lock'),
            ('images', 'work/.lock'),
            ('workspace', 'work/held'),
            ('cloud', 'accept/cloud.held'),
            ('lab', 'work/lab.lock'),
        )
    ),
    FileType(
        'hvstack.conf',
        'hvstack.conf',
        CONF,
        (('call:conf',),),
        CONF_RULES,
        'ini',
    ),
    FileType(
        'clouds.yaml',
        'work/clouds.yaml',
        CLOUDS,
        (
            ('flavor', 'list', '--os-cloud', 'fuzz'),
            ('doctor', '--os-cloud', 'fuzz', '--host', 'vsan'),
            ('sweep', 'recover', '--os-cloud', 'fuzz'),
            ('flavor', 'export', '--host', 'vsan', '--os-cloud', 'fuzz'),
            (
                *('cluster', 'environment', '--os-cloud', 'fuzz'),
                *('--worker-flavor', 'w', '--key-name', 'k'),
                *('--hosts', '4', '--configuration', 'i2'),
            ),
            ('cluster', 'show', 'x', '--os-cloud', 'fuzz'),
        ),
        Rules(open=('clouds',), strict=()),
        offline=False,
    ),
    FileType(
        'accounts.yaml',
        'work/accounts.yaml',
        ACCOUNTS,
        (('call:accounts', 'FILE'),),
        Rules(strict=()),
        offline=False,
    ),
    FileType(
        'Rally task arguments',
        'work/arguments.json',
        TASK,
        (('call:task', 'FILE'),),
        TASK_RULES,
        'json',
        is_foreign=True,
    ),
)
