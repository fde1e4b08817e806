# SPDX-License-Identifier: Apache-2.0
"""Tempest plugin of hvstack, which Tempest loads by its entry point."""

from pathlib import Path

from oslo_config import cfg
from tempest import config
from tempest.test_discover import plugins

from hvstack.tempest_plugin.config import GROUP, OPTIONS


class HVStackTempestPlugin(plugins.TempestPlugin):
    """Tests and options of hvstack."""

    def load_tests(self) -> tuple[str, str]:
        """Return the directories of the tests and of the package's parent."""
        package_dir = Path(__file__).resolve().parent
        return str(package_dir / 'tests'), str(package_dir.parent.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        """Add the group ``[hvstack]``."""
        config.register_opt_group(conf, GROUP, OPTIONS)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        """Return the options, for Tempest's sample."""
        return [(GROUP.name, list(OPTIONS))]
