# SPDX-License-Identifier: Apache-2.0
"""HDFS by its REST interface: no client's JVM has to start.

Hadoop 3.4, "WebHDFS REST API". It is on by default, and is asked on the
controller itself, as the daemons' user.
"""

import json
import shlex
from typing import Any
from urllib.parse import quote

from hvstack import errors
from hvstack.hadoop.rest import PORTS, Runner

_SECONDS = 60


def delete_path(controller: Runner, path: str) -> None:
    """Delete a file or a folder with all in it, past the trash.

    One that is not there is fine.

    :raises hvstack.errors.CommandFailed: it cannot be deleted.
    """
    answer = _request_json(controller, 'DELETE', path, 'DELETE&recursive=true')
    if 'boolean' not in answer:
        raise _error('DELETE', path, answer)


def list_names(controller: Runner, directory: str) -> list[str]:
    """Return what is in a folder; nothing where there is none.

    :raises hvstack.errors.CommandFailed: it cannot be listed.
    """
    answer = _request_json(controller, 'GET', directory, 'LISTSTATUS')
    failure = answer.get('RemoteException') or {}
    if failure.get('exception') == 'FileNotFoundException':
        return []
    try:
        statuses = answer['FileStatuses']['FileStatus']
        return [str(status['pathSuffix']) for status in statuses]
    except (KeyError, TypeError) as exc:
        raise _error('LISTSTATUS', directory, answer) from exc


def read_text(controller: Runner, path: str) -> str:
    """Return what a file holds.

    :raises hvstack.errors.CommandFailed: it cannot be read.
    """
    return _request(controller, 'GET', path, 'OPEN', '--fail')


def _request_json(
    controller: Runner, method: str, path: str, operation: str
) -> dict[str, Any]:
    output = _request(controller, method, path, operation)
    try:
        answer = json.loads(output)
    except ValueError as exc:
        raise _error(operation, path, output) from exc
    if not isinstance(answer, dict):
        raise _error(operation, path, output)
    return answer


def _request(
    controller: Runner, method: str, path: str, operation: str, *more: str
) -> str:
    url = (
        f'http://{controller.address}:{PORTS["namenode"]}/webhdfs/v1'
        f'{quote(path)}?op={operation}&user.name=root'
    )
    # A DataNode has what is in files: the NameNode redirects to it.
    args = [
        *('curl', '-sS', '--noproxy', '*', '-L', '-X', method),
        *('-m', str(_SECONDS), *more, url),
    ]
    return controller.run(shlex.join(args), timeout=90).stdout


def _error(operation: str, path: str, answer: object) -> errors.CommandFailed:
    return errors.CommandFailed(
        ['webhdfs', operation, path], 0, str(answer)[:300]
    )
