# SPDX-License-Identifier: Apache-2.0
"""The program that reports a ready node, or its error, to Heat."""

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools

from hvstack import processutils
from hvstack.lab.images import recipes

DIRECTORY = recipes.FILES / 'hadoop/usr/lib/hvstack'
#: A node whose daemons run for whoever asks.
NODE = '#!/bin/sh\necho "datanode $STATE"\n'
#: What the DataNode says once a NameNode has taken it in.
KNOWN = (
    '{"beans": [{"BPServiceActorInfo": "[{\\"ActorState\\":\\"RUNNING\\"}]"}]}'
)


class Heat(BaseHTTPRequestHandler):
    """Where signals go; refuses the first, as a busy service would."""

    signals: ClassVar[list[Any]] = []
    refusals: ClassVar[int] = 0

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers['Content-Length']))
        cls = type(self)
        busy = cls.refusals > 0
        cls.refusals -= 1
        if not busy:
            cls.signals.append((self.path, json.loads(body)))
        self.send_response(503 if busy else 200)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class ReadyTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if shutil.which('curl') is None:
            self.skipTest('curl, which guest images have, is not installed')
        Heat.signals.clear()
        self.server = HTTPServer(('127.0.0.1', 0), Heat)
        self.addCleanup(self.server.server_close)
        thread = threading.Thread(
            target=self.server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        self.addCleanup(self.server.shutdown)
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.programs = self.root / 'lib'
        self.programs.mkdir()
        for name in ('ready', 'hadoop-env'):
            text = (DIRECTORY / name).read_text()
            (self.programs / name).write_text(text)
        (self.programs / 'node').write_text(NODE)
        (self.root / 'proc').mkdir()
        (self.root / 'proc/uptime').write_text('31.07 1.00\n')
        self.says = self.root / 'says'
        self.says.write_text(KNOWN)
        busybox = self.programs / 'busybox'
        busybox.write_text('#!/bin/sh\ncat "$HVSTACK_ROOT/says"\n')
        busybox.chmod(0o755)
        self.port = self.server.server_address[1]
        self.env(f"READY_URL='http://127.0.0.1:{self.port}/wait?a=b&c=d'")

    def env(self, *lines: str) -> None:
        directory = self.root / 'etc/hvstack'
        directory.mkdir(parents=True, exist_ok=True)
        text = '\n'.join(['ADDRESS=10.0.0.2', 'ROLES=datanode', *lines])
        (directory / 'node.env').write_text(f'{text}\n')

    def ready(
        self, state: str = 'running 7', seconds: str = '9', **env: str
    ) -> int:
        return processutils.run(
            ['sh', self.programs / 'ready'],
            check=False,
            timeout=30,
            env={
                'HVSTACK_ROOT': str(self.root),
                'STATE': state,
                'READY_PAUSE': '0',
                'READY_SECONDS': seconds,
                'PATH': f'{self.programs}:{os.environ["PATH"]}',
                **env,
            },
        ).returncode

    def log(self, text: str) -> None:
        directory = self.root / 'var/log/hadoop'
        directory.mkdir(parents=True)
        (directory / 'datanode.log').write_text(text)

    def test_ready_once(self) -> None:
        Heat.refusals = 1
        for _ in range(2):
            self.assertEqual(0, self.ready())
        [(path, body)] = Heat.signals
        self.assertEqual('/wait?a=b&c=d', path)
        self.assertEqual('SUCCESS', body['status'])
        self.assertTrue(body['id'])

    def test_no_url_no_signal(self) -> None:
        self.env()
        self.assertEqual(0, self.ready('dead -'))
        self.assertEqual([], Heat.signals)

    def test_a_dead_daemon_is_named(self) -> None:
        self.says.write_text('')
        self.log('ERROR "disk"\\full\nat line\t2\n')
        self.assertEqual(0, self.ready('dead -'))
        [(_, body)] = Heat.signals
        self.assertEqual('FAILURE', body['status'])
        self.assertRegex(
            body['reason'], 'datanode is dead: .*ERROR disk full at line 2'
        )

    def test_a_daemon_that_is_unknown_is_named(self) -> None:
        self.says.write_text(KNOWN.replace('RUNNING', 'CONNECTING'))
        self.log('retrying\n')
        self.assertEqual(0, self.ready(seconds='0'))
        [(_, body)] = Heat.signals
        self.assertEqual('FAILURE', body['status'])
        self.assertIn('datanode is not known yet: ', body['reason'])
        self.assertIn('retrying', body['reason'])

    def test_a_node_waits_as_long_as_heat(self) -> None:
        """The operator of a large stack sets a longer readiness_timeout."""
        (self.programs / 'busybox').write_text(
            """#!/bin/sh
echo >>"$HVSTACK_ROOT/looks"
echo "$((900 * $(wc -l <"$HVSTACK_ROOT/looks"))).07 1.00" \\
    >"$HVSTACK_ROOT/proc/uptime"
"""
        )
        self.env(
            f"READY_URL='http://127.0.0.1:{self.port}/wait'",
            "READY_TIMEOUT='7200'",
        )
        self.assertEqual(0, self.ready(seconds=''))
        # The last look is in Heat's time, and later than before.
        looks = len((self.root / 'looks').read_text().splitlines())
        self.assertEqual(7200 * 14 // 15 // 900 + 1, looks)
        [(_, body)] = Heat.signals
        self.assertIn('datanode is not known yet', body['reason'])

    def test_a_clock_that_is_set_while_the_node_boots(self) -> None:
        """A machine with a wrong clock reported a failure at once."""
        date = self.programs / 'date'
        date.write_text(
            '#!/bin/sh\necho >>"$HVSTACK_ROOT/dates"\n'
            'echo $((86400 * $(wc -l <"$HVSTACK_ROOT/dates")))\n'
        )
        date.chmod(0o755)
        # The NameNode takes the node in a while later.
        (self.programs / 'busybox').write_text(
            """#!/bin/sh
echo >>"$HVSTACK_ROOT/looks"
[ "$(wc -l <"$HVSTACK_ROOT/looks")" -lt 3 ] || cat "$HVSTACK_ROOT/says"
"""
        )
        self.assertEqual(0, self.ready())
        [(_, body)] = Heat.signals
        self.assertEqual('SUCCESS', body['status'])

    def test_a_worker_waits_for_controllers_that_are_created_later(
        self,
    ) -> None:
        """Heat begins to count when it has created all nodes."""
        site = self.root / 'etc/hadoop/core-site.xml'
        site.parent.mkdir(parents=True)
        site.write_text(
            '<property><name>fs.defaultFS</name>'
            '<value>hdfs://10.0.0.1:8020</value></property>'
        )
        # The NameNode answers the third request for its web interface.
        (self.programs / 'busybox').write_text(
            """#!/bin/sh
case $* in *//10.0.0.1:9870/*)
    echo >>"$HVSTACK_ROOT/requests"
    [ "$(wc -l <"$HVSTACK_ROOT/requests")" -gt 2 ]
    exit ;;
esac
"""
        )
        self.assertEqual(0, self.ready(seconds='0'))
        requests = (self.root / 'requests').read_text().splitlines()
        self.assertEqual(3, len(requests))
        [(_, body)] = Heat.signals
        self.assertEqual('FAILURE', body['status'])

    def test_heat_that_does_not_answer_is_given_up(self) -> None:
        Heat.refusals = 99
        self.addCleanup(setattr, Heat, 'refusals', 0)
        self.assertEqual(1, self.ready(seconds='0'))
        self.assertFalse((self.root / 'var/lib/hvstack/ready').exists())
