# SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages of this directory, commands and options of hvstack."""

project = 'hvstack'
copyright = 'the hvstack authors'
extensions = [
    'cliff.sphinxext',
    'myst_parser',
    'openstackdocstheme',
    'oslo_config.sphinxext',
]
exclude_patterns = ['build']
html_theme = 'openstackdocs'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
# Links to headings of pages, as Git hosting sites make them.
myst_heading_anchors = 4
autoprogram_cliff_application = 'hvstack'
# Without network: neither other projects' indexes nor a repository's tags.
suppress_warnings = ['myst.header']
