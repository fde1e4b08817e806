# SPDX-License-Identifier: Apache-2.0
"""Types of plain data, as JSON and YAML files contain it."""

from collections.abc import Mapping, Sequence

#: Plain data. Code narrows it with isinstance() before it uses a value.
Json = (
    bool | int | float | str | Sequence['Json'] | Mapping[str, 'Json'] | None
)
#: Plain data of a mapping, which its owner may change.
JsonObject = dict[str, Json]
