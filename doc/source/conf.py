# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration: the guides, the reference and the manual page.

Nothing is fetched: the build needs neither a network nor a git repository.
"""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'ext'))


def _is_no_git_warning(entry: logging.LogRecord) -> bool:
    """Return whether the theme only reports that it has no repository."""
    return 'cannot get gitsha' in str(entry.msg)


# The theme links to the commit. In a source distribution there is none, which
# is no fault of the documentation.
logging.getLogger('sphinx.openstackdocstheme.ext').addFilter(
    lambda entry: not _is_no_git_warning(entry)
)

project = 'hvstack'
copyright = 'the hvstack authors'
extensions = [
    'cliff.sphinxext',
    'hvstack_reference',
    'myst_parser',
    'openstackdocstheme',
    'oslo_config.sphinxext',
]
html_theme = 'openstackdocs'
html_theme_options = {'display_badge': False}
html_static_path = ['_static']
html_css_files = ['hvstack.css']
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_repo_name = 'hvstack'
# Markdown pages link to headings by the names that Git hosting sites give
# them, and use the directives of Sphinx with colons.
myst_heading_anchors = 4
myst_enable_extensions = ['colon_fence', 'deflist']
autoprogram_cliff_application = 'hvstack'
config_generator_config_file = []

# Options begin with two hyphens, not with a dash.
smartquotes = False

# The manual page describes all commands, as the reference does: it is built
# alone, and is no page of the site.
if tags.has('man'):  # noqa: F821
    root_doc = 'man/hvstack'
    include_patterns = ['man/**']
else:
    exclude_patterns = ['man']
man_pages = [
    (
        'man/hvstack',
        'hvstack',
        'flavors, clusters and benchmarks of virtualized Hadoop on OpenStack',
        ['the hvstack authors'],
        1,
    )
]
