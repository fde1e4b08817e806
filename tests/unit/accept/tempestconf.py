# SPDX-License-Identifier: Apache-2.0
"""A tempest.conf for one test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fixtures
import testtools
from oslo_config import cfg
from tempest import config

from hvstack.accept.tempest_conf import Workspace


def configure(
    test: testtools.TestCase, values: Mapping[str, Mapping[str, Any]]
) -> None:
    """Have Tempest read these options, by group, until the test has ended."""
    workspace = Workspace(Path(test.useFixture(fixtures.TempDir()).path))
    workspace.write(values)
    conf = cfg.ConfigOpts()
    for name, options in config.list_opts():
        conf.register_opts(options, group=name)
    conf([], default_config_files=[str(workspace.conf)])
    test.useFixture(fixtures.MonkeyPatch('tempest.config.CONF._config', conf))
