# SPDX-License-Identifier: Apache-2.0
"""Lint of a catalogue: does the set fit its host, and is it good practice.

An error cannot be scheduled, or over-subscribes what is approved. A warning
is against a best practice. ``doc/source/user/lint.md`` has a section for each
rule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.model.evidence_rules import (
    check_approved_ratios,
    check_evidence,
    check_evidence_values,
    check_pool_copies,
)
from hvstack.model.extra_specs import ExtraSpecs
from hvstack.model.guest_shape import FieldMessages
from hvstack.model.host import HostProfile
from hvstack.model.size_rules import (
    check_cell_sums,
    check_cells,
    check_disk_count,
    check_emulator_threads,
    check_guest_size,
    check_host_memory,
    check_instance_count,
    check_page,
)
from hvstack.model.spec_rules import (
    check_dedicated_ratios,
    check_locked_memory,
    check_numa_specs,
    check_spec_names,
    check_spec_scopes,
    check_spec_values,
)

ERROR = 'error'

WARNING = 'warning'


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    :param rule: its stable id.
    :param where: file and line.
    :param flavor: name of the flavor.
    :param field: of the flavor.
    :param message: what is wrong, and the remedy.
    """

    rule: str
    level: str
    where: str
    flavor: str
    field: str
    message: str

    def __str__(self) -> str:
        return (
            f'{self.where}: {self.rule} {self.level}: flavor '
            f"'{self.flavor}', {self.field}: {self.message}"
        )


#: (id, level, title, check).
Rule = tuple[
    str, str, str, Callable[[HostProfile, CatalogueEntry], FieldMessages]
]

SpecRule = tuple[
    str, str, str, Callable[[ExtraSpecs, CatalogueEntry], FieldMessages]
]


def check_catalogue(
    profile: HostProfile, catalogue: Catalogue, known_specs: ExtraSpecs
) -> list[Violation]:
    """Check every flavor alone, then the set.

    :param profile: the host that the catalogue is for.
    :param known_specs: extra specs that Nova knows.
    """
    violations = []
    for entry in catalogue.entries:
        messages_by_rule = [
            *(
                (rule, level, check(profile, entry))
                for rule, level, _, check in RULES
            ),
            *(
                (rule, level, check(known_specs, entry))
                for rule, level, _, check in SPEC_RULES
            ),
        ]
        violations += [
            _build_violation(rule, level, entry, field, message)
            for rule, level, messages in sorted(
                messages_by_rule, key=lambda row: row[0]
            )
            for field, message in messages
        ]
    return violations + list(_check_shapes(catalogue.entries))


def _build_violation(
    rule: str, level: str, entry: CatalogueEntry, field: str, message: str
) -> Violation:
    # Values of the file, which messages show, may have line separators.
    text = ' '.join(message.split())
    return Violation(
        rule,
        level,
        entry.source_location(field),
        entry.flavor.name,
        field,
        text,
    )


RULES: tuple[Rule, ...] = (
    ('HV001', ERROR, 'larger than its host', check_guest_size),
    ('HV002', ERROR, 'does not fit the NUMA cells', check_cells),
    ('HV003', ERROR, 'not all instances fit the host', check_instance_count),
    ('HV004', ERROR, 'NUMA cells do not add up', check_cell_sums),
    ('HV005', ERROR, 'page does not divide memory', check_page),
    ('HV006', ERROR, 'approved with a ratio', check_approved_ratios),
    (
        'HV007',
        WARNING,
        'leaves the host too little memory',
        check_host_memory,
    ),
    ('HV008', WARNING, 'many disks for one DataNode', check_disk_count),
    ('HV012', ERROR, 'dedicated with a ratio', check_dedicated_ratios),
    ('HV013', ERROR, 'locked memory without page size', check_locked_memory),
    ('HV014', WARNING, 'NUMA without dedicated CPUs', check_numa_specs),
    ('HV015', ERROR, 'no CPU for emulator threads', check_emulator_threads),
    ('HV016', ERROR, 'approved without evidence', check_evidence),
    ('HV018', ERROR, 'approved on a single copy', check_pool_copies),
    (
        *('HV019', ERROR, 'evidence contradicts itself'),
        check_evidence_values,
    ),
)

#: Rules that compare a flavor with the extra specs that Nova knows.
SPEC_RULES: tuple[SpecRule, ...] = (
    ('HV009', WARNING, 'extra spec without a scope', check_spec_scopes),
    ('HV010', ERROR, 'unknown or misspelt extra spec', check_spec_names),
    ('HV011', ERROR, 'value that Nova refuses', check_spec_values),
)

#: Role, vCPUs, MiB of memory, GB of disks, number of data disks, and specs.
_Shape = tuple[str, int, int, int, int, int, tuple[tuple[str, str], ...]]
#: The rule over the set: two names for one shape.
SET_RULE = ('HV017', WARNING, 'two names for one shape')


def _check_shapes(entries: Sequence[CatalogueEntry]) -> Iterator[Violation]:
    names_by_shape: dict[_Shape, str] = {}
    for entry in entries:
        flavor = entry.flavor
        shape = (
            flavor.role,
            flavor.vcpus,
            flavor.ram,
            flavor.disk,
            flavor.ephemeral,
            flavor.disks,
            tuple(sorted(flavor.extra_specs.items())),
        )
        if shape in names_by_shape:
            rule, level, _ = SET_RULE
            yield _build_violation(
                rule,
                level,
                entry,
                'name',
                f"is the same as '{names_by_shape[shape]}': remove one",
            )
        names_by_shape.setdefault(shape, flavor.name)
