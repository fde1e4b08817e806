# SPDX-License-Identifier: Apache-2.0
"""Which compute backend honours which parameter and which extra spec."""

import re

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor

#: What each backend cannot honour, as (parameter, value, why). ``lxc`` was
#: seen to refuse dedicated CPUs and NUMA, to leave out ephemeral disks and
#: to fail at volume attach.
_UNSUPPORTED: dict[str, tuple[tuple[str, object, str], ...]] = {
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

#: Likewise for extra specs, as (expression of ``name=value``, why). A
#: container has no sockets or cores of its own, so ``hw:cpu_cores`` and the
#: like promise nothing there.
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
#: Its guests' CPUs are emulated: what they do is real, how fast is not.
_EMULATED_BACKEND = 'qemu'
#: How much longer than others its guests may take.
_TIMEOUT_FACTOR = 6


def is_emulated(backend: str | None) -> bool:
    """Tell whether CPUs are emulated, so that no figure is compared."""
    return backend == _EMULATED_BACKEND


def timeout_factor(backend: str) -> int:
    """Return how many times as long as usual guests may take to start."""
    return _TIMEOUT_FACTOR if is_emulated(backend) else 1


def unsupported_parameter(
    configuration: Configuration, backend: str
) -> str | None:
    """Return why a backend cannot honour a configuration, or None.

    :raises hvstack.errors.InputError: the backend is unknown.
    """
    if backend not in _UNSUPPORTED:
        raise errors.InputError(
            f"compute backend is '{backend}': take one of "
            f'{", ".join(BACKENDS)}'
        )
    for parameter, value, reason in _UNSUPPORTED[backend]:
        if getattr(configuration, parameter) == value:
            return (
                f'{configuration.label}: backend {backend} cannot honour '
                f'{parameter} {value}: {reason}; take kvm or qemu'
            )
    return None


def unsupported_spec(flavor: Flavor, backend: str) -> str | None:
    """Return what of a flavor a backend does not honour and why, or None.

    :param backend: one of :data:`BACKENDS`.
    """
    if backend == 'lxc' and flavor.ephemeral:
        return 'ephemeral: Nova leaves ephemeral disks of containers out'
    for name, value in flavor.extra_specs.items():
        for pattern, reason in _UNSUPPORTED_SPECS[backend]:
            if re.fullmatch(pattern, f'{name}={value}'):
                return f'extra_specs.{name}: {reason}'
    return None
