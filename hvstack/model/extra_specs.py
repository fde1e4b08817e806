# SPDX-License-Identifier: Apache-2.0
"""Extra specs that Nova knows, by name and value, for libvirt.

From Nova's documentation of extra specs, release 34. Nova itself checks
them from compute API microversion 2.86 on; here they are checked before
anything is published. Scopes that Nova does not know are free.
"""

import difflib
import re

_FLAG = '1|t|true|on|y|yes|0|f|false|off|n|no'
_COUNT = '[1-9][0-9]*'
_NUMBER = '[0-9]+'
#: Nova's own expression takes exponential time; this one accepts the same.
_CPUS = r'\^?[0-9]+(-[0-9]+|,\^?[0-9]+)*'
_GROUP = '[a-zA-Z0-9_-]{0,64}'

#: Value by name, both regular expressions that must match whole. Flags are
#: compared in lower case.
VALUE_PATTERNS: dict[str, str] = {
    'accel:device_profile': '.+',
    'aggregate_instance_extra_specs:.+': '.*',
    'capabilities:.+': '.*',
    'group_policy': 'isolate|none',
    'hw:boot_menu': _FLAG,
    'hw:cpu_cores': _COUNT,
    'hw:cpu_dedicated_mask': _CPUS,
    'hw:cpu_max_cores': _COUNT,
    'hw:cpu_max_sockets': _COUNT,
    'hw:cpu_max_threads': _COUNT,
    'hw:cpu_policy': 'dedicated|shared|mixed',
    'hw:cpu_realtime': _FLAG,
    'hw:cpu_realtime_mask': _CPUS,
    'hw:cpu_sockets': _COUNT,
    'hw:cpu_thread_policy': 'prefer|isolate|require',
    'hw:cpu_threads': _COUNT,
    'hw:emulator_threads_policy': 'isolate|share',
    'hw:ephemeral_encryption': _FLAG,
    'hw:ephemeral_encryption_format': 'plain|luks|luksv2',
    'hw:hide_hypervisor_id': _FLAG,
    'hw:locked_memory': _FLAG,
    'hw:mem_encryption': _FLAG,
    'hw:mem_encryption_model': 'amd-sev(-es|-snp)?|intel-tdx',
    'hw:mem_page_size': r'large|small|any|[0-9]+([kKMGT]i?)?(b|bit|B)?',
    r'hw:numa_cpus\.[0-9]+': _CPUS,
    r'hw:numa_mem\.[0-9]+': _COUNT,
    'hw:numa_nodes': _COUNT,
    'hw:pci_numa_affinity_policy': 'required|preferred|legacy|socket',
    'hw:pmem': '[a-zA-Z0-9_]+(,[a-zA-Z0-9_]+)*,?',
    'hw:pmu': _FLAG,
    'hw:redirected_usb_ports': '[0-9]|1[0-5]',
    'hw:serial_port_count': _NUMBER,
    'hw:sound_model': 'sb16|es1370|pcspk|ac97|ich6|ich9|usb|virtio',
    'hw:tpm_model': 'tpm-tis|tpm-crb',
    'hw:tpm_secret_security': 'user|host|deployment',
    'hw:tpm_version': r'1\.2|2\.0',
    'hw:usb_model': 'none|nec-xhci|qemu-xhci',
    'hw:vif_multiqueue_enabled': _FLAG,
    'hw:viommu_model': 'intel|smmuv3|virtio|auto',
    'hw:virtio_packed_ring': _FLAG,
    'hw:watchdog_action': 'none|pause|poweroff|reset|disabled',
    'hw_rng:allowed': _FLAG,
    'hw_rng:rate_bytes': _NUMBER,
    'hw_rng:rate_period': _NUMBER,
    'hw_video:ram_max_mb': _NUMBER,
    'os:secure_boot': 'disabled|required',
    'pci_passthrough:alias': r'[^:]+:[0-9]+(\s*,\s*[^:]+:[0-9]+)*',
    'quota:cpu_period': _NUMBER,
    'quota:cpu_quota': '-?[0-9]+',
    'quota:cpu_shares': _NUMBER,
    'quota:disk_(read|write|total)_(bytes|iops)_sec': _NUMBER,
    'quota:vif_(in|out)bound_(average|burst|peak)': _NUMBER,
    f'resources{_GROUP}:[A-Z0-9_]+': '-?[0-9]+',
    f'trait{_GROUP}:[A-Z0-9_]+': 'required|forbidden',
}

#: Scopes that Nova checks; in others a name is free.
_SCOPES = re.compile(
    'accel|aggregate_instance_extra_specs|capabilities|hw|hw_rng|hw_video|os'
    f'|pci_passthrough|quota|resources{_GROUP}|trait{_GROUP}'
)

#: Names that can be suggested for a misspelt one.
_SUGGESTIONS = tuple(
    name for name in VALUE_PATTERNS if re.fullmatch('[a-z_:]+', name)
)


def has_scope(name: str) -> bool:
    """Tell whether a name has a scope, or is one of Nova's without."""
    return ':' in name or name in VALUE_PATTERNS


def find_pattern(name: str) -> str | None:
    """Return what a spec's value must match; None if Nova knows no such."""
    for name_pattern, value in VALUE_PATTERNS.items():
        if re.fullmatch(name_pattern, name):
            return value
    return None


def is_known(name: str) -> bool:
    """Tell whether Nova accepts a name, also one of a scope not its own."""
    if find_pattern(name) is not None:
        return True
    scope, mark, _ = name.partition(':')
    return (
        bool(mark) and not _SCOPES.fullmatch(scope) and not find_nearest(name)
    )


def find_nearest(name: str) -> str | None:
    """Return the known name that a misspelt one most likely means."""
    matches = difflib.get_close_matches(name, _SUGGESTIONS, 1, cutoff=0.85)
    return matches[0] if matches else None


def is_valid(name: str, value: str) -> bool:
    """Tell whether a value fits; one of an unknown name always does."""
    expected_pattern = find_pattern(name)
    if expected_pattern is None:
        return True
    compared_value = value.lower() if expected_pattern == _FLAG else value
    return re.fullmatch(expected_pattern, compared_value) is not None
