# SPDX-License-Identifier: Apache-2.0
"""Rules of the lint for extra specs.

``doc/source/user/lint.md`` describes each rule.
"""

from hvstack.model.catalogue import CatalogueEntry
from hvstack.model.extra_specs import ExtraSpecs
from hvstack.model.guest_shape import FieldMessages, is_dedicated
from hvstack.model.host import HostProfile


def check_spec_scopes(
    known_specs: ExtraSpecs, entry: CatalogueEntry
) -> FieldMessages:
    """Yield extra specs without a scope (HV009)."""
    for key in entry.flavor.extra_specs:
        if not known_specs.has_scope(key) and not known_specs.find_nearest(
            key
        ):
            yield (
                f'extra_specs.{key}',
                'has no scope, which fails in AggregateInstanceExtraSpecs'
                f"Filter: write 'aggregate_instance_extra_specs:{key}'",
            )


def check_spec_names(
    known_specs: ExtraSpecs, entry: CatalogueEntry
) -> FieldMessages:
    """Yield unknown or misspelt extra specs (HV010)."""
    for key in entry.flavor.extra_specs:
        near = known_specs.find_nearest(key)
        if known_specs.is_known(key) or (
            not known_specs.has_scope(key) and not near
        ):
            continue
        meant = f"did you mean '{near}'" if near else 'remove it'
        yield f'extra_specs.{key}', f'Nova knows no such spec: {meant}'


def check_spec_values(
    known_specs: ExtraSpecs, entry: CatalogueEntry
) -> FieldMessages:
    """Yield values that Nova refuses (HV011)."""
    for key, value in entry.flavor.extra_specs.items():
        if not known_specs.is_valid(key, value):
            value_pattern = known_specs.find_pattern(key)
            yield (
                f'extra_specs.{key}',
                f"Nova refuses '{value[:60]}': it must match {value_pattern}",
            )


def check_dedicated_ratios(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield dedicated flavors with a ratio (HV012)."""
    chosen = entry.configuration
    if is_dedicated(entry.flavor) and (
        chosen.cpu_ratio > 1 or chosen.ram_ratio > 1
    ):
        yield (
            'extra_specs.hw:cpu_policy',
            f'{chosen.label}: dedicated CPUs cannot be over-committed, take '
            'ratios of 1',
        )


def check_locked_memory(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield locked memory without a page size (HV013)."""
    specs = entry.flavor.extra_specs
    locked = specs.get('hw:locked_memory', 'false').lower()
    if locked in ('true', '1', 'yes', 'on', 't', 'y') and (
        'hw:mem_page_size' not in specs
    ):
        yield (
            'extra_specs.hw:locked_memory',
            'Nova refuses locked memory without hw:mem_page_size: add it',
        )


def check_numa_specs(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield NUMA specs without dedicated CPUs (HV014)."""
    if is_dedicated(entry.flavor):
        return
    for key in ('hw:numa_nodes', 'hw:mem_page_size'):
        if key in entry.flavor.extra_specs:
            yield (
                f'extra_specs.{key}',
                'makes a NUMA guest, whose floating vCPUs cannot be '
                'over-committed in a cell: take dedicated CPUs or remove it',
            )
            return
