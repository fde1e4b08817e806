# SPDX-License-Identifier: Apache-2.0
"""Command line of the fuzzer: ``python -m tests.fuzz --seed 1``."""

import argparse
import gc
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any

#: Faults in the order of their weight.
CLASSES = {
    'internal': 'internal errors (a traceback or none of our exceptions)',
    'python': 'messages that speak Python',
    'hang': 'hangs (no end in time)',
    'accepted': 'wrong acceptances',
    'device': 'special files replaced',
    'unclear': 'unclear messages (neither file nor field, or Python)',
    'terminal': 'control characters printed',
    'formula': 'CSV cells that begin a formula',
}


def main() -> int:
    """Run the fuzzer, and print its counts.

    :returns: 1 if there is any fault, 2 if a valid document is refused.
    """
    args = _parse()
    if args.shard:
        return _shard(args)
    results = _run_shards(args)
    results.sort(key=lambda item: item['number'])
    counts = Counter(name for item in results for name in item['classes'])
    by_class: dict[str, Counter[str]] = {}
    for item in results:
        for name in item['classes']:
            by_class.setdefault(name, Counter())[item['group']] += 1
    for item in results:
        if item['classes'] and (args.verbose or 'control' in item['classes']):
            print(_text(item))
    _print_messages(args, results)
    cases = sum(item['number'] >= 0 for item in results)
    print(f'seed {args.seed}: {cases} inputs')
    for name, title in CLASSES.items():
        groups = ', '.join(
            f'{group} {count}'
            for group, count in by_class.get(name, Counter()).most_common()
        )
        print(f'{counts[name]:6} {title}' + (f': {groups}' if groups else ''))
    print(f'{counts["control"]:6} valid documents refused')
    if counts['control']:
        return 2
    return int(any(counts[name] for name in CLASSES))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m tests.fuzz')
    parser.add_argument('--seed', default='1', help='Seed (default: 1)')
    parser.add_argument(
        '--count', type=int, default=2000, help='Cases (default: 2000)'
    )
    parser.add_argument(
        '--jobs', type=int, default=2, help='Processes (default: 2)'
    )
    parser.add_argument('--only', default='', help='Regular expression')
    parser.add_argument('--case', type=int, help='Run this case alone')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument(
        '--tree',
        type=Path,
        default=Path.cwd(),
        help='Work tree whose hvstack is tested (default: this one)',
    )
    parser.add_argument('--messages', type=Path, help='File for 60 messages')
    parser.add_argument('--json', type=Path, help='File for all results')
    parser.add_argument('--shard', default='', help=argparse.SUPPRESS)
    return parser.parse_args()


def _link_tree(source: Path, tree: Path) -> None:
    """Make a directory with the code of a work tree and today's tests.

    The metadata of the work tree's commands come with it: those of the
    installed package may be of another commit.
    """
    tree.mkdir()
    for path in source.iterdir():
        if path.name != 'tests':
            (tree / path.name).symlink_to(path)
    (tree / 'tests').symlink_to(Path(__file__).resolve().parents[1])
    text = (source / 'pyproject.toml').read_text(encoding='utf-8')
    project = tomllib.loads(text)['project']
    metadata = tree / 'hvstack-0.dist-info'
    metadata.mkdir()
    (metadata / 'METADATA').write_text(
        'Metadata-Version: 2.1\nName: hvstack\nVersion: 0\n', encoding='utf-8'
    )
    lines = []
    for group, commands in project['entry-points'].items():
        lines.append(f'[{group}]')
        lines += [f'{name} = {value}' for name, value in commands.items()]
    (metadata / 'entry_points.txt').write_text(
        '\n'.join(lines) + '\n', encoding='utf-8'
    )


def _run_shards(args: argparse.Namespace) -> list[dict[str, Any]]:
    argv = ['--seed', args.seed, '--count', str(args.count)]
    argv += ['--only', args.only]
    if args.case is not None:
        argv += ['--case', str(args.case)]
    jobs = 1 if args.case is not None else args.jobs
    with tempfile.TemporaryDirectory(prefix='hvstack-fuzz-') as name:
        tree = Path(name) / 'tree'
        _link_tree(args.tree.resolve(), tree)
        processes = []
        for shard in range(jobs):
            state = Path(name) / f'{shard}'
            state.mkdir()
            log = Path(name) / f'{shard}.json'
            process = subprocess.Popen(
                [
                    *(sys.executable, '-m', 'tests.fuzz', *argv),
                    *('--shard', f'{shard}/{jobs}', '--json', str(log)),
                ],
                cwd=tree,
                env={
                    **os.environ,
                    'HVSTACK_STATE_DIR': str(state),
                    'HVSTACK_ETC_DIR': str(state / 'etc'),
                    'PYTHONPATH': str(tree),
                },
            )
            processes.append((process, log))
        results = []
        for process, log in processes:
            if process.wait():
                raise SystemExit('a part of the fuzzer failed, see above')
            text = log.read_text(encoding='utf-8')
            results += [json.loads(line) for line in text.splitlines()]
    if args.json:
        text = '\n'.join(json.dumps(item) for item in results)
        args.json.write_text(text + '\n', encoding='utf-8')
    return results


def _shard(args: argparse.Namespace) -> int:
    """Run the cases of one process; the state directory is its own."""
    root = Path(os.environ['HVSTACK_STATE_DIR']).resolve()
    # Before the unit tests' package, which sets another state directory.
    import hvstack.paths

    assert Path(hvstack.__file__).is_relative_to(Path(sys.path[0]))
    assert root == hvstack.paths.STATE.resolve()
    from tests.fuzz import cases, corpus, sandbox, server

    if corpus.HAS_KEYS:
        from hvstack.results import signing

        # The unit tests' package set other directories.
        signing.KEYS, signing.ADMINISTRATOR = root / 'keys', root / 'etc'
    sandbox.isolate()
    server_pid, port = server.start()
    first, jobs = map(int, args.shard.split('/'))
    try:
        sandbox.load()
        gc.freeze()
        with args.json.open('w', encoding='utf-8') as log:
            control_messages: dict[Any, str] = {}
            for file_type in filter(attrgetter('is_known'), corpus.ALL):
                for reader in file_type.readers:
                    sandbox.empty(root)
                    case = cases.control(file_type, reader, root)
                    result = sandbox.run(-1, case, root)
                    control_messages[file_type.name, reader] = result.message
                    bad = set(result.classes) - {'unclear'}
                    if not first and (bad or (result.status and case.offline)):
                        result.classes = ['control']
                        log.write(result.line() + '\n')
            numbers = range(first, args.count, jobs)
            for case_index in numbers if args.case is None else [args.case]:
                rng = random.Random(f'{args.seed}:{case_index}')
                url = f'http://127.0.0.1:{port}/{args.seed}-{case_index}/v3'
                candidate = None
                while candidate is None:
                    sandbox.empty(root)
                    candidate = cases.make(rng, root, url)
                case = candidate
                if not re.search(args.only, case.group):
                    continue
                result = sandbox.run(case_index, case, root)
                # What the valid document is refused for is no news.
                if result.message == control_messages.get(
                    (case.group, case.reader)
                ):
                    result.classes = [
                        name for name in result.classes if name != 'unclear'
                    ]
                log.write(result.line() + '\n')
                log.flush()
        sandbox.empty(root)
    finally:
        os.kill(server_pid, 9)
        os.waitpid(server_pid, 0)
    return 0


def _text(item: dict[str, Any]) -> str:
    message = ' '.join(item['message'].split())[-300:]
    return (
        f'{item["number"]:5} {"+".join(item["classes"])}: {item["group"]}, '
        f'{item["label"]!r}: {" ".join(item["argv"])!r:.120}\n'
        f'      {item["detail"]}\n      {message!r}'
    )


def _print_messages(
    args: argparse.Namespace, results: list[dict[str, Any]]
) -> None:
    """Write 60 messages, of as many groups as there are."""
    if not args.messages:
        return
    rng = random.Random(args.seed)
    groups: dict[str, list[dict[str, Any]]] = {}
    for item in results:
        if item['status'] > 0 and item['message']:
            groups.setdefault(item['group'], []).append(item)
    for items in groups.values():
        rng.shuffle(items)
    lines: list[str] = []
    while len(lines) < 60 and any(groups.values()):
        for group, items in groups.items():
            if items and len(lines) < 60:
                item = items.pop()
                text = ' '.join(item['message'].splitlines()[-1].split())
                lines.append(f'{group}, {item["label"]}:\n    {text}')
    args.messages.write_text('\n'.join(lines) + '\n', encoding='utf-8')


if __name__ == '__main__':
    sys.exit(main())
