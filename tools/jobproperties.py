# SPDX-License-Identifier: Apache-2.0
"""Write the list of the properties that a job of Hadoop can set.

    tools/jobproperties.py DIRECTORY >hvstack/share/hadoop/job-properties.yaml

DIRECTORY contains the jars of a release, such as the one that
``hvstack image build hadoop`` downloads. Names and defaults are those of its
``*-default.xml`` files.
"""

import html
import re
import sys
import zipfile
from pathlib import Path

import yaml

#: Jar and file of each list of defaults, and what a job sets of it: the other
#: properties are those of daemons.
_SOURCES = (
    (
        'hadoop-mapreduce-client-core',
        'mapred-default.xml',
        r'mapreduce\.(?!jobhistory|shuffle|cluster|framework|application|admin|'
        r'client\.submit|job\.(maps|reduces)$).*|'
        r'yarn\.app\.mapreduce\.(am|task)\.(?!staging|admin).*',
    ),
    (
        'hadoop-hdfs',
        'hdfs-default.xml',
        r'dfs\.client[.-].*|dfs\.bytes-per-checksum|dfs\.stream-buffer-size',
    ),
    ('hadoop-common', 'core-default.xml', r'io\..*'),
)


_COMMENT = re.compile(r'<!--.*?-->', re.DOTALL)
_PROPERTY = re.compile(r'<property>(.*?)</property>', re.DOTALL)


def _find(row: str, tag: str) -> str:
    """Return the text of an element on a single line; empty without one."""
    match = re.search(rf'<{tag}>(.*?)</{tag}>', row, re.DOTALL)
    return ' '.join(match[1].split()) if match else ''


def main() -> None:
    """Print the list."""
    directory = Path(sys.argv[1])
    defaults = {}
    version = ''
    for artifact, name, pattern in _SOURCES:
        (jar,) = (
            path
            for path in directory.glob(f'{artifact}-*.jar')
            if re.fullmatch(rf'{artifact}-[\d.]+\.jar', path.name)
        )
        version = jar.stem.rpartition('-')[2]
        with zipfile.ZipFile(jar) as archive:
            text = _COMMENT.sub('', archive.read(name).decode())
        for row in _PROPERTY.findall(text):
            key = _find(row, 'name')
            if re.fullmatch(pattern, key):
                defaults[key] = html.unescape(_find(row, 'value'))
    print('# SPDX-License-Identifier: Apache-2.0')
    print('# Properties that a job of Hadoop can set, with their defaults.')
    print('# Written by tools/jobproperties.py.')
    yaml.safe_dump(
        {'release': version, 'defaults': dict(sorted(defaults.items()))},
        sys.stdout,
        sort_keys=False,
        width=79,
    )


if __name__ == '__main__':
    main()
