# SPDX-License-Identifier: Apache-2.0
"""What Rally's end is taken for, with a program in its place."""

import contextlib
import io
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.progress import Progress
from hvstack.rally_plugins import task_progress
from hvstack.results import timeline
from hvstack.sweep import rallytask, task_events
from tests.unit.cluster.lab_tree import LabTree
from tests.unit.lab.written import LabProfiles

#: Where the program in Rally's place writes its events.
EVENTS = '/proc/self/fd/${HVSTACK_EVENTS%%:*}'
LOCKED = """\
Task is: ...
[00:03] ours
sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked
[SQL: UPDATE tasks SET status=? WHERE tasks.uuid = ?]
(Background on this error at: https://sqlalche.me/e/20/e3q8)
"""


class _Interrupting(io.StringIO):
    """A terminal whose user presses Ctrl-C when a text is shown."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def flush(self) -> None:
        super().flush()
        if self.text and self.text in self.getvalue():
            self.text = ''
            raise KeyboardInterrupt


class RallyTaskTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (
            ('paths.STATE', self.directory),
            ('cluster.baseline_hosts.LAB', self.directory / 'baseline.json'),
            ('cloud.journal.DIRECTORY', self.directory / 'journal'),
            ('sweep.sweep_store.RECORDS_DIR', self.directory / 'records'),
            ('sweep.rallyenv.find_program', lambda: self.directory / 'rally'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.stream = io.StringIO()
        self.options = {'backend': 'qemu'}

    def start(
        self,
        output: str,
        script: str = '',
        arguments: Mapping[str, rallytask.TaskArgument] | None = None,
        *,
        records_sweep: str = '',
    ) -> None:
        path = self.directory / 'rally'
        path.write_text(
            f"#!/bin/sh\ncat <<'EOF'\n{output}EOF\n{script}\nexit 1\n"
        )
        path.chmod(0o755)
        rallytask.run_task(
            *('sweep.yaml', arguments or {}, 'mine'),
            Progress(stream=self.stream),
            {'cloud': self.options},
            records_sweep=records_sweep,
        )

    def test_a_database_that_is_locked_meanwhile(self) -> None:
        error = self.assertRaises(errors.BusyError, self.start, LOCKED)
        self.assertIn('another process has locked', str(error))
        self.assertNotIn('\n', str(error))
        # The output is for the log.
        self.assertNotIn('ours', self.stream.getvalue())
        log = (self.directory / 'logs' / 'mine.log').read_text()
        self.assertEqual(LOCKED, log)

    def test_one_of_before_is_over(self) -> None:
        self.assertRaises(errors.BusyError, self.start, LOCKED)
        self.start('no such scenario\n')
        self.assertIn('no such scenario', self.stream.getvalue())
        self.assertNotIn('SQL', self.stream.getvalue())

    def test_it_takes_options_before_the_files(self) -> None:
        path = self.directory / 'seen'
        self.start('', f'echo $OS_CLOUD__BACKEND >{path}')
        self.assertEqual('qemu\n', path.read_text())

    def test_arguments_of_many_workloads(self) -> None:
        """An argument of a program has 128 KiB at most."""
        arguments = {
            'workloads': [
                {
                    'configuration': f'i{number}-c1-m1-local-dedicated-pinned',
                    'first_index': 0,
                    'sizes': [10**12],
                }
                for number in range(2000)
            ]
        }
        path = self.directory / 'seen'
        script = (
            'while [ $# -gt 1 ]; do\n'
            f'    [ "$1" != --task-args-file ] || cat "$2" >{path}\n'
            '    shift\ndone'
        )
        self.start('', script, arguments)
        self.assertEqual(arguments, json.loads(path.read_text()))

    def test_log_without_space(self) -> None:
        """The task, which measures for hours, does not end."""
        path = self.directory / 'ended'
        logs = self.directory / 'logs'
        logs.mkdir()
        (logs / 'mine.log').symlink_to('/dev/full')
        self.start('a line\n', f'touch {path}')
        self.assertTrue(path.exists())
        self.assertIn('a line', self.stream.getvalue())

    def test_caps_are_lifted_for_the_task(self) -> None:
        """Only where the hosts of the cloud are those of the lab."""
        self.useFixture(LabProfiles())
        lab = self.useFixture(LabTree(1, 'hv-host1'))
        host = {
            **{'name': 'hv-host1', 'role': 'worker', 'address': '10.0.0.2'},
            **{'vcpus': 2, 'memory_mib': 4096, 'enter': ['true']},
            **{'lab': True, 'cpu_cap': 0.65},
        }
        controller = {
            key: value for key, value in host.items() if key != 'cpu_cap'
        } | {'name': 'hv-host0', 'role': 'controller', 'address': '10.0.0.1'}
        (self.directory / 'baseline.json').write_text(
            json.dumps([host, controller])
        )
        path = self.directory / 'seen'
        script = f'cat {lab.cap("hv-host1")} >{path}'
        for profile, expected in (
            ('lab-worker', '-1'),
            ('vsphere6', '65000'),
        ):
            self.options = {'host_profile': profile}
            self.start('', script)
            self.assertEqual(expected, path.read_text().strip())
            self.assertEqual('65000', lab.cap('hv-host1').read_text().strip())

    def test_records_count_for_more_than_words(self) -> None:
        self.start(
            LOCKED,
            f'mkdir {self.directory}/records && '
            f'touch {self.directory}/records/one.json',
        )
        self.assertNotIn('without a run', self.stream.getvalue())

    def test_sweep_with_another_name_in_the_records(self) -> None:
        """A variant of a study, or a side of trials, has a timeline."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.timeline.TIMELINES_DIR', self.directory
            )
        )
        script = (
            f'mkdir -p {self.directory}/records\n'
            f'echo \'{{"sweep": "variant"}}\' >{self.directory}/records/x.json'
        )
        self.start('', script, records_sweep='variant')
        self.assertNotIn('without a run', self.stream.getvalue())
        (span,) = timeline.read_spans('variant')
        self.assertEqual(timeline.RALLY, span.name)
        self.assertEqual([], timeline.read_spans('mine'))
        self.assertTrue((self.directory / 'logs' / 'mine.log').exists())

    def test_messages_come_from_the_pipe(self) -> None:
        lines = (
            '{"event": "message", "text": "stack hv-i1: \\u2713"}',
            'torn {"event": "mess',
            '{"event": "message"}',
            '{"event": "message", "text": 5}',
            '{"event": "news", "text": "unknown"}',
            '[' * 5000,
            '{"event": "message", "text": "last"}',
        )
        text = '\n'.join(lines)
        self.start('', f"cat >{EVENTS} <<'EOF'\n{text}\nEOF")
        stored_lines = self.stream.getvalue().splitlines()
        messages = [line.partition('] ')[2] for line in stored_lines]
        self.assertEqual(['  stack hv-i1: \u2713', '  last'], messages[1:3])
        self.assertEqual(4, len(messages), messages)

    def test_a_saved_record_is_a_run(self) -> None:
        line = (
            '{"event": "record", "id": "a", "configuration": "bare-metal", '
            '"index": 0, "valid": false}'
        )
        self.start(LOCKED, f"echo '{line}' >{EVENTS}")
        self.assertNotIn('without a run', self.stream.getvalue())

    def test_interruption_shows_what_is_undone(self) -> None:
        """A task that prints nothing for long is killed."""
        script = (
            "trap 'say stack; ready=yes' INT\n"
            f'say() {{ echo "{{\\"event\\": \\"message\\", '
            f'\\"text\\": \\"$1\\"}}" >{EVENTS}; }}\n'
            'say first\n'
            'while [ ! $ready ]; do sleep 0.02; done\n'
        )
        for after, silence, expected in (
            ('say flavor', 15, ['stack', 'flavor']),
            (
                'sleep 20',
                0.5,
                [
                    'stack',
                    'Rally printed no line for 0.5 s and is killed. The next '
                    'hvstack command undoes what remains.',
                ],
            ),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.sweep.rallytask._END_SECONDS', silence
                )
            )
            self.stream = _Interrupting('first')
            begin = time.monotonic()
            self.assertRaises(
                KeyboardInterrupt, self.start, '', script + after
            )
            self.assertLess(time.monotonic() - begin, 15)
            lines = self.stream.getvalue().splitlines()
            messages = [line.partition('] ')[2].strip() for line in lines]
            self.assertEqual(
                ['Rally is undoing the changes of its task', *expected],
                messages[messages.index('first') + 1 :],
            )

    def test_a_program_that_keeps_the_pipe_ends_nothing(self) -> None:
        begin = time.monotonic()
        self.start('', 'sleep 20 >/dev/null 2>&1 & echo $!')
        self.assertLess(time.monotonic() - begin, 15)
        log = (self.directory / 'logs' / 'mine.log').read_text()
        os.kill(int(log), signal.SIGTERM)


class EventPipeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.source, self.sink = os.pipe()
        self.addCleanup(os.close, self.source)
        os.set_blocking(self.source, False)
        self.env = {
            task_events.VARIABLE: task_events.format_variable(self.sink)
        }

    def test_each_kind_of_event(self) -> None:
        self.addCleanup(os.close, self.sink)
        events = (
            task_events.Message('a\nb'),
            task_events.SavedRecord('id', 'bare-metal', 3, valid=True),
        )
        pipe = task_events.open_pipe(self.env)
        self.assertEqual({}, self.env)
        self.assertFalse(os.get_inheritable(self.sink))
        for event in events:
            pipe.send(event)
        lines = os.read(self.source, 4096).decode().splitlines()
        self.assertEqual(events, tuple(map(task_events.parse_event, lines)))

    def test_a_closed_pipe_is_left_alone(self) -> None:
        source, sink = os.pipe()
        self.addCleanup(os.close, sink)
        value = task_events.format_variable(sink)
        pipe = task_events.open_pipe({task_events.VARIABLE: value})
        os.close(source)
        pipe.send(task_events.Message('lost'))
        # Its number may be that of another file now.
        os.dup2(self.sink, sink)
        pipe.send(task_events.Message('lost'))
        self.assertRaises(BlockingIOError, os.read, self.source, 1)
        os.close(self.sink)

    def test_a_full_pipe_stops_nothing(self) -> None:
        self.addCleanup(os.close, self.sink)
        pipe = task_events.open_pipe(self.env)
        for _ in range(100):
            pipe.send(task_events.Message('x' * 5000))
        data = b''
        with contextlib.suppress(BlockingIOError):
            while True:
                data += os.read(self.source, 65536)
        pipe.send(task_events.Message('next'))
        data += os.read(self.source, 65536)
        events = [
            event
            for line in data.decode().split('\n')
            if (event := task_events.parse_event(line))
        ]
        self.assertEqual(task_events.Message('next'), events[-1])
        self.assertGreater(len(events), 5)

    def test_other_files_are_not_written_to(self) -> None:
        self.addCleanup(os.close, self.sink)
        number, _, inode = self.env[task_events.VARIABLE].partition(':')
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'file'
        with path.open('w') as stream:
            values = (
                '',
                number,
                f'{number}:{inode}0',
                f'x:{inode}',
                f'{"9" * 30}:{inode}',
                f'999:{inode}',
                task_events.format_variable(stream.fileno()),
            )
            for value in values:
                env = {task_events.VARIABLE: value}
                task_events.open_pipe(env).send(task_events.Message('x'))
            task_events.open_pipe({}).send(task_events.Message('x'))
        self.assertEqual('', path.read_text())
        self.assertRaises(BlockingIOError, os.read, self.source, 1)

    def test_progress_is_printed_and_sent(self) -> None:
        self.addCleanup(os.close, self.sink)
        stream = io.StringIO()
        progress = task_progress.TaskProgress(
            stream=stream, events=task_events.open_pipe(self.env)
        )
        with progress.stage('the stage'):
            progress.say('text')
        alone = io.StringIO()
        with task_progress.TaskProgress(stream=alone).stage('the stage'):
            pass
        self.assertIn('] text\n', stream.getvalue())
        self.assertIn('] the stage: 0 s\n', alone.getvalue())
        events = [
            task_events.parse_event(line)
            for line in os.read(self.source, 4096).decode().splitlines()
        ]
        self.assertEqual(
            [
                task_events.Message(text)
                for text in ('the stage ...', 'text', 'the stage: 0 s')
            ],
            events,
        )
