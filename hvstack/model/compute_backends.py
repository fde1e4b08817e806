# SPDX-License-Identifier: Apache-2.0
"""Parameters and extra specs that each compute backend supports."""

import re

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor

#: Unsupported values by backend: parameter, value and reason. ``lxc`` refuses
#: dedicated CPUs and NUMA, omits ephemeral disks and fails to attach volumes.
_UNSUPPORTED: dict[str, tuple[tuple[str, str | bool, str], ...]] = {
    'kvm': (),
    'qemu': (),
    'lxc': (
        (
            'cpu_policy',
            'dedicated',
            "Nova's libvirt driver pins CPUs and NUMA cells for QEMU only",
        ),
        ('storage', 'ceph', 'containers cannot attach volumes'),
        ('disk_pinning', True, 'containers cannot attach volumes or devices'),
    ),
}

#: Unsupported extra specs by backend: expression of ``name=value``, and the
#: reason. A container has no sockets or cores, so ``hw:cpu_cores`` and similar
#: specs have no effect there.
_UNSUPPORTED_SPECS: dict[str, tuple[tuple[str, str], ...]] = {
    'kvm': (),
    'qemu': (),
    'lxc': (
        (
            'hw:cpu_policy=(dedicated|mixed)|hw:(cpu_dedicated_mask'
            '|cpu_realtime|cpu_thread_policy|emulator_threads_policy'
            '|locked_memory|mem_page_size|numa_|pmem).*',
            "Nova's libvirt driver pins CPUs and memory for QEMU only",
        ),
        ('pci_passthrough:.*', 'containers cannot attach devices'),
        ('quota:disk_.*', 'limits do not hold what containers buffer'),
    ),
}

BACKENDS = tuple(_UNSUPPORTED)
#: Backend with emulated CPUs: its results are valid, its times are not.
_EMULATED_BACKEND = 'qemu'
#: Backend whose guests write to the file system of their host.
_SHARED_DISK_BACKEND = 'lxc'
#: Factor of the timeouts of emulated guests.
_TIMEOUT_FACTOR = 6


def is_emulated(backend: str | None) -> bool:
    """Return whether CPUs are emulated, so that results are not compared."""
    return backend == _EMULATED_BACKEND


def has_data_disks(backend: str | None) -> bool:
    """Return whether guests have the data disks of their flavor."""
    return backend != _SHARED_DISK_BACKEND


def timeout_factor(backend: str) -> int:
    """Return the factor of the timeouts for the start of guests."""
    return _TIMEOUT_FACTOR if is_emulated(backend) else 1


def unsupported_parameter(
    configuration: Configuration, backend: str
) -> str | None:
    """Return the reason why a backend cannot run a configuration, or None.

    :param configuration: configuration to check.
    :param backend: name of the compute backend.
    :raises hvstack.errors.InputError: the backend is unknown.
    """
    if backend not in _UNSUPPORTED:
        raise errors.InputError(
            f"Cannot use compute backend '{backend}': hvstack does not know "
            f'it. Use one of {", ".join(BACKENDS)}.'
        )
    for parameter, value, reason in _UNSUPPORTED[backend]:
        if getattr(configuration, parameter) == value:
            return (
                f'{configuration.label}: backend {backend} cannot honour '
                f'{parameter} {value}: {reason}; take kvm or qemu'
            )
    return None


def unsupported_spec(flavor: Flavor, backend: str) -> str | None:
    """Return an unsupported property of a flavor with the reason, or None.

    :param flavor: flavor to check.
    :param backend: one of :data:`BACKENDS`.
    """
    if backend == 'lxc' and flavor.ephemeral:
        return 'ephemeral: Nova leaves ephemeral disks of containers out'
    for name, value in flavor.extra_specs.items():
        for pattern, reason in _UNSUPPORTED_SPECS[backend]:
            if re.fullmatch(pattern, f'{name}={value}'):
                return f'extra_specs.{name}: {reason}'
    return None
