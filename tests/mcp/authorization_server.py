"""An authorization server (Authlib) and the MCP server that it protects (the official SDK), on two ports of one process.

Refresh tokens are taken once; one that comes a second time ends every token of its login, as OAuth 2.1 has it. What was asked of
the server is counted, and told at `/test/counts`. `/test/hold` holds refreshes back; then `/test/release` lets them go on, and
`/test/drop` ends them undone. `/test/expire` ends all access tokens.

    python authorization_server.py AUTHORIZATION_PORT MCP_PORT
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass, field

import uvicorn
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, Response, jsonify, request
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import MCPServer
from werkzeug.serving import make_server

CLIENT_ID = "helve-agent"
REDIRECT_URI = "http://127.0.0.1/callback"
USER = "ann"
# The token of a login is worth nothing by the time it is used: what asks for it refreshes at once.
LOGIN_EXPIRES_IN_S = 1
REFRESHED_EXPIRES_IN_S = 3600
DISCOVER_TTL_MS = 3_600_000


class Agent:
    """The one client, which is public: it has no secret."""

    client_id = CLIENT_ID

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return REDIRECT_URI

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, uri: str) -> bool:
        return uri == REDIRECT_URI

    def check_client_secret(self, secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


@dataclass
class Code:
    """An authorization code, good once."""

    code: str
    redirect_uri: str | None
    scope: str
    code_challenge: str | None
    code_challenge_method: str | None
    login: int

    def get_redirect_uri(self) -> str | None:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Token:
    """What one request to the token endpoint gave."""

    access_token: str
    refresh_token: str
    scope: str
    expires_at: float
    login: int
    refreshed: bool = False
    revoked: bool = False

    def check_client(self, client: Agent) -> bool:
        return client.client_id == CLIENT_ID

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Books:
    """Everything that the server knows."""

    codes: dict[str, Code] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: {"authorize": 0, "code": 0, "refresh": 0, "reused": 0, "discover": 0, "called": 0}
    )
    lock: threading.RLock = field(default_factory=threading.RLock)
    open: threading.Event = field(default_factory=threading.Event)
    drops: bool = False

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def find(self, access_token: str) -> Token | None:
        with self.lock:
            return next((token for token in self.tokens if token.access_token == access_token), None)

    def present(self, refresh_token: str) -> Token | None:
        """The token of a refresh token that is presented for the first time."""
        with self.lock:
            token = next((token for token in self.tokens if token.refresh_token == refresh_token), None)
            if token is None or token.revoked:
                return None
            if token.refreshed:
                self.counts["reused"] += 1
                for other in self.tokens:
                    other.revoked |= other.login == token.login
                return None
            token.refreshed = True
            return token


def authorization_server(books: Books, issuer: str, resource: str) -> Flask:
    app = Flask("authorization-server")
    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {
        "authorization_code": LOGIN_EXPIRES_IN_S,
        "refresh_token": REFRESHED_EXPIRES_IN_S,
    }

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

        def save_authorization_code(self, code: str, request) -> None:
            data = request.payload.data
            with books.lock:
                books.codes[code] = Code(
                    code, request.payload.redirect_uri, request.payload.scope or "",
                    data.get("code_challenge"), data.get("code_challenge_method"), len(books.codes) + 1,
                )

        def query_authorization_code(self, code: str, client: Agent) -> Code | None:
            return books.codes.get(code)

        def delete_authorization_code(self, code: Code) -> None:
            books.codes.pop(code.code)

        def authenticate_user(self, code: Code) -> str:
            return USER

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
            return books.present(refresh_token)

        def authenticate_user(self, token: Token) -> str:
            return USER

        def revoke_old_credential(self, token: Token) -> None:
            pass  # The old access token is valid until it expires.

    class Issuer(IssuerParameter):
        def get_issuer(self) -> str:
            return issuer

    def save_token(token: dict, request) -> None:
        credential = request.refresh_token or request.authorization_code
        expires_at = time.time() + token["expires_in"]
        with books.lock:
            books.tokens.append(
                Token(token["access_token"], token["refresh_token"], token.get("scope", ""), expires_at, credential.login)
            )

    server = AuthorizationServer(app, lambda client_id: Agent() if client_id == CLIENT_ID else None, save_token)
    server.register_grant(CodeGrant, [CodeChallenge(required=True)])
    server.register_grant(RefreshGrant)
    server.register_extension(Issuer())

    @app.get("/.well-known/oauth-authorization-server")
    def metadata() -> Response:
        return jsonify(
            issuer=issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            response_types_supported=["code"],
            grant_types_supported=["authorization_code", "refresh_token"],
            token_endpoint_auth_methods_supported=["none"],
            code_challenge_methods_supported=["S256"],
            authorization_response_iss_parameter_supported=True,
        )

    @app.get("/authorize")
    def authorize():
        books.count("authorize")
        grant = server.get_consent_grant(end_user=USER)
        return server.create_authorization_response(grant_user=USER, grant=grant)

    @app.post("/token")
    def token():
        if request.form.get("resource") != resource:
            return jsonify(error="invalid_target"), 400
        if request.form.get("grant_type") == "refresh_token":
            books.count("refresh")
            held = not books.open.is_set()
            books.open.wait()
            if held and books.drops:
                return jsonify(error="temporarily_unavailable"), 503
        else:
            books.count("code")
        return server.create_token_response()

    @app.get("/test/counts")
    def counts() -> Response:
        with books.lock:
            return jsonify(books.counts)

    @app.post("/test/hold")
    def hold() -> str:
        books.open.clear()
        return "held\n"

    @app.post("/test/release")
    def release() -> str:
        books.drops = False
        books.open.set()
        return "open\n"

    @app.post("/test/drop")
    def drop() -> str:
        books.drops = True
        books.open.set()
        return "dropped\n"

    @app.post("/test/expire")
    def expire() -> str:
        with books.lock:
            for known in books.tokens:
                known.expires_at = 0
        return "expired\n"

    return app


def mcp_server(books: Books, issuer: str, resource: str) -> MCPServer:
    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            known = books.find(token)
            if known is None or known.revoked or known.expires_at < time.time():
                return None
            return AccessToken(token=token, client_id=CLIENT_ID, scopes=[], subject=USER, resource=resource)

    async def counted(context, call_next):
        if context.method == "server/discover":
            books.count("discover")
        return await call_next(context)

    server = MCPServer(
        "protected",
        token_verifier=Verifier(),
        auth=AuthSettings(issuer_url=issuer, resource_server_url=resource, validate_token_resource=True),
        cache_hints={"server/discover": CacheHint(ttl_ms=DISCOVER_TTL_MS, scope="private")},
        middleware=[counted],
    )

    @server.tool()
    def whoami() -> str:
        """The subject of the caller's token."""
        books.count("called")
        token = get_access_token()
        return (token.subject if token else None) or "unknown"

    return server


def main() -> None:
    # Loopback has no TLS, which Authlib asks for.
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    authorization_port, mcp_port = map(int, sys.argv[1:])
    books = Books()
    books.open.set()
    issuer, resource = f"http://127.0.0.1:{authorization_port}", f"http://127.0.0.1:{mcp_port}/mcp"
    app = authorization_server(books, issuer, resource)
    login = make_server("127.0.0.1", authorization_port, app, threaded=True)
    threading.Thread(target=login.serve_forever, daemon=True).start()
    protected = mcp_server(books, issuer, resource).streamable_http_app()
    uvicorn.run(protected, host="127.0.0.1", port=mcp_port, log_level="warning")


if __name__ == "__main__":
    main()
