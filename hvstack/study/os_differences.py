# SPDX-License-Identifier: Apache-2.0
"""Settings of the operating system in which two variants differ.

A node cannot apply each setting of its OS profile: containers have the kernel
and the disk of their host. Two variants whose profiles differ in such settings
alone measure the same.
"""

from collections.abc import Iterable
from dataclasses import replace

from hvstack import errors
from hvstack.hadoop import os_profiles
from hvstack.hadoop.os_profiles import Kind, Setting
from hvstack.results.record_data import RunRecord
from hvstack.study.variants import Variant

#: Key of the observation: ``name=value: reason`` of each setting.
_NOT_SET = 'os_not_set'


def list_not_set(run: RunRecord) -> list[str]:
    """Return the settings of a run's OS profile that were not in force.

    :returns: ``name=value: reason``, without those that no node applies
        itself.
    """
    lines = run.observations.facts.get(_NOT_SET)
    if not isinstance(lines, list | tuple):
        return []
    try:
        profile = os_profiles.settings(str(run.sut.facts.get('os_profile')))
    except errors.InputError:
        return []
    prefixes = tuple(
        _get_prefix(setting)
        for setting in profile
        if setting.kind is not Kind.ELSEWHERE
    )
    return [str(line) for line in lines if str(line).startswith(prefixes)]


def explain_equal(first: RunRecord, second: RunRecord) -> str:
    """Return why two runs with different OS profiles had the same settings.

    :returns: empty if the profiles are equal or unknown, or if a setting in
        which they differ was in force.
    """
    names = [str(run.sut.facts.get('os_profile')) for run in (first, second)]
    if names[0] == names[1]:
        return ''
    try:
        sides = [_list_own(*names), _list_own(*reversed(names))]
    except errors.InputError:
        return ''
    missing: list[str] = []
    for run, own_settings in zip((first, second), sides, strict=True):
        lines = list_not_set(run)
        for setting in own_settings:
            found_lines = [
                line for line in lines if line.startswith(_get_prefix(setting))
            ]
            if not found_lines:
                return ''
            missing += found_lines
    if not missing:
        return ''
    return (
        f"the OS profiles '{names[0]}' and '{names[1]}' differ only in "
        f'settings that were not in force: {"; ".join(missing)}'
    )


def find_equal(
    variants: Iterable[Variant], default_profile: str, backend: str
) -> dict[str, str]:
    """Return the variants that a backend cannot tell apart, with the reasons.

    :param variants: variants of a study.
    :param default_profile: OS profile of the variants that have none.
    :param backend: compute backend of the workers.
    """
    if backend != 'lxc':
        return {}
    reasons = {}
    all_variants = list(variants)
    for variant in all_variants:
        profile = variant.setup.os_profile or default_profile
        for other in all_variants:
            other_profile = other.setup.os_profile or default_profile
            if (
                profile != other_profile
                and _remove_profile(variant) == _remove_profile(other)
                and not any(
                    _is_effective_in_container(setting)
                    for names in (
                        (profile, other_profile),
                        (other_profile, profile),
                    )
                    for setting in _list_own(*names)
                )
            ):
                reasons[variant.name] = (
                    'backend lxc cannot honour the settings in which the OS '
                    'profiles of the variants differ: containers have the '
                    'kernel and the disk of their host; take kvm or qemu'
                )
    return reasons


def _list_own(profile: str, other: str) -> list[Setting]:
    """Return the settings of a profile that another one does not have."""
    others = {
        (item.kind, item.name, item.value)
        for item in os_profiles.settings(other)
    }
    return [
        item
        for item in os_profiles.settings(profile)
        if item.kind is not Kind.ELSEWHERE
        and (item.kind, item.name, item.value) not in others
    ]


def _is_effective_in_container(setting: Setting) -> bool:
    """Return whether a container may have a value of its own."""
    return setting.kind is Kind.LIMIT or (
        setting.kind is Kind.SYSCTL and setting.name.startswith('net.')
    )


def _get_prefix(setting: Setting) -> str:
    """Return the start of the line of a setting that was not in force."""
    if setting.kind is Kind.MOUNT:
        # Each option has a line of its own, or all of them have one.
        return 'mount='
    name = f'{setting.kind.value}.{setting.name}='
    if setting.kind is Kind.MKFS:
        return name
    return f'{name}{setting.value}: '


def _remove_profile(variant: Variant) -> Variant:
    """Return a variant without its name and its OS profile."""
    return replace(
        variant, name='', row='', setup=replace(variant.setup, os_profile=None)
    )
