# SPDX-License-Identifier: Apache-2.0
"""Types of the results of commands, which cliff formats."""

from collections.abc import Sequence

from hvstack.model.plain_data import Json

#: Formats for programs, which have every number and no text instead of it.
DATA_FORMATS = ('json', 'yaml')
#: Values of the columns of a row.
Row = tuple[Json, ...]
#: Result of a ``Lister``: names of the columns, and rows.
Table = tuple[tuple[str, ...], Sequence[Row]]
#: Result of a ``ShowOne``: names of the fields, and their values.
Details = tuple[tuple[str, ...], Row]
