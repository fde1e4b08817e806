# SPDX-License-Identifier: Apache-2.0
"""HDFS by REST: answers as a NameNode of Hadoop 3.4.2 gave them."""

import json
import shlex
from typing import Any

import testtools

from hvstack import errors, processutils
from hvstack.hadoop import webhdfs

MISSING = {
    'RemoteException': {
        'exception': 'FileNotFoundException',
        'javaClassName': 'java.io.FileNotFoundException',
        'message': 'File /user does not exist.',
    }
}
DENIED = {'RemoteException': {'exception': 'AccessControlException'}}


class Controller:
    """A node whose curl prints what it is told."""

    name = 'c'
    address = '10.0.0.1'

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.command: list[str] = []

    def run(self, command: str, **_options: Any) -> processutils.Result:
        self.command = shlex.split(command)
        text = self.answer
        if not isinstance(text, str):
            text = json.dumps(text)
        return processutils.Result(0, text, '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


class WebHDFSTest(testtools.TestCase):
    def test_delete(self) -> None:
        for done in (True, False):  # False: there was nothing
            node = Controller({'boolean': done})
            webhdfs.delete_path(node, '/a b')
            self.assertIn('DELETE', node.command)
            self.assertEqual(
                'http://10.0.0.1:9870/webhdfs/v1/a%20b'
                '?op=DELETE&recursive=true&user.name=root',
                node.command[-1],
            )

    def test_names(self) -> None:
        statuses = [{'pathSuffix': 'gen'}, {'pathSuffix': 'in2'}]
        node = Controller({'FileStatuses': {'FileStatus': statuses}})
        self.assertEqual(['gen', 'in2'], webhdfs.list_names(node, '/b'))
        self.assertEqual([], webhdfs.list_names(Controller(MISSING), '/user'))

    def test_text(self) -> None:
        node = Controller('checksum\t4c\n')
        self.assertEqual('checksum\t4c\n', webhdfs.read_text(node, '/x'))
        self.assertIn('--fail', node.command)

    def test_other_answers_are_errors(self) -> None:
        for answer in (DENIED, '<html>', '', [1], {'FileStatuses': 1}):
            for ask in (webhdfs.delete_path, webhdfs.list_names):
                self.assertRaises(
                    errors.CommandError, ask, Controller(answer), '/x'
                )
