# SPDX-License-Identifier: Apache-2.0
"""Which compute backend honours which parameter."""

from hvstack import errors
from hvstack.model.configuration import Configuration

#: What each backend cannot honour, as (parameter, value, why). ``lxc`` was
#: seen to refuse dedicated CPUs and NUMA, to leave out ephemeral disks and
#: to fail at volume attach.
_CANNOT: dict[str, tuple[tuple[str, object, str], ...]] = {
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

BACKENDS = tuple(_CANNOT)


def refuse(configuration: Configuration, backend: str) -> str | None:
    """Return why a backend cannot honour a configuration, or None.

    :raises hvstack.errors.InputError: the backend is unknown.
    """
    if backend not in _CANNOT:
        raise errors.InputError(
            f"compute backend is '{backend}': take one of "
            f'{", ".join(BACKENDS)}'
        )
    for parameter, value, why in _CANNOT[backend]:
        if getattr(configuration, parameter) == value:
            return (
                f'{configuration.label}: backend {backend} cannot honour '
                f'{parameter} {value}: {why}; take kvm or qemu'
            )
    return None
