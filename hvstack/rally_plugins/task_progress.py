# SPDX-License-Identifier: Apache-2.0
"""Progress of a Rally process."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hvstack.progress import Progress
from hvstack.results.record_data import RunRecord
from hvstack.results.timeline import Timeline
from hvstack.sweep import task_events
from hvstack.sweep.task_events import EventPipe


@dataclass
class TaskProgress(Progress):
    """Progress of a Rally process, which its parent process also gets.

    :param events: pipe to the parent process.
    :param timeline: timeline of the sweep of the current workload.
    """

    events: EventPipe = field(default_factory=EventPipe)
    timeline: Timeline = field(default_factory=Timeline)

    def span(self, name: str) -> AbstractContextManager[None]:
        """Return a context that measures a part of the sweep."""
        return self.timeline.span(name)

    def say(self, text: str, *, is_important: bool = False) -> None:
        """Print a line, and send it to the parent process."""
        super().say(text, is_important=is_important)
        self.events.send(task_events.Message(text))

    def report_record(self, run_record: RunRecord) -> None:
        """Send a saved record to the parent process."""
        self.events.send(
            task_events.SavedRecord(
                run_record.id,
                run_record.configuration,
                run_record.index,
                run_record.valid,
            )
        )
