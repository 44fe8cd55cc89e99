"""Access to the course's Jupyter servers: from this machine, with a token or a password."""

import re
from collections.abc import Sequence

from jupyter_server.auth import PasswordIdentityProvider
from traitlets import validate

ADDRESS = re.compile(r"--(\w+\.)?ip(=|$)")
TOKEN = re.compile(r"--\w+\.(token|identity_provider_class)(=|$)")


class TokenOrPassword(PasswordIdentityProvider):
    """Asks for a password or a token, even if the user's Jupyter configuration has an empty token."""

    @validate("token")
    def _make_up_for_empty(self, proposal):
        return proposal["value"] or self._token_default()


def private(arguments: Sequence[str]) -> list[str]:
    """Return options that keep others out of a Jupyter server, except those that its `arguments` choose themselves.

    The user's own configuration may open other servers: an empty token, or an address that the network can reach.
    """
    options = {
        ADDRESS: "--ServerApp.ip=127.0.0.1",
        TOKEN: "--ServerApp.identity_provider_class=course.lab.access.TokenOrPassword",
    }
    return [option for chosen, option in options.items() if not any(map(chosen.match, arguments))]
