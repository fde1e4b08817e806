# SPDX-License-Identifier: Apache-2.0
"""The lab's mechanism drivers in the environment of Neutron.

Neutron loads drivers by entry points, which only a distribution has.
"""

import shutil

from hvstack import share
from hvstack.lab import venv

_MODULE = 'hvstack_ml2'
_DRIVERS = {
    'hvstack_fake': 'FakeMechanismDriver',
    'hvstack_macvtap': 'MacvtapMechanismDriver',
}
#: Module of earlier versions, whose entry points would be there twice.
_FORMER_MODULE = 'hvstack_fake_ml2'


def install() -> None:
    """Put the drivers into the environment of the services."""
    site = venv.site_packages()
    (site / f'{_FORMER_MODULE}.py').unlink(missing_ok=True)
    shutil.rmtree(site / f'{_FORMER_MODULE}-1.0.dist-info', ignore_errors=True)
    shutil.copyfile(
        share.LAB / 'neutron' / 'mechanism_drivers.py', site / f'{_MODULE}.py'
    )
    info = site / f'{_MODULE}-1.0.dist-info'
    info.mkdir(exist_ok=True)
    (info / 'METADATA').write_text(
        f'Metadata-Version: 2.1\nName: {_MODULE}\nVersion: 1.0\n',
        encoding='utf-8',
    )
    lines = [f'{name} = {_MODULE}:{item}' for name, item in _DRIVERS.items()]
    (info / 'entry_points.txt').write_text(
        '\n'.join(['[neutron.ml2.mechanism_drivers]', *lines, '']),
        encoding='utf-8',
    )
