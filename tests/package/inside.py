# SPDX-License-Identifier: Apache-2.0
"""Checks that run in an installation, by its own interpreter.

This file is copied out of the clone, so that nothing of the clone can be
imported. It needs only the standard library and what is installed.
"""

import contextlib
import importlib
import io
import json
import pkgutil
import sys
from importlib import metadata
from pathlib import Path


def check_help() -> list[str]:
    """Return the commands whose ``--help`` fails."""
    from hvstack.cli import app

    failures = []
    entry_points = metadata.entry_points(group='hvstack.cli')
    for entry_point in entry_points:
        command = entry_point.name.split('_')
        output = io.StringIO()
        status: object = None
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            try:
                status = app.HVStack().run([*command, '--help'])
            except SystemExit as exc:
                status = exc.code or 0
        if status or 'usage:' not in output.getvalue():
            failures.append(f'{entry_point.name}: {output.getvalue()}')
    print(f'{len(entry_points)} commands')
    return failures


def check_imports() -> list[str]:
    """Return the modules that cannot be imported."""
    import hvstack

    failures = []
    for module in pkgutil.walk_packages(hvstack.__path__, 'hvstack.'):
        try:
            importlib.import_module(module.name)
        except Exception as exc:
            failures.append(f'{module.name}: {type(exc).__name__}: {exc}')
    return failures


def check_tasks() -> list[str]:
    """Return the Rally tasks that cannot be rendered or have errors."""
    import yaml
    from rally import api, plugins
    from rally.task import engine, task_cfg

    from hvstack import share

    plugins.load()
    rally_api = api._Task.__new__(api._Task)
    failures = []
    paths = sorted(Path(share.RALLY_TASKS).glob('*.yaml'))
    for path in paths:
        arguments = {}
        if path.name in ('study.yaml', 'sweep.yaml'):
            workload = {
                'title': 'i1, pass 1',
                'sweep': 'mine-v1',
                'configuration': 'i1',
                'first_index': 0,
                'sizes': [100_000_000],
                'size': 100_000_000,
            }
            arguments = {'sweep': 'mine', 'workloads': [workload]}
        try:
            text = rally_api.render_template(
                path.read_text('utf-8'), str(path.parent), **arguments
            )
            config = task_cfg.TaskConfig(yaml.safe_load(text))
            task = engine.TaskEngine(config, {'uuid': path.stem}, None)
            # What validate(only_syntax=True) calls, without a database.
            task._validate_config_syntax(config)
        except Exception as exc:
            failures.append(f'{path.name}: {type(exc).__name__}: {exc}')
    print(f'{len(paths)} tasks')
    return failures


def main() -> int:
    """Run the check that the command line names."""
    check = {
        'help': check_help,
        'imports': check_imports,
        'tasks': check_tasks,
    }[sys.argv[1]]
    failures = check()
    for failure in failures:
        print(json.dumps(failure), file=sys.stderr)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
