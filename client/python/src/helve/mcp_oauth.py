"""What an OAuth authorization server in front of MCP keeps, on a cluster.

Needs `pip install 'helve[mcp]'`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from ._async.client import AsyncClient
from ._core.names import digest
from .errors import AmbiguousError, ConflictError, HelveError
from .owner import SHARED, Owner
from .records import Record
from .transacted import Committed

_SECRET_BYTES = 32


class HelveOAuthProvider(
    OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]
):
    """Clients, codes and tokens that every replica knows; a subclass adds `authorize`.

    `authorize` asks the end user, and answers what `issue_code` answers. A code, and a refresh
    token, is exchanged once, whichever replicas are asked at once. A code that comes again after
    that ends the tokens that it gave. Codes and tokens are kept as digests: a reader of the cluster
    learns none. Whatever expires is removed by the cluster.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "oauth-server/",
        code_ttl: int = 300,
        access_ttl: int = 3600,
        refresh_ttl: int = 30 * 24 * 3600,
    ) -> None:
        """Providers of one owner and prefix are one. Lifetimes are in seconds."""
        self._client = client
        self._keys = client.keys(owner=owner)
        self._prefix = prefix
        self._code_ttl = code_ttl
        self._access_ttl = access_ttl
        self._refresh_ttl = refresh_ttl

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """A registered client, or None."""
        found = await self._keys.get(f"{self._prefix}clients/{digest(client_id)}")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps a client."""
        if not client_info.client_id:
            raise RegistrationError("invalid_client_metadata", "the client has no id")
        name = f"{self._prefix}clients/{digest(client_info.client_id)}"
        await self._keys.put(name, _plain(client_info))

    async def issue_code(
        self,
        client: OAuthClientInformationFull,
        params: AuthorizationParams,
        *,
        scopes: list[str] | None = None,
        subject: str | None = None,
    ) -> str:
        """Makes a code for what the end user granted; answers where to send the browser.

        `subject` names the end user, where the SDK has a place for it (`mcp` 2.x).
        """
        code = secrets.token_urlsafe(_SECRET_BYTES)
        grant = AuthorizationCode(
            code="",
            scopes=scopes if scopes is not None else params.scopes or [],
            expires_at=time.time() + self._code_ttl,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            **_known(AuthorizationCode, subject=subject),
        )
        await self._keys.put(self._name("codes", code), {"of": _plain(grant)}, self._code_ttl)
        target: str = construct_redirect_uri(
            str(params.redirect_uri), code=code, state=params.state
        )
        return target

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """The code, if it is this client's and was not exchanged yet."""
        found = await self._keys.get(self._name("codes", authorization_code))
        if found is None or found["of"]["client_id"] != client.client_id:
            return None
        if "spent" in found:
            await self._end(found["spent"])
            return None
        return AuthorizationCode.model_validate({**found["of"], "code": authorization_code})

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Tokens for a code, once."""
        name = self._name("codes", authorization_code.code)
        found = await self._keys.get_record(name)
        if found is None or "spent" in found.value:
            raise _spent()
        return await self._issued(authorization_code, authorization_code.scopes, found)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """The refresh token, if it is this client's."""
        found = await self._keys.get(self._name("refresh", refresh_token))
        if found is None or found["of"]["client_id"] != client.client_id:
            return None
        return RefreshToken.model_validate({**found["of"], "token": refresh_token})

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        """New tokens for a refresh token, once; the old ones end."""
        found = await self._keys.get_record(self._name("refresh", refresh_token.token))
        if found is None:
            raise _spent()
        return await self._issued(refresh_token, scopes or refresh_token.scopes, found)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """The access token, while it lives."""
        found = await self._keys.get(self._name("access", token))
        return (
            None if found is None else AccessToken.model_validate({**found["of"], "token": token})
        )

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Ends a token, and the other one that was given with it."""
        kind = "access" if isinstance(token, AccessToken) else "refresh"
        name = self._name(kind, token.token)
        found = await self._keys.get(name)
        if found is not None:
            await self._end([name, found["with"]])

    async def _issued(
        self, grant: AuthorizationCode | RefreshToken, scopes: list[str], spent: Record[Any]
    ) -> OAuthToken:
        """Spends what was granted, and writes both tokens, in one transaction."""
        access, refresh = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(2))
        names = self._name("access", access), self._name("refresh", refresh)
        transaction = self._client.transaction()
        for kind, name, other, ttl in (
            (AccessToken, names[0], names[1], self._access_ttl),
            (RefreshToken, names[1], names[0], self._refresh_ttl),
        ):
            made = kind(
                token="",
                client_id=grant.client_id,
                scopes=scopes,
                expires_at=int(time.time()) + ttl,
                **_known(
                    kind,
                    subject=getattr(grant, "subject", None),
                    resource=getattr(grant, "resource", None),
                ),
            )
            value = {"of": _plain(made), "with": other}
            transaction.put_key(self._keys, name, value, ttl, if_revision=0)
        if isinstance(grant, AuthorizationCode):
            value = {"of": spent.value["of"], "spent": list(names)}
            transaction.put_key(
                self._keys, spent.name, value, self._refresh_ttl, if_revision=spent.revision
            )
        else:
            transaction.delete_key(self._keys, spent.name, if_revision=spent.revision)
            transaction.delete_key(self._keys, spent.value["with"])
        try:
            done = await transaction.commit()
        except ConflictError as error:
            raise _spent() from error
        except AmbiguousError as error:
            await self._decide(names[0], spent, error)
        else:
            assert isinstance(done, Committed), "keys abort no transaction"
        return OAuthToken(
            access_token=access,
            expires_in=self._access_ttl,
            scope=" ".join(scopes),
            refresh_token=refresh,
        )

    async def _decide(self, written: str, spent: Record[Any], lost: AmbiguousError) -> None:
        """Returns if the exchange whose answer was lost took effect, else raises."""
        try:
            # In this order: once the grant is another record, the token says who made it so.
            held = await self._keys.get_record(spent.name)
            is_written = await self._keys.exists(written)
        except HelveError:
            raise lost from None
        if is_written:
            return
        if held is not None and held.revision == spent.revision:
            # It may still be on its way.
            raise lost
        raise _spent() from lost

    async def _end(self, names: list[str]) -> None:
        transaction = self._client.transaction()
        for name in names:
            transaction.delete_key(self._keys, name)
        await transaction.commit()

    def _name(self, kind: str, secret: str) -> str:
        hashed = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self._prefix}{kind}/{hashed}"


def _spent() -> TokenError:
    return TokenError("invalid_grant", "it was exchanged already, or has expired")


def _known(kind: Any, **fields: Any) -> dict[str, Any]:
    """Those fields that this version of the SDK has."""
    return {name: value for name, value in fields.items() if name in kind.model_fields}


def _plain(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    for secret in ("code", "token"):
        found.pop(secret, None)
    return found
