# SPDX-License-Identifier: Apache-2.0
"""Size of the user data of a cluster's nodes."""

from collections.abc import Mapping

from hvstack import errors
from hvstack.results.typed_json import Json

#: Bytes of user data that Nova takes: 65535 characters in base64 (Compute
#: API, "Create server").
MAX_SIZE = 65535 // 4 * 3
#: Of these the template's own script, and two lines of a worker's place: a
#: hostId each, its address, and the longest name. No fewer.
_SCRIPT, _PLACE = 4096, 208


def compute_size(parameters: Mapping[str, Json]) -> int:
    """Return bytes of a controller's user data, at most.

    It has all files, and the place of every worker unless the controllers
    come first.

    :param parameters: of the cluster's template.
    """
    texts = sum(
        len(value.encode())
        for value in parameters.values()
        if isinstance(value, str)
    )
    workers = (
        0 if parameters.get('controllers_first') else count_workers(parameters)
    )
    return texts + _SCRIPT + workers * _PLACE


def count_workers(parameters: Mapping[str, Json]) -> int:
    """Return the number of workers, with and without data.

    :param parameters: of the cluster's template.
    """
    counts = (parameters.get('worker_count'), parameters.get('compute_count'))
    return sum(count for count in counts if isinstance(count, int))


def check(parameters: Mapping[str, Json]) -> None:
    """Refuse more user data than Nova takes.

    :param parameters: of the cluster's template.
    :raises hvstack.errors.InputError: there is more.
    """
    size = compute_size(parameters)
    if size > MAX_SIZE:
        raise errors.InputError(
            f'Cannot create a controller: its user data has {size} bytes, and '
            f'Nova accepts {MAX_SIZE} bytes. Shorten the site files.'
        )
