# SPDX-License-Identifier: Apache-2.0
"""Service configuration from the templates in ``etc/lab``."""

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from hvstack import errors, paths, share, speed
from hvstack.lab import constants


@cache
def _environment(root: Path) -> jinja2.Environment:
    # Configuration files, not HTML: quoting would break them.
    return jinja2.Environment(  # noqa: S701
        loader=jinja2.FileSystemLoader(root),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def scaled(seconds: int) -> int:
    """Return a service's timeout for this machine, in seconds.

    :param seconds: the timeout on an ordinary server.
    """
    return round(seconds * speed.factor())


def render(template: str, context: dict[str, Any] | None = None) -> str:
    """Return a template's text, filled.

    :param template: its path below ``etc/lab``.
    :param context: names beside those of
        :func:`hvstack.lab.constants.context`.
    :raises hvstack.errors.InputError: it names something unknown.
    """
    names = {'scaled': scaled, **constants.context(), **(context or {})}
    try:
        return _environment(share.LAB).get_template(template).render(names)
    except jinja2.TemplateError as exc:
        raise errors.InputError(
            f'Cannot render template {share.LAB / template}: '
            f'{str(exc).removesuffix(".")}. Correct the template.'
        ) from exc


def write(
    template: str,
    target: Path,
    *,
    mode: int = 0o600,
    context: dict[str, Any] | None = None,
) -> bool:
    """Fill a template into a file, if that changes the file.

    :param mode: permission bits; most files hold passwords.
    :returns: whether the file is another one than before, so that whoever
        reads it must be restarted.
    """
    text = render(template, context)
    if target.exists() and target.read_text(encoding='utf-8') == text:
        target.chmod(mode)
        return False
    paths.write_whole(target, text, mode=mode)
    return True
