# SPDX-License-Identifier: Apache-2.0
"""Extra specs that Nova knows, by name and value, for libvirt.

Nova itself checks them from compute API microversion 2.86 on; here they are
checked before anything is published. Scopes that Nova does not know are free.
``hvstack/share/extra-specs.yaml`` contains them.
"""

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ExtraSpec:
    """An extra spec of Nova.

    :param name: regular expression that a name must match as a whole.
    :param reason: effect of the extra spec.
    :param value: regular expression that a value must match as a whole.
    :param type: type of the value, instead of an expression.
    """

    name: str
    reason: str
    value: str = ''
    type: str = ''


@dataclass(frozen=True)
class ExtraSpecs:
    """All extra specs of Nova.

    :param scopes: regular expressions of the scopes that Nova checks; in
        others a name is free.
    :param types: regular expressions for values, by type; those of the type
        ``flag`` are compared in lower case.
    :param specs: extra specs; the first with a matching name counts.
    """

    scopes: tuple[str, ...]
    types: dict[str, str]
    specs: tuple[ExtraSpec, ...]

    def has_scope(self, name: str) -> bool:
        """Return whether a name has a scope, or is one of Nova's without."""
        return ':' in name or name in (spec.name for spec in self.specs)

    def find_pattern(self, name: str) -> str | None:
        """Return the expression for a value; None if Nova knows no such."""
        spec = self._find(name)
        return self.types.get(spec.type, spec.value) if spec else None

    def is_known(self, name: str) -> bool:
        """Return whether Nova accepts a name, also one of a free scope."""
        if self.find_pattern(name) is not None:
            return True
        scope, mark, _ = name.partition(':')
        return (
            bool(mark)
            and not re.fullmatch('|'.join(self.scopes), scope)
            and not self.find_nearest(name)
        )

    def find_nearest(self, name: str) -> str | None:
        """Return the known name that a misspelt one most likely means."""
        suggestions = [
            spec.name
            for spec in self.specs
            if re.fullmatch('[a-z_:]+', spec.name)
        ]
        matches = difflib.get_close_matches(name, suggestions, 1, cutoff=0.85)
        return matches[0] if matches else None

    def is_valid(self, name: str, value: str) -> bool:
        """Return whether a value fits; one of an unknown name always does."""
        spec = self._find(name)
        if spec is None:
            return True
        compared_value = value.lower() if spec.type == 'flag' else value
        pattern = self.types.get(spec.type, spec.value)
        return re.fullmatch(pattern, compared_value) is not None

    def _find(self, name: str) -> ExtraSpec | None:
        for spec in self.specs:
            if re.fullmatch(spec.name, name):
                return spec
        return None
