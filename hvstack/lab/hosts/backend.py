# SPDX-License-Identifier: Apache-2.0
"""Which compute backend a lab host can have on this machine."""

from collections.abc import Iterable

from hvstack import errors
from hvstack.lab.hosts import kvm_probe
from hvstack.lab.hosts.sizes import HostSize
from hvstack.progress import Progress


def resolve(compute: str, *, probing: bool = True) -> str:
    """Return the backend to use.

    :param compute: ``auto``, or one that must be had.
    :param probing: try whether KVM works if that is not known yet; without
        it ``auto`` may stay ``auto``.
    :raises hvstack.errors.MissingPrerequisiteError: ``kvm`` boots no kernel
        here.
    """
    if compute in ('lxc', 'qemu'):
        return compute
    works = kvm_probe.kvm_boots() if probing else kvm_probe.load_answer()
    if works is None:
        return compute
    if works:
        return 'kvm'
    if compute == 'kvm':
        raise errors.MissingPrerequisiteError(
            'Cannot use --compute kvm: no kernel boots under /dev/kvm on this '
            'machine. Use --compute lxc for speed, or qemu for all functions.'
        )
    return 'lxc'


def warn(hosts: Iterable[HostSize], progress: Progress) -> None:
    """Say what the user must know of the backends in use."""
    backends = {size.backend for size in hosts}
    if 'lxc' in backends:
        progress.say(
            'lxc: guests are containers on this kernel without user-id maps: '
            'for trusted work only, and no hypervisor is measured'
        )
    if 'qemu' in backends:
        progress.say('qemu: CPUs are emulated: it shows function, not speed')
